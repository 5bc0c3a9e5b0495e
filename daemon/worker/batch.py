"""One batch of one lane, from records to a commit: decode, attribute, score.

The order is `begin`, all `steps` of each chunk of `chunks`, `end`: between two steps the caller may
let others run, and the result is the same however a batch is cut. Only a whole batch is committed,
so a turn in the middle of a record does no harm.

How many records one batch takes, and one chunk of it. Pure: what the last ones cost is given.

A batch is committed as one, and its commit costs about 7.5 ms however few records it has: measured
against the floor of `make bench`, batches of 1,000 cost twice what batches of 10,000 do. A batch is
worked on in chunks, whose plain records nothing interrupts: heartbeats, scrapes and the commits of
other lanes wait for that. So the size of chunks follows what their records turn out to cost, and
the size of batches follows the backlog, up to what half a second can do. That does not bound what
the next records cost: chunks also end by bytes, and whatever is not plain is worked on in steps,
with turns of the others in between.

When an idle owner tells readers that its lane is complete up to now.

The mark is a clock's reading, and a clock can be wrong: one that was a day ahead for a minute
leaves a mark with which the lane seems to be complete up to tomorrow. A lane that is caught up
overwrites it at its next commit or touch; for all others it is taken back.

Which record keeps its owners from ever committing, and when that is certain.

A batch that takes its owner longer than the group waits for a heartbeat comes back for ever: the
group gives the lane to the next worker, which fetches the same records. So an owner that has spent
a third of the session on a batch, and has not committed, says so in the lane's head (`StallMark`),
and the next owners go by it:

    marked once                         the batch is taken as usual
    marked by two owners in a row       its records are taken one by one, each with a commit
    one record marked by two owners     it is passed over, as a dead letter, and named

Time is that of the CPU, spent by this thread on this batch alone. So nothing adds up while a server
is silent, while other processes or lanes have the machine, or because a lane changes hands often. A
record is passed over only if it alone took two owners so long, and neither of them committed it.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final, TypeAlias

from ..attribution import LoggedRecords, Part, queries_of, rules, runs, vectorized
from ..events import Decoder, LogRecord, Rejected
from ..lane import Lane, scoring, settling, skip_label
from ..storage import StallMark

MIN_BATCH_RECORDS: Final = 500
"""The cost of a batch of fewer is mostly that of its commit."""
MAX_CHUNK_RECORDS: Final = 6_144
"""Beyond this size a chunk's records do not get cheaper by being many."""
MIN_CHUNK_RECORDS: Final = 100
MAX_CHUNK_BYTES: Final = 2 << 20
"""A chunk of more is cut. Its plain records are read in one step, at some 10 ns for a byte; 6,144
records have fewer bytes, as a rule."""
TURN_S: Final = 0.015
"""So long after the last turn of others, the end of a step gives them the next."""
MAX_CHUNK_S: Final = 0.03
"""How long a chunk may keep others waiting. The same turn of the event loop may also put a commit
together and unpack the answer to a fetch: all of it stays below 100 ms, which nobody notices."""
MAX_BATCH_BYTES: Final = 8 << 20
"""A poll takes no more of a topic-partition than this, and the rest of the record that reaches it:
as much as 40,000 records of 200 bytes. (A fetch of uncompressed records has no more than half.)"""
MAX_BATCH_S: Final = 0.5
"""How long a lane's batch may take until it is committed."""


@dataclass(frozen=True)
class Cost:
    """The longest of several steps: its records, and how long it took."""

    records: int = 0
    seconds: float = 0.0

    def or_longer(self, records: int, seconds: float) -> "Cost":
        """This step, or the given one where that took longer."""
        return Cost(records, seconds) if seconds > self.seconds else self

    def fitting(self, seconds: float) -> int:
        """How many records would have taken so long."""
        return int(self.records * seconds / self.seconds)


@dataclass(frozen=True)
class PollCost:
    """How many records one poll brought, and what they cost."""

    taken: int
    """Records in all."""
    chunk: Cost = Cost()
    """Seconds between two turns of others."""
    batch: Cost = Cost()
    closing_s: float = 0.0
    """The longest time that the end of a batch took; it hardly depends on the records."""
    polled_all: bool = True
    """Whether every lane was polled. Busy lanes are not, and they may have more records."""
    ended_by_bytes: bool = False
    """Whether a lane's batch may have been cut because of its bytes."""


def next_chunk_size(size: int, cost: PollCost) -> int:
    """The most records of the next chunks, after chunks of at most `size` records.

    What would have fitted into MAX_CHUNK_S where one took longer; twice as many where a full one
    took less than half of it.
    """
    if cost.chunk.seconds > MAX_CHUNK_S:
        return max(cost.chunk.fitting(MAX_CHUNK_S), MIN_CHUNK_RECORDS)
    if cost.chunk.records * 2 > size and cost.chunk.seconds * 2 <= MAX_CHUNK_S:
        return min(size * 2, MAX_CHUNK_RECORDS)
    return size


