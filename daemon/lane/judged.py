"""The judged rows of one lane, and what impressions add to them: their lists, scored by the
judgements that are in force at their own time. Pure data, and like all rows a function of the log
and of the files.

A list counts as it stands when its record is read, so no click is waited for: `attribution` notes
it then, and `scoring` grades it at the end of the batch. The rows of a pane are final once the
lane's watermark has reached its end + lateness, half an hour before those of clicks: hence a record
that meets a later watermark counts everywhere else, and not here.
"""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, cast

import msgspec
import numpy as np

from relevanced.metrics import Booleans, Integers

from ..judgements import (
    NO_ITEM,
    DatedFiles,
    Grades,
    IndexEntry,
    JudgedPlan,
    Judgements,
    Timeline,
    score,
)
from ..timing import Timing
from .gain_states import scaled
from .impression_columns import QueryKeys
from .row_sets import OptionalRows

JUDGED_COUNT_COLUMNS: Final = ("impressions", "places", "judged_places")
"""The first columns of a row: judged impressions, the places of their lists within the plan's
depth, and those of them that are judged. (scored, sum, squares) of each metric follow, and then the
same of each in the best case of the items without a judgement."""
JUDGED_METRIC_COLUMNS: Final = ("scored", "sum", "squares")
MOST_REMEMBERED: Final = 50_000
"""Scored lists of a file that are remembered: of 10 places each they take about 25 MB."""

_List: TypeAlias = tuple[str, bytes]
"""(key of the query, the list as it is stored)."""


@dataclass(frozen=True, eq=False)
class ShownLists:
    """n lists of impressions, as records give them or change them."""

    queries: Integers
    """(n,) numbers of the queries' keys in `keys`."""
    keys: QueryKeys
    times_ms: Integers
    """(n,) of the impressions, also where a later page changes the list."""
    watermarks_ms: Integers
    """(n,) of the record's topic-partition just before it; before all times where there is none."""
    texts_at: Callable[[Integers], Sequence[bytes]]
    """The lists at these indices, (k,), as JSON; asked for only where their queries are judged."""
    before: Mapping[int, bytes]
    """Index → the list until then, where a record changes one."""

    def __len__(self) -> int:
        return len(self.queries)


@dataclass(frozen=True, eq=False)
class GradedList:
    """What n lists add."""

    rows: Integers
    """(n, columns) to be added to the rows of the impression's pane and segments: of a list that
    was changed, its score now less that before."""
    is_judged: Booleans
    """(n,) whether the file that is in force judges the query and the record is not late."""
    is_late: Booleans
    """(n,) whether it judges the query and the record came too late."""


def row_width(plan: JudgedPlan) -> int:
    """The columns of a judged row."""
    return len(JUDGED_COUNT_COLUMNS) + 2 * len(JUDGED_METRIC_COLUMNS) * len(plan.metrics)


