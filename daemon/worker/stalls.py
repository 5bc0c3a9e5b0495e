"""Which record keeps its owners from ever committing, and when that is certain. Pure.

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

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..events import LogRecord
from ..storage import StallMark
from .batch import Records

MARKS: Final = 2
"""So many owners in a row must take too long before anything is done differently."""


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
