"""Hours that were filled from a log or from files, as they are stored beside the lanes. Pure.

Keys of the past of a namespace, after its prefix `{NAMESPACE:past}:`

    fillings              hash: number → a `Filling` that is published; numbers count from 1
    run                   token of the process that fills; expires unless renewed
    staged                set: the ids of fillings that are not published
    ID:keys               set: the other keys of a filling
    ID:names:PART         (grouping, segment) by the segment ids of one part
    ID:hours:PART:START:PAGE   page PAGE of the rows of the hour that begins at START (ms)

A filling is written by the page, by one process, and published at once. Then it never changes. It
has a part for each lane of the log: the segment ids of each are its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from ..errors import Damaged
from ..plan import COUNT_COLUMNS, METRIC_COLUMNS, WEIGHT_COLUMNS
from .layouts import StoredLayout
from .packing import PackingError, pack, unpack, unpack_page

PAST: Final = "past"
"""In the place of a lane's number."""


class Filling(msgspec.Struct, array_like=True, frozen=True):
    """Whole hours that were counted from a log or from files."""

    id: str
    layout: StoredLayout
    """The layout that they were counted under."""
    groupings: tuple[str, ...]
    """`Plan.grouping_ids`, which are the names of its groupings, with that of the whole."""
    first_ms: int
    """Start of its first hour."""
    until_ms: int
    """End of its last hour."""
    source: str
    """Where the events came from, for people."""
    keys: int
    """How many values it has."""


Names = tuple[tuple[str, str], ...]
"""(grouping, segment) by segment id."""


@dataclass(frozen=True)
class Part:
    """One part of a filling, as it is stored."""

    names: Names
    hours: Mapping[int, Mapping[int, bytes]]
    """Start of an hour → page → rows."""


@dataclass(frozen=True)
class StoredPast:
    """A filling with its rows."""

    filling: Filling
    parts: Sequence[Part]
    lost: frozenset[int]
    """Starts of hours of which the store has lost rows."""


def names_key(id_: str, part: int) -> str:
    """Return the key of the names of a part."""
    return f"{id_}:names:{part}"


def hour_key(id_: str, part: int, start: int, page: int) -> str:
    """Return the key of a page of an hour of a part."""
    return f"{id_}:hours:{part}:{start}:{page}"


def packed(value: Filling | Names) -> bytes:
    """Return a filling, or names, as it is stored."""
    return pack(value)


def unpacked(data: bytes) -> Filling:
    """Return the filling that was packed. Raises Damaged."""
    with _readable("the filled hours"):
        return unpack(data, Filling)


def past_of(filling: Filling, blobs: Mapping[str, bytes | None]) -> StoredPast:
    """Return a filling with its rows, from the values of its keys; None: the value is lost. Takes
    a while: pages are read once to know that they can be. Raises Damaged where names are lost, or
    which keys there were."""
    with _readable(f"the filled hours {filling.id}"):
        return _past_of(filling, blobs)


def _past_of(filling: Filling, blobs: Mapping[str, bytes | None]) -> StoredPast:
    if len(blobs) < filling.keys:
        raise ValueError(f"{len(blobs)} of {filling.keys} keys are left")
    layout = filling.layout
    width = len(COUNT_COLUMNS) + len(METRIC_COLUMNS) * len(layout.columns)
    width += 0 if layout.surfaces is None else len(WEIGHT_COLUMNS)
    names, hours, lost = dict[int, Names](), dict[int, dict[int, dict[int, bytes]]](), set[int]()
    for key, data in blobs.items():
        _, kind, *numbers = key.split(":")
        if kind == "names":
            if data is None:
                raise ValueError("the names of its segments are gone")
            names[int(numbers[0])] = unpack(data, Names)
            continue
        part, start, page = map(int, numbers)
        if data is None or not _is_page(data, width):
            lost.add(start)
        else:
            hours.setdefault(part, {}).setdefault(start, {})[page] = data
    parts = [Part(names[part], hours.get(part, {})) for part in sorted(names)]
    return StoredPast(filling, parts, frozenset(lost))


def _is_page(data: bytes, width: int) -> bool:
    try:
        return int(unpack_page(data).shape[1]) == width
    except (ValueError, PackingError):
        return False


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, PackingError) as error:
        raise Damaged(f"{what} cannot be read ({type(error).__name__}: {error})") from error
