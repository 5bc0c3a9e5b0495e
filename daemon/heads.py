"""The head of a lane in the store, and the names of its keys. Pure.

Keys of a lane, behind its prefix:

    head            hash: token, sequence, offsets, watermarks, counts, idle mark, start, state; and
                    while keys of a former life may be left, the mark `unswept`
    names           hash: segment number → [grouping number, segment]
    open:N          a block of open state (see `blocks`)
    rows:W:START:P  page P of the rows of one pane of window number W
    totals:P        page P of the cumulative totals
    experiment:H    an experiment, and parts of its users (see `experiments.keeping`)
    hours:START:P   page P of the rows of an hour that has settled, or is about to
    admitted        values of each grouping that were let in, per topic
    changes         sorted set: key of rows or totals → sequence that wrote it last, for readers;
                    every other key of the lane's state → 0
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from relevanced.daemon import hours
from relevanced.daemon.errors import Damaged
from relevanced.daemon.experiments.keeping import Tracked
from relevanced.daemon.packing import PackingError, unpack
from relevanced.daemon.views import PaneKey

ADMITTED_KEY: Final = "admitted"


class BlockEntry(msgspec.Struct, array_like=True, frozen=True):
    """A block as the lane's head lists it: its number, what it brought, and the watermark at which
    it is over."""

    number: int
    first_slot: int
    end_slot: int
    first_serial: int
    end_serial: int
    dies_ms: int
    size: int


class LaneState(msgspec.Struct, array_like=True, frozen=True):
    """The packed part of a lane's head: what only its writer reads."""

    next_slot: int = 0
    next_serial: int = 0
    settled_before: int | None = None
    names: int = 1
    blocks: list[BlockEntry] = []
    experiments: list[Tracked] = []
    open_hour: int | None = None
    """Hourly rows that start earlier change no more."""


@dataclass(frozen=True)
class Head:
    """A lane's head as the store holds it."""

    token: str
    sequence: int
    offsets: Mapping[str, int]
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    state: LaneState = LaneState()
    idle_ms: int | None = None


@contextmanager
def whole_or_damaged(what: str) -> Iterator[None]:
    """Reading what is stored; raises Damaged where a part is missing or not ours."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, PackingError) as error:
        raise Damaged(
            f"{what}: a part is missing or cannot be read ({type(error).__name__}: {error})."
            " Restore Redis from a backup, or name a new redis.namespace to read the log again"
        ) from error


def head_of(fields: Mapping[str, bytes]) -> Head:
    """A head from the store's fields. Raises Damaged where it is not one."""
    with whole_or_damaged("head of a lane"):
        return _head_of(fields)


def _head_of(fields: Mapping[str, bytes]) -> Head:
    idle = fields.get("idle")
    return Head(
        token=fields["token"].decode(),
        sequence=int(fields["sequence"]),
        offsets=msgspec.json.decode(fields["offsets"], type=dict[str, int]),
        watermarks=msgspec.json.decode(fields.get("watermarks", b"{}"), type=dict[str, int | None]),
        counts=msgspec.json.decode(fields.get("counts", b"{}"), type=dict[str, dict[str, int]]),
        state=unpack(fields["state"], LaneState) if "state" in fields else LaneState(),
        idle_ms=None if idle is None else int(idle),
    )


def page_key(key: PaneKey, page: int) -> str:
    """Name of a page of rows."""
    return f"rows:{key[0]}:{key[1]}:{page}"


def totals_key(page: int) -> str:
    """Name of a page of totals."""
    return f"totals:{page}"


def parse_page_key(key: str) -> tuple[PaneKey | None, int]:
    """(pane, page) of a key that readers follow; the pane is None for totals."""
    kind, *numbers = key.split(":")
    if kind == "totals":
        return None, int(numbers[0])
    return (int(numbers[0]), int(numbers[1])), int(numbers[2])


def block_key(number: int) -> str:
    """Name of a block of open state."""
    return f"open:{number}"


def blob_keys(head: Head, listed: Sequence[str]) -> list[str]:
    """The keys to read so that a lane can be rebuilt: its blocks, its pages, and what was
    admitted. Of the hours, only those that can still change."""
    blocks = (block_key(entry.number) for entry in head.state.blocks)
    pages = (key for key in listed if not is_past(head, key))
    return [*blocks, *pages, ADMITTED_KEY]


def is_past(head: Head, key: str) -> bool:
    """True of a page of an hour that can change no more."""
    first = head.state.open_hour
    if first is None or not key.startswith(hours.PREFIX):
        return False
    return hours.parse_page_key(key)[0] < first
