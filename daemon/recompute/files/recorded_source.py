"""Recorded files as a source: their events into one lane, in the order of their time.

    lines ─▶ records of one event ─▶ order by event time ─▶ batches ─▶ driver

Memory is that of the lane (its open impressions) and of a buffer, whatever the size of the files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import ClassVar, Final

import msgspec
import numpy as np
from rich.progress import Progress

from relevanced.metrics import Integers

from ...attribution import Aside, Part, Run, Single, runs
from ...config import Config
from ...events import Decoded, Decoder, Rejected, decoder
from ...lane import Lane, new_lane
from ...plan import Plan
from ...worker import MAX_BATCH_BYTES
from ..driver import LaneDriver
from ..libraries import class_by_the_whole_index
from .keys import KEYS_PER_MS, EventReader
from .line_files import line_decoder, most_line_bytes, read_lines
from .refusals import IgnoredKinds, Refusals
from .time_order import Ordered, OrderedRecords, TimeOrder

TOPIC: Final = "replay"
EVENTS_AT_ONCE: Final = 20_000
"""Events of one batch. Its end costs about the same for fewer."""
CHUNK_RECORDS: Final = 5_000
"""So many are joined at once: more would leave the processor's cache on the way."""
NO_LIMIT: Final = 2**62
NO_STAMP: Final = -1


class LineRecord(msgspec.Struct, frozen=True, gc=False):
    """A line as a record of a log that has no clock."""

    value: bytes
    offset: int
    """Its place."""
    timestamp: int = NO_STAMP
    topic: ClassVar[str] = TOPIC
    partition: ClassVar[int] = 0
    key: ClassVar[bytes | None] = None
    headers: ClassVar[tuple[tuple[str, bytes], ...]] = ()


@dataclass(frozen=True)
class LineRecords:
    """Lines as records, n of them, without an object for each."""

    lines: Sequence[bytes]
    places: Integers
    """(n,)."""

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> LineRecord:
        return LineRecord(self.lines[index], int(self.places[index]))

    def part(self, start: int, stop: int) -> "LineRecords":
        """Those from `start` to before `stop`."""
        return LineRecords(self.lines[start:stop], self.places[start:stop])

    def values(self) -> list[bytes]:
        """The lines."""
        return [*self.lines]

    def logged(self) -> list[LineRecord]:
        """Each as a record."""
        return [self[index] for index in range(len(self))]

    def stamps_ms(self) -> list[int]:
        """No time for any of them."""
        return [NO_STAMP] * len(self.lines)


def file_lane(config: Config, plan: Plan) -> Lane:
    """A lane that files are to be applied to; classes are those of the whole index. Raises
    StartError."""
    lane = new_lane(0, plan, {TOPIC: 0}, [TOPIC])
    class_by_the_whole_index(lane, config)
    return lane


