"""Every public function shows an example, and every example runs."""

import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from relevanced import metrics

ROOT: Final = Path(__file__).parents[2]
MODULES: Final = sorted(
    f"relevanced.metrics.{module.name}" for module in pkgutil.iter_modules(metrics.__path__)
)
BINDINGS: Final = "relevanced.metrics.bindings"
"""Its functions are the entries of the catalog, and the laws run them all."""


def without_example(module: ModuleType) -> list[str]:
    """Public functions defined in the module without an example."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return [
        name
        for name, function in functions
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and ">>>" not in (function.__doc__ or "")
    ]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_module_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("name", [name for name in MODULES if name != BINDINGS])
def test_every_public_function_has_an_example(name: str) -> None:
    assert not without_example(importlib.import_module(name))


def run(text: str, name: str) -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    runner.run(parser.get_doctest(text, {}, name, None, 0))
    failed, tried = runner.summarize()
    assert (failed, tried > 0) == (0, True)


def test_examples_of_the_readme_run() -> None:
    """All but that of the metric to be added, which `test_adding.py` runs in a copy."""
    text = (ROOT / "metrics" / "README.md").read_text()
    before, _, rest = text.partition("## Adding a metric")
    run(before + rest.partition("\n## ")[2], "README.md")


def test_examples_of_the_guide_run_and_their_types_hold(tmp_path: Path) -> None:
    """For strict users of the package as it is installed, apart from the settings of this tree."""
    text = (ROOT / "deploy" / "guide" / "library.md").read_text()
    run(text, "library.md")
    code = tmp_path / "example.py"
    code.write_text(doctest.script_from_examples(text))
    (tmp_path / "relevanced").mkdir()
    (tmp_path / "relevanced" / "metrics").symlink_to(ROOT / "metrics")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from relevanced.metrics import parse\nname: int = parse(1).name\n")
    checked = [strict(path, tmp_path) for path in (code, wrong)]
    assert [one.returncode for one in checked] == [0, 1], checked
    assert "Found 2 errors" in checked[1].stdout


def strict(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--namespace-packages"]
    command += ["--explicit-package-bases", f"--cache-dir={folder / 'cache'}", path.name]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)
