"""Which file grades an impression: the same whoever sees the files when, or the lane waits."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.judgements import (
    HOUR_MS,
    LEAD_MS,
    NOTHING_READ,
    IndexEntry,
    Timeline,
    begun,
    earliest_for_lane_ms,
    file_name,
    prepared,
    pruned,
)
from relevanced.daemon.lane import JUMP_MS
from relevanced.daemon.panes import pane_start

PANE_MS: Final = 10_000
LATENESS_MS: Final = 60_000


def entry(hour: int, name: str = "a.csv") -> IndexEntry:
    start_ms = hour * HOUR_MS
    return IndexEntry(start_ms, file_name(start_ms, name), f"{hour:064x}")


# The oracle, and a simulated lane.


@dataclass(frozen=True)
class Record:
    """An accepted impression, or another event, of a topic-partition."""

    time_ms: int
    partition: int
    is_impression: bool


def in_force(files: Sequence[IndexEntry], time_ms: int) -> IndexEntry | None:
    """The file of all these that starts last of those that have started, by looking at each."""
    started = [file for file in files if file.start_ms <= time_ms]
    return max(started, key=lambda file: file.start_ms, default=None)


@dataclass
class Lane:
    """A lane that is read by two workers in turns; its head outlives them."""

    head: Timeline
    watermarks: list[int] = field(default_factory=lambda: [NOTHING_READ] * 2)
    latest_ms: int = NOTHING_READ
    graded: list[tuple[int, IndexEntry | None]] = field(default_factory=list)
    adopted: set[IndexEntry] = field(default_factory=set)

    def prepare(self, index: Sequence[IndexEntry], *, counts_ahead: bool = True) -> None:
        """What a worker that sees this index does before a batch."""
        latest_ms = max(*self.watermarks, self.latest_ms if counts_ahead else NOTHING_READ)
        before = self.head
        self.head = prepared(self.head, index, index, latest_ms).timeline
        self.adopted |= set(self.head.entries) - set(before.entries)

    def read(self, record: Record) -> None:
        """Grade an impression, if it is not late, and move watermark and latest time."""
        watermark = self.watermarks[record.partition]
        end_ms = pane_start(record.time_ms, PANE_MS) + PANE_MS
        if record.is_impression and watermark < end_ms + LATENESS_MS:
            self.graded.append((record.time_ms, self.head.in_force(record.time_ms)))
            self.latest_ms = max(self.latest_ms, record.time_ms)
        # Without others that confirm it, an event moves the watermark no further than this.
        if watermark == NOTHING_READ or record.time_ms <= watermark + JUMP_MS:
            self.watermarks[record.partition] = max(watermark, record.time_ms)

    def commit(self) -> None:
        self.head = pruned(self.head, min(self.watermarks), PANE_MS, LATENESS_MS)


def random_log(rng: np.random.Generator, ahead: float = 0.02) -> list[Record]:
    """Ten hours on two topic-partitions, one of which may be far behind, with events that are late
    and events that are ahead of every watermark."""
    count = int(rng.integers(30, 120))
    times = np.sort(rng.integers(0, 10 * HOUR_MS, count))
    partitions = rng.integers(0, 2, count)
    behind = rng.choice([0, 10 * 60_000, 2 * HOUR_MS])
    times = times - np.where(partitions == 1, behind, 0) - rng.integers(0, 3 * 60_000, count)
    times += (rng.random(count) < ahead) * rng.integers(0, HOUR_MS, count)
    return [
        Record(max(int(time_ms), 0), int(partition), bool(rng.random() < 0.8))
        for time_ms, partition in zip(times, partitions, strict=True)
    ]


def random_files(rng: np.random.Generator) -> list[IndexEntry]:
    hours = np.sort(rng.choice(np.arange(1, 10), int(rng.integers(0, 5)), replace=False))
    return [entry(0), *(entry(int(hour)) for hour in hours)]


def first_read_from(log: Sequence[Record], start_ms: int) -> int:
    """The number of records that are read before the first one of this time or later."""
    later = (number for number, record in enumerate(log) if record.time_ms >= start_ms)
    return next(later, len(log))


def run(
    log: Sequence[Record],
    files: Sequence[IndexEntry],
    seen: Sequence[tuple[int, int]],
    rng: np.random.Generator,
    *,
    counts_ahead: bool = True,
) -> Lane:
    """Read the log in random batches by two workers in turns. Each sees each file of the index from
    its own number of records on."""
    lane = Lane(begun(files[:1]))
    lane.adopted = {files[0]}
    at = 0
    while at < len(log):
        worker = int(rng.integers(2))
        index = [file for file, times in zip(files, seen, strict=True) if times[worker] <= at]
        lane.prepare(index, counts_ahead=counts_ahead)
        end = min(len(log), at + int(rng.integers(1, 12)))
        for record in log[at:end]:
            lane.read(record)
        lane.commit()
        at = end
    return lane


def test_workers_that_see_files_at_other_times_grade_alike(rng: np.random.Generator) -> None:
    """Where the index lists a file before its first event, as `judgements add` sees to."""
    for _ in range(300):
        log, files = random_log(rng), random_files(rng)
        # A batch that begins before the first event of a file may not see it and yet hold the
        # event: the lead is longer than a batch takes.
        by = [max(0, first_read_from(log, file.start_ms) - 12) for file in files]
        seen = [tuple(rng.integers(0, most + 1, 2).tolist()) for most in by]
        lane = run(log, files, [(0, 0), *seen[1:]], rng)
        other = run(log, files, [(0, 0)] * len(files), rng)
        assert not lane.head.refused and lane.graded == other.graded
        assert lane.graded == [(time, in_force(files, time)) for time, _ in lane.graded]


def test_grades_follow_from_what_was_adopted_whenever_files_appear(
    rng: np.random.Generator,
) -> None:
    """A file that appears late is adopted everywhere in the lane or nowhere: no impression was
    graded without it that it would have graded."""
    refused = 0
    for _ in range(500):
        log, files = random_log(rng), random_files(rng)
        seen = [tuple(rng.integers(0, len(log) + 1, 2).tolist()) for _ in files]
        lane = run(log, files, [(0, 0), *seen[1:]], rng)
        adopted = sorted(lane.adopted)
        assert lane.graded == [(time, in_force(adopted, time)) for time, _ in lane.graded]
        refused += len(lane.adopted) < len(files)
    assert refused > 100


def test_watermarks_alone_would_not_do() -> None:
    """An impression that is ahead of every watermark has been graded already."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        log, files = random_log(rng, ahead=0.2), random_files(rng)
        seen = [tuple(rng.integers(0, len(log) + 1, 2).tolist()) for _ in files]
        lane = run(log, files, [(0, 0), *seen[1:]], rng, counts_ahead=False)
        adopted = sorted(lane.adopted)
        wrong += lane.graded != [(time, in_force(adopted, time)) for time, _ in lane.graded]
    assert wrong > 10