class Grader:
    """Scores lists, and remembers what lists that come often have come to.

    What it returns depends on its arguments alone.
    """

    def __init__(self, plan: JudgedPlan, timing: Timing) -> None:
        self._plan, self._timing = plan, timing
        self._remembered: dict[IndexEntry, _Remembered] = {}

    def grade(
        self,
        shown: ShownLists,
        timeline: Timeline,
        judgements: Mapping[IndexEntry, Judgements],
        since_ms: int = 0,
    ) -> GradedList:
        """Grade the lists of a batch.

        `judgements` has the file of every entry of the timeline. Impressions before `since_ms`, the
        first whole hour of the columns, are not graded.
        """
        rows = np.zeros((len(shown), row_width(self._plan)), np.int64)
        starts = np.array([entry.start_ms for entry in timeline.entries], np.int64)
        files = np.searchsorted(starts, shown.times_ms, side="right") - 1
        is_judged = self._judges(shown, files, timeline, judgements)
        is_judged &= shown.times_ms >= since_ms
        is_late = is_judged & self._is_late(shown)
        is_judged &= ~is_late
        self._keep_only(timeline)
        for file in np.unique(files[is_judged]).tolist():
            entry = timeline.entries[file]
            of_file = np.flatnonzero(is_judged & (files == file))
            self._grade(rows, shown, of_file, entry, judgements[entry].by_query)
        return GradedList(rows, is_judged, is_late)

    def _judges(
        self,
        shown: ShownLists,
        files: Integers,
        timeline: Timeline,
        judgements: Mapping[IndexEntry, Judgements],
    ) -> Booleans:
        """(n,) whether the file at this index of the timeline judges the query."""
        judges = np.zeros(len(shown), np.bool_)
        # Once for each query: most of a batch come several times.
        for file in np.flatnonzero(np.bincount(files + 1)[1:]).tolist():
            by_query = judgements[timeline.entries[file]].by_query
            of_file = files == file
            flags = np.zeros(len(shown.keys), np.bool_)
            flags[shown.queries[of_file]] = True
            queries = np.flatnonzero(flags)
            flags[queries] = [key in by_query for key in shown.keys.keys_of(queries)]
            judges[of_file] = flags[shown.queries[of_file]]
        return judges

    def _is_late(self, shown: ShownLists) -> Booleans:
        late: Booleans = shown.watermarks_ms >= self._timing.judged_until(shown.times_ms)
        return late

    def _grade(
        self,
        rows: Integers,
        shown: ShownLists,
        indices: Integers,
        entry: IndexEntry,
        by_query: Mapping[str, Grades],
    ) -> None:
        """Write the rows of the lists at `indices`, which this file judges."""
        keys = shown.keys.keys_of(shown.queries[indices])
        now = list(zip(keys, shown.texts_at(indices), strict=True))
        changed = [(k, n) for k, n in zip(keys, indices.tolist(), strict=True) if n in shown.before]
        before = [(key, shown.before[index]) for key, index in changed]
        remembered = self._remembered.setdefault(entry, _Remembered(row_width(self._plan)))
        new = remembered.missing([*now, *before])
        if new:
            remembered.add(new, self._scored(new, by_query))
        rows[indices] = remembered.rows_of(now)
        rows[[index for _, index in changed]] -= remembered.rows_of(before)

    def _scored(self, lists: Sequence[_List], by_query: Mapping[str, Grades]) -> Integers:
        """(n, columns) of lists of one file."""
        grades = [by_query[query] for query, _ in lists]
        judged = score([items_of(text) for _, text in lists], grades, self._plan)
        counts = np.stack((np.ones_like(judged.places), judged.places, judged.judged_places), 1)
        scores = np.concatenate((judged.scores, judged.best_case), axis=1)
        defined = ~np.isnan(scores)
        values = np.where(defined, scores, 0.0)
        units = np.array([metric.unit for metric in self._plan.metrics] * 2, np.float64)
        of_metrics = np.stack(
            (defined.astype(np.int64), scaled(values, units), scaled(values**2, units)), axis=2
        )
        return np.concatenate((counts, of_metrics.reshape(len(lists), -1)), axis=1)

    def _keep_only(self, timeline: Timeline) -> None:
        """Forget the lists of files that have left the timeline."""
        for entry in self._remembered.keys() - set(timeline.entries):
            del self._remembered[entry]


class _Remembered:
    """The rows of lists of one file."""

    def __init__(self, width: int) -> None:
        self._index: dict[_List, int] = {}
        self._rows: Integers = np.zeros((0, width), np.int64)

    def __len__(self) -> int:
        return len(self._index)

    def missing(self, lists: Sequence[_List]) -> list[_List]:
        """Those of the lists that are not remembered, each once. Forgets all where they would be
        more than `MOST_REMEMBERED`: then all of these are missing."""
        new = [each for each in dict.fromkeys(lists) if each not in self._index]
        if new and len(self) + len(new) > MOST_REMEMBERED:
            self._index, self._rows = {}, self._rows[:0]
            return list(dict.fromkeys(lists))
        return new

    def add(self, lists: Sequence[_List], rows: Integers) -> None:
        """Remember rows of lists that are missing."""
        self._index.update(zip(lists, range(len(self), len(self) + len(lists))))
        self._rows = np.concatenate((self._rows, rows))

    def rows_of(self, lists: Sequence[_List]) -> Integers:
        """(n, columns) of lists that are remembered."""
        return self._rows[[self._index[each] for each in lists]]


BEFORE_ALL_MS: Final = -(2**62)
"""The watermark of a topic-partition before its first event."""
_decode_items = msgspec.json.Decoder(list[str | None]).decode


def items_of(text: bytes) -> Sequence[str]:
    """The items of a list as it is stored; NO_ITEM for a blank."""
    items = _decode_items(text)
    if None in items:
        return [NO_ITEM if item is None else item for item in items]
    return cast(list[str], items)


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
class LaneJudged(OptionalRows):
    """The judged rows of one lane."""

    plan: JudgedPlan
    grader: Grader
    files: DatedFiles[Judgements] = field(default_factory=DatedFiles)
    """Those that grade."""
    keys: QueryKeys = field(default_factory=QueryKeys)
    """Of open impressions, where no tables of queries are kept."""
    shown: ShownInBatch = field(default_factory=ShownInBatch)
    """Lists that the batch showed and that are not graded yet."""

    def begin(self, from_slot: int, since_ms: int) -> None:
        """Note nothing of what was shown before."""
        super().begin(from_slot, since_ms)
        self.shown = ShownInBatch(from_slot)

    def go_on_from(self, former: OptionalRows) -> None:
        """The files that grade go on."""
        assert isinstance(former, LaneJudged)
        self.files, self.keys = replace(former.files, past=()), former.keys


def judged_rows_of(plan: JudgedPlan, timing: Timing) -> LaneJudged:
    """Those of a lane that begins."""
    return LaneJudged(plan, Grader(plan, timing), width=row_width(plan))