class FileEvents:
    """The events of some files, and what was refused of them."""

    def __init__(
        self,
        config: Config,
        paths: Sequence[str],
        bars: Progress,
        *,
        as_is: bool = False,
        kcat: bool = False,
        topic: str | None = None,
    ) -> None:
        """`as_is`: in the order of the files. The lines are values of `topic`, or, with `kcat`,
        records as `kcat -J` prints them."""
        self._config, self._paths, self._bars = config, paths, bars
        self._as_is, self._kcat, self._topic = as_is, kcat, topic
        self.refusals = Refusals()
        self.ignored_kinds = IgnoredKinds(config.plan.grades)

    def apply_to(self, driver: LaneDriver, apart_ms: int | None = None) -> None:
        """Apply all events. A batch also ends where their time passes a multiple of `apart_ms`.

        Raises UnknownTopic, OSError for a file that cannot be read, NoRoom where the events cannot
        be put in order, StartError and Unavailable of the schema registry."""
        config, kcat = self._config, self._kcat
        most_bytes = most_line_bytes(config, kcat=kcat)
        known_format = None if config.sources or kcat else config.events.format
        # Refused by their size are the lines of the files, not the events as they were rewritten.
        limits = msgspec.structs.replace(config.limits, max_record_bytes=NO_LIMIT)
        decode, apart = decoder("native", limits), apart_ms and KEYS_PER_MS * apart_ms
        with line_decoder(config, kcat=kcat, topic=self._topic) as read_line, TimeOrder() as order:
            reader = EventReader(read_line, known_format, most_bytes, self.refusals)
            read = reader.read_as_is if self._as_is else reader.read
            parts = map(read, read_lines(self._paths, self._bars, most_bytes))
            ordered = _as_is(parts) if self._as_is else _in_order(parts, order, self._bars)
            for records in batches(ordered, apart):
                driver.apply(TOPIC, self._parts(records, decode, driver.lane), {})
        # Those of the lane, and of lines that never came to it.
        driver.note_end()
        driver.lane.counts["rejected"].clear()
        driver.lane.counts["rejected"].update(self.refusals.counts)

    def _parts(self, records: "LineRecords", decode: Decoder, lane: Lane) -> Iterator[Part | None]:
        """What is applied of one batch; notes what is refused, or of a kind without a grade."""
        for first in range(0, len(records), CHUNK_RECORDS):
            chunk = records.part(first, first + CHUNK_RECORDS)
            for part in runs.read_runs(chunk, decode, lane.texts):
                if isinstance(part, Run):
                    self.ignored_kinds.count_run(part)
                elif isinstance(part, Aside):
                    for record, rejected in part.rejected:
                        self.refusals.note(record.offset, rejected, record.value or b"")
                elif part is not None:
                    part = replace(part, slices=self._noted(part))
                yield part

    def _noted(self, single: Single) -> Iterator[Sequence[Decoded]]:
        record = single.record
        for decoded in single.slices:
            for event in decoded:
                if isinstance(event, Rejected):
                    self.refusals.note(record.offset, event, record.value or b"")
            self.ignored_kinds.count(event for event in decoded if not isinstance(event, Rejected))
            yield decoded


def _in_order(
    parts: Iterable[OrderedRecords], order: TimeOrder, bars: Progress
) -> Iterator[Ordered]:
    for part in parts:
        order.add(part)
    bar = bars.add_task("scoring", total=order.count)
    for ordered in order.in_order():
        yield ordered
        bars.advance(bar, len(ordered))


def _as_is(parts: Iterable[OrderedRecords]) -> Iterator[Ordered]:
    for part in parts:
        yield Ordered(part.keys, part.places, part.lines())


def batches(parts: Iterable[Ordered], apart: int | None = None) -> Iterator[LineRecords]:
    """The records of all parts in batches of about so many records, or so many bytes; a batch also
    ends where the keys pass a multiple of `apart`."""
    gathered, count, ready_bytes = list[Ordered](), 0, 0
    for part in parts if apart is None else _cut(parts, apart):
        if apart and gathered and gathered[-1].keys[-1] // apart != part.keys[0] // apart:
            yield _batch(gathered)
            gathered, count, ready_bytes = [], 0, 0
        gathered.append(part)
        count += len(part)
        ready_bytes += sum(map(len, part.lines))
        if count >= EVENTS_AT_ONCE or ready_bytes >= MAX_BATCH_BYTES:
            yield _batch(gathered)
            gathered, count, ready_bytes = [], 0, 0
    if gathered:
        yield _batch(gathered)


def _cut(parts: Iterable[Ordered], apart: int) -> Iterator[Ordered]:
    """The parts, cut where their keys pass a multiple of `apart`."""
    for part in parts:
        if not len(part):
            continue
        passed = np.flatnonzero(np.diff(part.keys // apart)) + 1
        for start, stop in pairwise((0, *passed.tolist(), len(part))):
            yield part.part(start, stop)


def _batch(gathered: Sequence[Ordered]) -> LineRecords:
    lines = list(chain.from_iterable(part.lines for part in gathered))
    return LineRecords(lines, np.concatenate([part.places for part in gathered]))
