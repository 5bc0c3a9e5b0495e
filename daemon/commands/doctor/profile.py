"""Which paths JSON records have, how often, and with which values. Pure.

Values are kept as hashes, so that a profile can say that two paths have the same ones, and show
none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

MOST_VALUES: Final = 10_000
"""Distinct values of a path that are counted; later ones are not."""
MOST_PATHS: Final = 2_000
MOST_DEPTH: Final = 8
"""Deeper members are left out, and of an array all elements but the first ones."""
MOST_ELEMENTS: Final = 20
EACH: Final = "[]"
"""Stands for the elements of an array in a path."""
FIRST: Final = " | [0]"
"""Ends the path of what a filter has found."""
KEYS: Final = ("key", "name")
"""Members by which arrays of objects are tables of keys and values."""
ATTRIBUTE: Final = "ce('{}')"
"""The member that stands for an attribute of a CloudEvent, which is also the expression for it."""
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|ce\('[a-z0-9]+'\)")
"""Other names of members are quoted in JMESPath."""
KINDS: Final = {str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}


@dataclass
class Path:
    """One path, over all records."""

    path: str
    records: int = 0
    """That have it."""
    kinds: Counter[str] = field(default_factory=Counter)
    """text, number, boolean, null, object or array → values."""
    hashes: set[int] = field(default_factory=set)
    """Of at most MOST_VALUES distinct texts and numbers."""
    lengths: Counter[int] = field(default_factory=Counter)
    """Of arrays."""

    @property
    def is_scalar(self) -> bool:
        """Whether most of its values are text or numbers."""
        scalars = self.kinds["text"] + self.kinds["number"]
        return 2 * scalars > self.kinds.total()


@dataclass
class Profile:
    """The paths of some records."""

    records: int = 0
    paths: dict[str, Path] = field(default_factory=dict)
    values: list[dict[str, int]] = field(default_factory=list)
    """For each record, path → the hash of its text or number, outside of arrays."""

    def note(self, value: Any) -> None:
        """Take a record in, which is any JSON value."""
        self.records += 1
        seen, own = set[str](), dict[str, int]()
        for path, found in _walk(value, "", 0):
            known = self.paths.get(path)
            if known is None:
                if len(self.paths) >= MOST_PATHS:
                    continue
                known = self.paths[path] = Path(path)
            if path not in seen:
                seen.add(path)
                known.records += 1
            _note(known, found, own)
        self.values.append(own)


def profiled(values: Iterable[Any]) -> Profile:
    """The profile of some JSON values."""
    profile = Profile()
    for value in values:
        profile.note(value)
    return profile


def hash_of(value: str | int | float) -> int:
    """The hash of a text or a number, by which equal ones are found; of this process only."""
    return hash(str(value))


def _note(known: Path, found: Any, own: dict[str, int]) -> None:
    kind = KINDS.get(type(found))
    if kind is None:
        kind = "array" if isinstance(found, list) else "object"
        if kind == "array":
            known.lengths[len(found)] += 1
    known.kinds[kind] += 1
    if kind in ("text", "number"):
        hashed = hash_of(found)
        if len(known.hashes) < MOST_VALUES:
            known.hashes.add(hashed)
        if EACH not in known.path:
            own[known.path] = hashed


def _walk(value: Any, path: str, depth: int, suffix: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of all members. `suffix` ends the path of what a filter has found."""
    if path:
        yield path + suffix, value
    if depth >= MOST_DEPTH:
        return
    if isinstance(value, dict):
        for name, member in value.items():
            step = name if _PLAIN.fullmatch(name) else msgspec.json.encode(name).decode()
            yield from _walk(member, f"{path}.{step}" if path else step, depth + 1, suffix)
    elif isinstance(value, list):
        yield from _walk_array(value, path, depth, suffix)


def _walk_array(value: list[Any], path: str, depth: int, suffix: str) -> Iterator[tuple[str, Any]]:
    """All elements; besides, objects as the first of their array, and by the key that they have."""
    for element in value[:MOST_ELEMENTS]:
        yield from _walk(element, path + EACH, depth + 1, suffix)
    if suffix or not value or not isinstance(value[0], dict):
        return
    yield from _walk(value[0], f"{path}[0]", depth + 1)
    for element in value[:MOST_ELEMENTS]:
        for name in KEYS:
            key = element.get(name) if isinstance(element, dict) else None
            if isinstance(key, str) and _PLAIN.fullmatch(key):
                rest = {member: of for member, of in element.items() if member != name}
                yield from _walk(rest, f"{path}[?{name}=='{key}']", depth + 1, FIRST)


def plain_members(value: Any) -> dict[str, Any]:
    """Path → text or number of a record, outside of arrays."""
    return {path: member for path, member in scalars(value) if not isinstance(member, bool)}


def scalars(value: Any) -> Iterator[tuple[str, str | int | float | bool]]:
    """(path, text, number or truth value) of a record, outside of arrays."""
    for path, member in _walk(value, "", 0):
        if "[" not in path and isinstance(member, str | int | float):
            yield path, member
