"""The judged rows of one lane: those of panes and hours, the files that grade, and the lists that a
batch shows. Pure data, and like all rows a function of the log and of the files.

`attribution` notes each list as its record is read; `judged_settling` grades them at the end of the
batch, and adds final panes to their hours.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from relevanced.metrics.lists import Integers

from ..judgements.grades import Judgements
from ..judgements.index import Entry
from ..judgements.scoring import NO_ITEM, JudgedPlan
from ..judgements.timeline import NOTHING_READ, Timeline
from ..plan import Plan
from .judged import Grader, row_width
from .query_keys import QueryKeys
from .row_set import RowSet

BEFORE_ALL_MS: Final = -(2**62)
"""The watermark of a topic-partition before its first event."""
_decode_items = msgspec.json.Decoder(list[str | None]).decode


def items_of(text: bytes) -> Sequence[str]:
    """The items of a list as it is stored; NO_ITEM for a blank."""
    return [NO_ITEM if item is None else item for item in _decode_items(text)]


class DecodedLists(Mapping[int, Sequence[str]]):
    """Lists by index, decoded when they are asked for."""

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        self._texts = texts

    def __getitem__(self, index: int) -> Sequence[str]:
        return items_of(self._texts[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, index: object) -> bool:
        return index in self._texts


class ShownInBatch:
    """The lists that records of a batch gave or changed, in the order of the records. Nothing is
    noted of impressions of slots before `from_slot`."""

    def __init__(self, from_slot: int = 0) -> None:
        self._from_slot = from_slot
        self._slots, self._watermarks = array("q"), array("q")
        self.before: dict[int, bytes] = {}
        """Index → the list as text until then, where a record changed one."""
        self.now: dict[int, bytes] = {}
        """Index → what it changed it to."""

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, slot: int, watermark_ms: int) -> None:
        """Note a new impression, whose record met this watermark."""
        if slot < self._from_slot:
            return
        self._slots.append(slot)
        self._watermarks.append(watermark_ms)

    def add_many(self, first_slot: int, watermarks_ms: Integers) -> None:
        """Note new impressions of consecutive slots."""
        left_out = max(self._from_slot - first_slot, 0)
        first_slot, watermarks_ms = first_slot + left_out, watermarks_ms[left_out:]
        slots = np.arange(first_slot, first_slot + len(watermarks_ms), dtype=np.int64)
        self._slots.frombytes(slots.tobytes())
        self._watermarks.frombytes(watermarks_ms.astype(np.int64).tobytes())

    def change(self, slot: int, watermark_ms: int | None, before: bytes, now: bytes) -> None:
        """Note that a record changed the list of an open impression."""
        if slot < self._from_slot:
            return
        self.before[len(self)], self.now[len(self)] = before, now
        self.add(slot, BEFORE_ALL_MS if watermark_ms is None else watermark_ms)

    @property
    def slots(self) -> Integers:
        """(n,) of the impressions."""
        return np.array(self._slots, np.int64)

    @property
    def watermarks_ms(self) -> Integers:
        """(n,) that the records met."""
        return np.array(self._watermarks, np.int64)


@dataclass
class LaneJudged(RowSet):
    """The judged rows of one lane."""

    plan: JudgedPlan
    grader: Grader
    timeline: Timeline | None = None
    """The files that are or will be in force; None: the lane has graded nothing, and takes the
    whole index."""
    past: tuple[Entry, ...] = ()
    """Files that have left the timeline and were in force in an hour that is kept."""
    judgements: Mapping[Entry, Judgements] = field(default_factory=dict)
    """Of each file of the timeline, given before each batch."""
    latest_ms: int = NOTHING_READ
    """The latest event time of the lane: see `timeline.prepared`."""
    since_ms: int = 0
    """The first hour that has judged rows; 0: all have."""
    from_slot: int = 0
    """Impressions of earlier slots do not count: they were accepted before the rows began."""
    final_before: int | None = None
    """Rows of base panes that start before this instant are final, and in their hours; None while
    there is no watermark."""
    keys: QueryKeys = field(default_factory=QueryKeys)
    """Of open impressions, where no tables of queries are kept."""
    shown: ShownInBatch = field(default_factory=ShownInBatch)
    """Lists that the batch showed and that are not graded yet."""

    def prepare(self, timeline: Timeline, judgements: Mapping[Entry, Judgements]) -> None:
        """Set by which files the next batch is graded. `judgements` has all of the timeline."""
        self.timeline, self.judgements = timeline, judgements


def judged_rows_of(plan: Plan) -> LaneJudged | None:
    """Those of a lane that begins; None where nothing is judged."""
    if plan.judged is None:
        return None
    return LaneJudged(plan.judged, Grader(plan.judged, plan.timing), width=row_width(plan.judged))