def next_batch_size(size: int, cost: PollCost, most: int) -> int:
    """The size of the next batch, at most `most` (≥ 1), after a poll that asked for `size` records.

    1. A batch took too long: what would have fitted. 2. The end of a batch took too long: half, but
    no less than the largest chunk. 3. The poll came back more than half full, and twice the work
    fits as well: there is a backlog, double. 4. Almost nothing came, and every lane was polled:
    half, so that the first records after a silence cost little, whatever they are. 5. Otherwise the
    same.
    """
    if cost.batch.seconds > MAX_BATCH_S:
        wanted = min(size, cost.batch.fitting(MAX_BATCH_S))
    elif cost.closing_s > MAX_CHUNK_S and size > MAX_CHUNK_RECORDS:
        wanted = max(size // 2, MAX_CHUNK_RECORDS)
    elif is_backlog(size, cost) and _twice_fits(cost):
        wanted = size * 2
    elif cost.polled_all and cost.taken * 8 < size:
        wanted = size // 2
    else:
        wanted = size
    return min(max(wanted, MIN_BATCH_RECORDS), most)


def _twice_fits(cost: PollCost) -> bool:
    return cost.batch.seconds * 2 <= MAX_BATCH_S and cost.closing_s * 2 <= MAX_CHUNK_S


def is_backlog(size: int, cost: PollCost) -> bool:
    """Whether a poll for `size` records brought so much that more is likely to be there."""
    return cost.taken * 2 > size or cost.ended_by_bytes


@dataclass(frozen=True)
class DeadLetter:
    """A record of which a part could not be read as an event. There is one for each record, however
    many of its elements are bad: it carries the whole record."""

    record: LogRecord
    reason: str
    detail: str


def chunks(
    batch: Mapping[str, Sequence[LogRecord]], most: int, most_bytes: int = MAX_CHUNK_BYTES
) -> Iterator[tuple[str, Sequence[LogRecord]]]:
    """Cut a batch into chunks of one topic each, in order and of about the same length: of at most
    `most` records, and of at most `most_bytes` bytes, but for their last records. The caller may
    yield to others between two of them."""
    for topic, records in batch.items():
        count = max(math.ceil(len(records) / most), 1)
        ends = [len(records) * part // count for part in range(count + 1)]
        for start, end in pairwise(ends):
            for chunk in _cut_by_bytes(records[start:end], most_bytes):
                yield topic, chunk


def _cut_by_bytes(records: Sequence[LogRecord], most: int) -> Iterator[Sequence[LogRecord]]:
    """Cut records into parts of about the same number of bytes: at most `most`, but for the last
    record of a part."""
    total = bytes_of(records)
    if total <= most:
        if records:
            yield records
        return
    count, start, part = math.ceil(total / most), 0, 0
    for index, before in enumerate(accumulate(len(record.value or b"") for record in records)):
        if (now := min(before * count // total, count - 1)) != part and index + 1 > start:
            yield records[start : index + 1]
            start, part = index + 1, now
    if start < len(records):
        yield records[start:]


def bytes_of(records: Sequence[LogRecord]) -> int:
    """The bytes of the values of records."""
    # Every record pays for it: this costs 21 ns, by map and filter it costs 37.
    return sum([len(record.value or b"") for record in records])


def begin(lane: Lane) -> None:
    """Make the lane ready for a batch."""
    lane.forget_unused()
    settling.class_by_files(lane)


def steps(
    lane: Lane,
    topic: str,
    records: Sequence[LogRecord],
    decoder: Decoder,
    letters: list[DeadLetter],
    small_run: int = vectorized.SMALL_RUN,
) -> Iterator[None]:
    """Apply one chunk of a batch to the lane, in steps of some milliseconds at most; appends the
    dead letters of its records. All steps must be taken."""
    for part in runs.read_runs(LoggedRecords(records), decoder, lane.texts):
        yield from part_steps(lane, topic, part, letters, small_run)
        yield


def part_steps(
    lane: Lane,
    topic: str,
    part: Part | None,
    letters: list[DeadLetter],
    small_run: int = vectorized.SMALL_RUN,
) -> Iterator[None]:
    """Apply what was read of records at once; see `steps`."""
    if isinstance(part, runs.Run):
        yield from vectorized.apply(lane, topic, part, small_run)
    elif isinstance(part, runs.Aside):
        _count(lane, topic, part)
    elif part is not None:
        yield from _apply_single(lane, topic, part, letters)


def _count(lane: Lane, topic: str, aside: runs.Aside) -> None:
    """Count what of records is no event."""
    for _, rejected in aside.rejected:
        lane.count_rejected(topic, rejected)
    for reason, count in Counter(aside.skipped).items():
        lane.count("skipped", skip_label(topic, reason), count)
    if aside.mapped:
        lane.mapped_records[topic] += aside.mapped
        lane.mapped_slowly[topic] += aside.slowly


def _apply_single(
    lane: Lane, topic: str, single: runs.Single, letters: list[DeadLetter]
) -> Iterator[None]:
    """Apply the events of one record, which is a dead letter where a part of it is bad."""
    first, count = None, 0
    for decoded in single.slices:
        yield from lane.texts.derive(queries_of(decoded))
        yield from rules.steps(lane, topic, decoded)
        for rejected in decoded:
            if isinstance(rejected, Rejected) and not rejected.skipped:
                first = first or rejected
                count += 1
        yield
    if first is not None:
        detail = f"{first.detail} (and {count - 1} more)" if count > 1 else first.detail
        letters.append(DeadLetter(single.record, first.reason, detail))


def end(lane: Lane, next_offsets: Mapping[str, int]) -> None:
    """Finish a batch of which every chunk was applied: store its offsets, and advance."""
    lane.offsets.update(next_offsets)
    advance(lane)


def advance(lane: Lane) -> None:
    """Bring the rows up to date with the events that were applied, and settle the panes that the
    watermark has passed."""
    rules.advance(lane)
    scoring.apply_changes(lane)
    scoring.grade_shown(lane)
    settling.settle(lane)
    settling.drop_old_panes(lane)
    scoring.settle_judged(lane)
    settling.let_class_files_go(lane)


TAKEN_BACK: Final = 0
"""Stands for no mark in the store, where fields of a head are never removed."""
CLOCKS_DIFFER_MS: Final = 5_000
"""The clocks of two owners may differ by so much."""


def idle_mark(stored_ms: int | None, clock_ms: int, is_caught_up: bool) -> int | None:
    """Return the mark to write: the clock, if the ends of all logs were seen at that time; else
    TAKEN_BACK, if the stored mark is ahead of the clock; else None, which leaves it as it is."""
    if is_caught_up:
        return clock_ms
    if stored_ms is not None and stored_ms > clock_ms + CLOCKS_DIFFER_MS:
        return TAKEN_BACK
    return None


MARKS: Final = 2
"""So many owners in a row must take too long before anything is done differently."""

Records: TypeAlias = Mapping[str, Sequence[LogRecord]]
"""Topic → records."""


def next_mark(
    before: StallMark | None, sequence: int, records: Records, next_offsets: Mapping[str, int]
) -> StallMark:
    """Return the mark of an owner that takes too long over these records, where the head has the
    mark `before`. `next_offsets` are those after the records, or after the batch that they are
    of."""
    record = _only(records)
    if before is None:
        return StallMark(sequence, 1, dict(next_offsets), record)
    again = before.record == record and (record is not None or before.sequence == sequence)
    until = dict(next_offsets)
    if record is not None:
        # The rest of the batch stays suspect.
        until |= {topic: max(end, until.get(topic, end)) for topic, end in before.until.items()}
    return StallMark(sequence, before.times + 1 if again else 1, until, record)


def is_suspect(mark: StallMark | None, offsets: Mapping[str, int]) -> bool:
    """Whether the records at these offsets are to be taken one by one."""
    if mark is None or (mark.record is None and mark.times < MARKS):
        return False
    return any(offsets.get(topic, end) < end for topic, end in mark.until.items())


def is_to_pass_over(mark: StallMark, records: Records) -> bool:
    """Whether these records are one that is known to stall its owners."""
    return mark.times >= MARKS and mark.record is not None and mark.record == _only(records)


def one_by_one(
    mark: StallMark, batch: Records, next_offsets: Mapping[str, int]
) -> Iterator[tuple[Records, Mapping[str, int]]]:
    """Cut a batch into parts, each with the offsets to be stored with it: every record that the
    mark covers alone, then all others together (or none: what lies between records is passed)."""
    rest = dict[str, Sequence[LogRecord]]()
    for topic, records in batch.items():
        end = mark.until.get(topic, 0)
        covered = sum(1 for record in records if record.offset < end)
        for record in records[:covered]:
            yield {topic: [record]}, {topic: record.offset + 1}
        rest[topic] = records[covered:]
    yield rest, next_offsets


def _only(batch: Records) -> tuple[str, int] | None:
    """Topic and offset of the record, if there is only one."""
    found = [(topic, record.offset) for topic, part in batch.items() for record in part[:2]]
    return found[0] if len(found) == 1 else None
