"""What stands where: a bare top level, complete packages, no word of the place of making."""

import re
import subprocess
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parent.parent
TOP_LEVEL: Final = frozenset(
    "pyproject.toml daemon metrics deploy tests README.md Makefile LICENSE CHANGELOG.md".split()
)
FOREIGN: Final = re.compile(
    r"(?<![\w.])/(work|root|tmp/spec)\b"  # folders of one machine
    r"|\bDESIGN(\.md| \d)|\bshared/(reference|golden/\w+\.md)"  # texts that are not in the project
    r"|\b(pypi\.org|pythonhosted\.org|repo\d?\.maven\.|deb\.debian\.org|registry\.npmjs)"
    r"|\b(extra-)?index-url\b"
)
DEFINES_THE_WORDS: Final = "tests/test_layout.py"


def project_files() -> list[str]:
    """The files that are, or would be, committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def strangers(names: list[str]) -> list[str]:
    """What stands at the top level and has no business there."""
    tops = {name.partition("/")[0] for name in names}
    return sorted(top for top in tops if top not in TOP_LEVEL and not top.startswith("."))


def foreign_words(text: str) -> list[str]:
    return [found[0] for found in FOREIGN.finditer(text)]


def setuptools_settings() -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return dict(settings["tool"]["setuptools"])


def product_files(suffix_is_python: bool) -> list[Path]:
    paths = [Path(name) for name in project_files()]
    return [
        path
        for path in paths
        if path.parts[0] in ("daemon", "metrics") and (path.suffix == ".py") == suffix_is_python
    ]


def test_top_level_stays_bare() -> None:
    assert not strangers(project_files())


def test_stranger_at_top_level_is_found() -> None:
    assert strangers(["README.md", "docs/a.md", ".ci/run", "setup.py"]) == ["docs", "setup.py"]


def test_no_file_names_the_place_it_was_made_in() -> None:
    found = {
        name: words
        for name in project_files()
        if name != DEFINES_THE_WORDS
        and (words := foreign_words((ROOT / name).read_text(errors="replace")))
    }
    assert not found


@pytest.mark.parametrize("text", ["see /work/main/x", "DESIGN 7", "--index-url=x", "at pypi.org"])
def test_foreign_word_is_found(text: str) -> None:
    assert foreign_words(text)


def test_every_package_is_installed() -> None:
    """Sub-packages are listed by hand: one that is forgotten would be missing from the wheel."""
    packages = {".".join(("relevanced", *path.parent.parts)) for path in product_files(True)}
    listed = setuptools_settings()
    assert packages == set(listed["packages"])
    folders = {package.removeprefix("relevanced.").replace(".", "/") for package in packages}
    assert folders == set(listed["package-dir"].values())


def test_every_data_file_is_installed() -> None:
    patterns = setuptools_settings()["package-data"]
    forgotten = [
        str(path)
        for path in product_files(False)
        if not any(
            fnmatchcase(path.name, pattern)
            for pattern in patterns[".".join(("relevanced", *path.parent.parts))]
        )
    ]
    assert not forgotten


def test_constraints_pin_versions_with_hashes_only() -> None:
    lines = (ROOT / ".constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.lstrip().startswith("#")]
    assert pins
    marker = r"( ; [\w. <>=\"']+)?"
    allowed = rf"[\w.-]+==[\w.]+{marker} \\|    --hash=sha256:[0-9a-f]{{64}}( \\)?"
    assert not [pin for pin in pins if not re.fullmatch(allowed, pin)]
