"""The metric that `metrics/README.md` adds passes the tests and the linters as it is printed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.conftest import ROOT

README: Final = ROOT / "metrics" / "README.md"
BLOCK: Final = re.compile(
    r"^\d\. [^`]*?(?:in `(?P<table>[A-Z]+)` of )?[^`]*?`(?P<file>[\w/]+\.py)`"
    r".*?^```python\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
"""A step: the file, the table in it if the code is an entry of a table, and the code."""
FAMILY: Final = "Perfect"
TESTS: Final = ("test_laws.py", "test_catalog.py", "test_examples.py")


def pasted(text: str, code: str, table: str | None) -> str:
    """The file with the code inserted as first entry of the table, or appended."""
    if table is None:
        return f"{text}\n\n{code}"
    opened = re.search(rf"^{table}: .* = {{\n", text, re.MULTILINE)
    assert opened is not None, f"no table {table}"
    return text[: opened.end()] + code + text[opened.end() :]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and its tests, with the code of the README pasted in."""
    folder = tmp_path_factory.mktemp("adding")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "metrics", folder / "relevanced" / "metrics", ignore=ignored)
    shutil.copytree(ROOT / "tests" / "metrics", folder / "tests" / "metrics", ignore=ignored)
    section = README.read_text().partition("## Adding a metric")[2].partition("\n## ")[0]
    steps = list(BLOCK.finditer(section))
    assert len(steps) == section.count("```python")
    for step in steps:
        where = step["file"] if step["file"].startswith("tests/") else f"relevanced/{step['file']}"
        file = folder / where
        file.write_text(pasted(file.read_text(), step["code"], step["table"]))
    return folder


def check(folder: Path, *command: str) -> str:
    """Run a Python module in the copy and return its output; fails with the output."""
    result = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{ROOT}", "MYPYPATH": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_metric_of_the_readme_obeys_the_laws(copy: Path) -> None:
    tests = [str(copy / "tests" / "metrics" / name) for name in TESTS]
    settings = (f"--rootdir={copy}", f"--config-file={ROOT / 'pyproject.toml'}", "--noconftest")
    selected = f"{FAMILY} or oracle or entry or precision or catalog or public"
    output = check(copy, "pytest", *settings, "-p", "tests.conftest", "-v", "-k", selected, *tests)
    assert f"[{FAMILY}]" in output and f"[{FAMILY}@3]" in output


def test_metric_of_the_readme_passes_flake8_and_black(copy: Path) -> None:
    files = ("relevanced/metrics", "tests/metrics/oracles.py")
    check(copy, "flake8", f"--config={ROOT / '.flake8'}", *files)
    check(copy, "black", "--check", f"--config={ROOT / 'pyproject.toml'}", *files)


def test_metric_of_the_readme_passes_mypy(copy: Path) -> None:
    """The cache is kept between runs: the types of numpy take most of the time."""
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'adding'}"
    settings = f"--config-file={ROOT / 'pyproject.toml'}"
    check(copy, "mypy", settings, cache, "-p", "relevanced.metrics")
