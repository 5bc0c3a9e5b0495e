"""Attributes worth grouping by: members of lists that are texts of few values. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from .profile import EACH, KEYS, Path, Profile
from .toml import toml

MOST_VALUES: Final = 50
LEAST_LISTS: Final = 4
"""Lists for each value: with fewer it may be an id."""
LEAST_PRESENT: Final = 0.5
"""Of the lists must have it."""
MOST_ATTRIBUTES: Final = 6
_OF_KEY: Final = re.compile(rf"\[\?(?:{'|'.join(KEYS)})=='(\w+)'\]\.[\w.]+ \| \[0\]$")
"""The value of a key in an array of keys and values."""


def attributes(lists: Profile, used: Collection[str | None]) -> dict[str, str]:
    """Name → path of the attributes of lists, without paths that are used otherwise."""
    found: dict[str, str] = {}
    for path in lists.paths.values():
        name = _name(path.path)
        if name is not None and path.path not in used and _is_fit(path, lists.records):
            found.setdefault(name, path.path)
    return dict(list(found.items())[:MOST_ATTRIBUTES])


def attribute_line(paths: Mapping[str, str]) -> str:
    """The key as TOML."""
    pairs = ", ".join(f"{name} = {toml(path)}" for name, path in paths.items())
    return f"attributes = {{ {pairs} }}  # texts of few values"


def expressions(table: Any) -> Iterator[str]:
    """All texts in a table of a preset."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, Mapping | list):
        for member in table.values() if isinstance(table, Mapping) else table:
            yield from expressions(member)


def _name(path: str) -> str | None:
    """The name of an attribute at this path; None where it is in an array, or no name."""
    if (of_key := _OF_KEY.search(path)) is not None:
        return of_key[1] if of_key[1].isidentifier() else None
    name = path.rpartition(".")[2]
    return name if EACH not in path and "[" not in path and name.isidentifier() else None


def _is_fit(path: Path, lists: int) -> bool:
    is_text = path.kinds["text"] == path.kinds.total()
    values = len(path.hashes)
    often = path.records >= max(LEAST_PRESENT * lists, LEAST_LISTS * values)
    return is_text and often and 2 <= values <= MOST_VALUES