# The rules, one by one.


def test_file_is_in_force_until_the_next_one_starts() -> None:
    timeline = Timeline((entry(2), entry(5)))
    times = [2 * HOUR_MS - 1, 2 * HOUR_MS, 5 * HOUR_MS - 1, 5 * HOUR_MS, 9 * HOUR_MS]
    expected = [None, entry(2), entry(2), entry(5), entry(5)]
    assert [timeline.in_force(time_ms) for time_ms in times] == expected
    assert Timeline().in_force(0) is None


def test_file_is_adopted_at_its_place_while_nothing_of_it_was_read() -> None:
    before = Timeline((entry(1), entry(8)))
    found = prepared(before, [entry(1), entry(5), entry(8)], all_of(1, 5, 8), 5 * HOUR_MS - 1)
    assert found.timeline == Timeline((entry(1), entry(5), entry(8)))
    assert found.takes(9 * HOUR_MS)


def test_file_that_comes_too_late_is_refused_for_good() -> None:
    index = [entry(1), entry(5)]
    late = prepared(Timeline((entry(1),)), index, index, 5 * HOUR_MS)
    assert late.timeline == Timeline((entry(1),), (entry(5),))
    again = prepared(late.timeline, index, index, 5 * HOUR_MS)
    assert again.timeline == late.timeline and again.takes(9 * HOUR_MS)
    # Put in place again under a later start it is another entry.
    new = entry(6, "a-again.csv")
    third = prepared(late.timeline, [*index, new], [*index, new], 5 * HOUR_MS)
    assert third.timeline.entries == (entry(1), new)


