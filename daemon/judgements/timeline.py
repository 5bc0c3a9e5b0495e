"""Which file of judgements is in force for an impression: the lane's own timeline. Pure.

The timeline is part of the lane's state and changes only between batches. A file is adopted while
no event that it would grade has been read. So it does not matter which worker sees it when: what is
graded follows from the log and the index alone.

The index of a directory of judgements: which files are in force from when, and their hashes.

A line for each file: its name, the start in RFC 3339, the SHA-256 of its bytes. The name begins
with the start, `2026-11-20T0000Z-quepid.csv`. Only what stands here is read: half a CSV file is a
good CSV file, and only the hash tells it from the whole.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final, Generic, TypeVar

from ..events import shown, timestamp_text
from ..panes import Timing, pane_start
from .grades import Fault

HOUR_MS: Final = 3_600_000
MOST_FILES: Final = 10_000
LEAD_MS: Final = 15 * 60_000
"""A file is listed so long, and `events.max_future` more, before its start: so every worker has
read the index before the first event that the file grades."""
NAME_RULE: Final = (
    "must be a time such as 2026-11-20T0000Z-, then 1 to 100 letters, digits, dots, dashes and"
    " underscores"
)
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d{4})Z-[A-Za-z0-9._-]{1,100}", re.ASCII)
_START: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:00:00Z", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_IN_NAME: Final = "%Y-%m-%dT%H%M"


@dataclass(frozen=True, order=True)
class IndexEntry:
    """One file of judgements; entries are ordered by their start."""

    start_ms: int
    """The file is in force for events from then on."""
    name: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.name} {start_text(self.start_ms)} {self.sha256}"


class FaultyIndex(Exception):
    """An index that breaks rules; `faults` lists all of them."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = list(faults)


def parse(data: bytes, file: str = "index") -> list[IndexEntry]:
    """Parse an index into its entries, by ascending start. Raises FaultyIndex with every fault.

    >>> text = f"2026-11-20T0000Z-a.csv 2026-11-20T00:00:00Z {'0' * 64}\\n"
    >>> [(entry.name, entry.start_ms) for entry in parse(text.encode())]
    [('2026-11-20T0000Z-a.csv', 1795132800000)]
    """
    entries: list[IndexEntry] = []
    faults: list[Fault] = []
    starts: dict[int, str] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            entry = _entry(line)
            if (other := starts.setdefault(entry.start_ms, entry.name)) != entry.name:
                raise ValueError(f"{entry.name}: starts when {other} does, further up")
            if entry in entries[-1:] or any(entry.name == before.name for before in entries):
                raise ValueError(f"{entry.name}: is listed twice")
        except ValueError as error:
            faults.append(Fault(file, number, str(error)))
            continue
        entries.append(entry)
    if len(entries) > MOST_FILES:
        faults.append(Fault(file, 0, f"{len(entries)} files: must be at most {MOST_FILES}"))
    if faults:
        raise FaultyIndex(faults)
    return sorted(entries)


def text_of(entries: Sequence[IndexEntry]) -> bytes:
    """The index of these entries, in their order."""
    return "".join(f"{entry}\n" for entry in entries).encode()


def file_name(start_ms: int, name: str) -> str:
    """The name under which a file stands in the directory. Raises ValueError.

    >>> file_name(1_795_132_800_000, "quepid.csv")
    '2026-11-20T0000Z-quepid.csv'
    """
    start = datetime.fromtimestamp(start_ms / 1000, timezone.utc)
    full = f"{start.strftime(_IN_NAME)}Z-{name}"
    if _NAME.fullmatch(full) is None:
        raise ValueError(f"name={shown(name)}: of {shown(full)}: {NAME_RULE}")
    return full


def from_now(entries: Collection[IndexEntry], now_ms: int) -> list[IndexEntry]:
    """The entry that is in force at this instant and all that start later, by ascending start:
    those that every process must have. Earlier ones are needed by late lanes only."""
    begun = [entry.start_ms for entry in entries if entry.start_ms <= now_ms]
    first_ms = max(begun, default=now_ms)
    return sorted(entry for entry in entries if entry.start_ms >= first_ms)


def earliest_start_ms(now_ms: int, max_future_ms: int) -> int:
    """The first whole hour at which a file that is listed now may start.

    >>> earliest_start_ms(10 * HOUR_MS, 60_000) // HOUR_MS
    11
    """
    return -(-(now_ms + LEAD_MS + max_future_ms) // HOUR_MS) * HOUR_MS


def _entry(line: bytes) -> IndexEntry:
    """The entry of a line. Raises ValueError."""
    fields = line.decode(errors="replace").split()
    if len(fields) != 3:
        value = shown(line.decode(errors="replace"))
        raise ValueError(f"{value}: must be 3 fields, name start SHA-256")
    name, start, sha256 = fields
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"name={shown(name)}: {NAME_RULE}")
    if _START.fullmatch(start) is None:
        raise ValueError(f"start={shown(start)}: must be a whole hour, as 2026-11-20T00:00:00Z")
    if _SHA256.fullmatch(sha256) is None:
        raise ValueError(f"sha256={shown(sha256)}: must be 64 hexadecimal digits")
    start_ms = _milliseconds(match[1], _IN_NAME)
    if start_ms != _milliseconds(start, "%Y-%m-%dT%H:%M:%SZ"):
        raise ValueError(f"start={start}: must be the time at which {name} begins")
    return IndexEntry(start_ms, name, sha256)


def _milliseconds(text: str, form: str) -> int:
    """Milliseconds since the epoch. Raises ValueError."""
    try:
        moment = datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    except ValueError:
        raise ValueError(f"{text}: is no date and time") from None
    return int(moment.timestamp()) * 1000


def start_text(start_ms: int) -> str:
    return timestamp_text(start_ms).replace(".000Z", "Z")


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

    def let_go(
        self, watermark_ms: int | None, timing: Timing, kept_from: int | None = None
    ) -> None:
        """Move the files that no accepted impression needs any more behind the timeline, and forget
        those of them that were in force only before `kept_from`; None: results are kept of none."""
        if self.timeline is None:
            return
        left = pruned(self.timeline, watermark_ms, timing.base_ms, timing.settle_ms)
        if kept_from is not None:
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
