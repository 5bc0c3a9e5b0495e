"""Which file of judgements is in force for an impression: the lane's own timeline. Pure.

The timeline is part of the lane's state and changes only between batches. A file is adopted while
no event that it would grade has been read. So it does not matter which worker sees it when: what is
graded follows from the log and the index alone.
"""

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from ..panes import pane_start
from ..timing import Timing
from .index import HOUR_MS, IndexEntry, earliest_start_ms

NOTHING_READ: Final = -1
"""The latest event time of a lane that has read no event."""


def in_force(entries: Sequence[IndexEntry], time_ms: int) -> IndexEntry | None:
    """The file of these, by ascending start, that grades an impression of this event time."""
    index = bisect_right(entries, time_ms, key=lambda entry: entry.start_ms)
    return entries[index - 1] if index else None


@dataclass(frozen=True)
class Timeline:
    """The files that a lane knows; an entry is never changed."""

    entries: tuple[IndexEntry, ...] = ()
    """Those in force, by ascending start: each until the next one starts."""
    refused: tuple[IndexEntry, ...] = ()
    """Those that were listed too late for this lane, by ascending start."""

    def in_force(self, time_ms: int) -> IndexEntry | None:
        """The file that grades an impression of this event time."""
        return in_force(self.entries, time_ms)


@dataclass(frozen=True)
class Prepared:
    """What holds for the next batch of a lane."""

    timeline: Timeline
    """To be stored by the commit of this batch, in the same atomic step."""
    missing: tuple[IndexEntry, ...] = ()
    """Files of the timeline that cannot be read here as they were: with any, the lane waits."""
    unread: tuple[IndexEntry, ...] = ()
    """Listed files that cannot be read here and may still be adopted: the lane takes no batch that
    holds an event from the start of the first one on."""

    @property
    def before_ms(self) -> int | None:
        """All events of the next batch must be earlier; None: any batch may be taken."""
        return min((entry.start_ms for entry in self.unread), default=None)

    def takes(self, latest_ms: int) -> bool:
        """Whether the lane may take a batch whose latest event is of this time."""
        return not self.missing and (self.before_ms is None or latest_ms < self.before_ms)


def begun(index: Sequence[IndexEntry]) -> Timeline:
    """The timeline of a lane that has no columns of judgements yet, in its head or in memory: the
    whole index, since there is nothing that it could contradict."""
    return Timeline(tuple(sorted(index)))


def prepared(
    timeline: Timeline,
    index: Sequence[IndexEntry],
    readable: Collection[IndexEntry],
    latest_ms: int,
) -> Prepared:
    """Adopt or refuse what the index lists and the timeline does not, before the next batch.

    `readable` are the files that this process has read, with the hash of the index. `latest_ms` is
    the latest event time that the lane has read: the greatest of the watermarks of its
    topic-partitions and of the times of its accepted impressions, some of which may be ahead of
    every watermark. A file is adopted where it starts later, and refused for good where it does
    not. What starts before the first entry of the timeline is over, and passed over.
    """
    entries, refused, unread = list(timeline.entries), list(timeline.refused), []
    first_ms = entries[0].start_ms if entries else None
    for entry in sorted(set(index).difference(entries, refused)):
        if first_ms is not None and entry.start_ms < first_ms:
            continue
        if entry.start_ms <= latest_ms:
            refused.append(entry)
        elif entry in readable:
            entries.append(entry)
        else:
            unread.append(entry)
    missing = tuple(entry for entry in timeline.entries if entry not in readable)
    return Prepared(
        Timeline(tuple(sorted(entries)), tuple(sorted(refused))), missing, tuple(unread)
    )


def pruned(timeline: Timeline, watermark_ms: int | None, pane_ms: int, open_ms: int) -> Timeline:
    """The timeline without the files that no accepted impression needs any more, and the refused
    ones before.

    An impression is accepted, and its list changes, while its record meets a watermark below the
    end of its base pane + `open_ms`. For the last part of this it is too late to be graded; but
    whether it counts as late depends on its file, and must not depend on where batches end.
    `watermark_ms` is the lane's, the least of its topic-partitions; None before the first event.
    """
    if watermark_ms is None:
        return timeline
    earliest_ms = pane_start(watermark_ms - open_ms, pane_ms)
    over = bisect_right(timeline.entries, earliest_ms, key=lambda entry: entry.start_ms) - 1
    entries = timeline.entries[max(over, 0) :]
    if not entries:
        return timeline
    first_ms = entries[0].start_ms
    return Timeline(entries, tuple(each for each in timeline.refused if each.start_ms >= first_ms))


T = TypeVar("T")


@dataclass
class DatedFiles(Generic[T]):
    """The files of one kind that one lane works by: to grade lists, or to derive an attribute."""

    timeline: Timeline | None = None
    """The files that are or will be in force; None: the lane has used none so far, and takes the
    whole index."""
    contents: Mapping[IndexEntry, T] | None = None
    """Of each file of the timeline, given before each batch; None: none were given, as to a command
    that has none."""
    past: tuple[IndexEntry, ...] = ()
    """Files that have left the timeline and were in force at a time of which results are kept."""

    @property
    def in_use(self) -> Timeline:
        """The timeline; an empty one where no files were given."""
        return self.timeline or Timeline()

    def prepare(self, timeline: Timeline, contents: Mapping[IndexEntry, T]) -> None:
        """Set the files of the next batch. `contents` has all of the timeline."""
        self.timeline, self.contents = timeline, contents

    def let_go(self, watermark_ms: int | None, timing: Timing, kept_from: int) -> None:
        """Move the files that no accepted impression needs any more behind the timeline, and forget
        those of them that were in force only before `kept_from`."""
        if self.timeline is None:
            return
        left = pruned(self.timeline, watermark_ms, timing.base_ms, timing.settle_ms)
        gone = len(self.timeline.entries) - len(left.entries)
        past = (*self.past, *self.timeline.entries[:gone])
        ends = [each.start_ms for each in (*past[1:], *left.entries[:1])]
        self.past = tuple(each for each, end in zip(past, ends) if end > kept_from)
        self.timeline = left


def earliest_by_log_ms(latest_ms: int) -> int:
    """The first whole hour from which on a lane that has read so far would adopt a file."""
    return -(-(latest_ms + 1) // HOUR_MS) * HOUR_MS


def earliest_for_lane_ms(latest_ms: int, now_ms: int, max_future_ms: int) -> int:
    """The first whole hour from which on this lane would adopt a file that is put in place now."""
    return max(earliest_by_log_ms(latest_ms), earliest_start_ms(now_ms, max_future_ms))