def test_file_from_before_the_timeline_is_passed_over() -> None:
    before = Timeline((entry(5),))
    index = [entry(2), entry(5)]
    assert prepared(before, index, index, 6 * HOUR_MS).timeline == before
    assert prepared(before, index, [entry(5)], 6 * HOUR_MS).takes(9 * HOUR_MS), "nor is it read"


def test_lane_waits_for_a_file_of_its_timeline() -> None:
    """Missing here, or with other bytes than those that were adopted."""
    timeline = Timeline((entry(1), entry(5)))
    missing = prepared(timeline, [entry(1)], [entry(1)], 2 * HOUR_MS)
    assert missing.missing == (entry(5),) and not missing.takes(2 * HOUR_MS)
    changed = IndexEntry(entry(5).start_ms, entry(5).name, "f" * 64)
    found = prepared(timeline, [entry(1), changed], [entry(1), changed], 5 * HOUR_MS)
    assert found.missing == (entry(5),) and not found.takes(2 * HOUR_MS)
    assert set(timeline.entries) <= set(found.timeline.entries), "an entry is never changed"


def test_lane_stops_before_a_file_that_cannot_be_read() -> None:
    index = [entry(1), entry(5), entry(7)]
    found = prepared(Timeline((entry(1),)), index, [entry(1), entry(7)], 2 * HOUR_MS)
    assert found.unread == (entry(5),) and found.before_ms == 5 * HOUR_MS
    assert found.takes(5 * HOUR_MS - 1) and not found.takes(5 * HOUR_MS)
    mended = prepared(found.timeline, index, index, 5 * HOUR_MS - 1)
    assert mended.timeline == Timeline(tuple(index)) and mended.takes(9 * HOUR_MS)


def test_lane_without_columns_takes_the_whole_index() -> None:
    index = [entry(5), entry(1)]
    assert begun(index) == Timeline((entry(1), entry(5)))
    assert prepared(begun(index), index, index, NOTHING_READ).timeline == begun(index)
    late = prepared(Timeline(), [entry(0)], [entry(0)], NOTHING_READ)
    assert late.timeline.entries == (entry(0),)


def test_file_leaves_once_no_accepted_impression_needs_it(rng: np.random.Generator) -> None:
    timeline = Timeline((entry(1), entry(3), entry(4)), (entry(2),))
    last_ms = 3 * HOUR_MS + LATENESS_MS
    assert pruned(timeline, last_ms - 1, PANE_MS, LATENESS_MS) == timeline
    assert pruned(timeline, last_ms, PANE_MS, LATENESS_MS) == Timeline((entry(3), entry(4)))
    assert pruned(timeline, 99 * HOUR_MS, PANE_MS, LATENESS_MS) == Timeline((entry(4),))
    assert pruned(timeline, None, PANE_MS, LATENESS_MS) == timeline
    for _ in range(300):
        watermark, time_ms = (int(value) for value in rng.integers(0, 6 * HOUR_MS, 2))
        if watermark < pane_start(time_ms, PANE_MS) + PANE_MS + LATENESS_MS:
            kept = pruned(timeline, watermark, PANE_MS, LATENESS_MS)
            assert kept.in_force(time_ms) == timeline.in_force(time_ms)


@pytest.mark.parametrize(("latest_hour", "hour"), [(3, 11), (10, 11), (11, 12), (20, 21)])
def test_earliest_start_that_a_lane_would_adopt(latest_hour: int, hour: int) -> None:
    now_ms = 10 * HOUR_MS
    start_ms = earliest_for_lane_ms(latest_hour * HOUR_MS, now_ms, 60_000)
    assert start_ms == hour * HOUR_MS >= now_ms + LEAD_MS
    new = entry(hour)
    found = prepared(Timeline((entry(0),)), [new], [entry(0), new], latest_hour * HOUR_MS)
    assert new in found.timeline.entries


def all_of(*hours: int) -> list[IndexEntry]:
    return [entry(hour) for hour in hours]
