"""Which tests are in `make test`, and which follow in `make test-rest`.

A test is of the rest, and has the mark `rest`, where

* the longest path in `TABLE` that its id begins with says so, or
* its seed is not among the first three (`tests/seeds.py`).

`make test` is `pytest -m "not rest"`, `make test-rest` is `pytest -m rest`: together they are
`make test-all`, and no test is in both.
"""

from pathlib import Path
from typing import Final, Literal

import pytest

Target = Literal["test", "rest", "all"]

TEST: Final = "test"
REST: Final = "rest"
TABLE: Final = {
    "tests": TEST,
    "tests/bench": REST,
    "tests/chaos": REST,
    "tests/deploy": REST,
    "tests/fuzz": REST,
    "tests/page": REST,
    "tests/services": REST,
    "tests/services/test_layout_registry.py": TEST,
    "tests/services/test_redis_store.py": TEST,
    "tests/soak": REST,
    "tests/trial": REST,
}
"""Beginning of the path or id of a test, and where it belongs; the longest that fits decides."""
MARKS: Final = {"test": "not rest", "rest": "rest", "all": ""}
"""What pytest selects for a target."""


def place_of(test_id: str) -> str:
    """What the table says of a test or a file."""
    fits = [
        path for path in TABLE if test_id.startswith(path) and test_id[len(path) :][:1] in "/:["
    ]
    return TABLE[max(fits, key=len)]


def has_quick_tests(file: str) -> bool:
    """Whether a file may have tests of `make test`."""
    return place_of(file) == TEST or any(
        path.startswith(f"{file}::") for path, place in TABLE.items() if place == TEST
    )


def test_files(root: Path) -> list[str]:
    """The files with tests, as paths below `root`."""
    return sorted(path.relative_to(root).as_posix() for path in root.glob("tests/**/test_*.py"))


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if place_of(item.nodeid) == REST:
            item.add_marker("rest")
