"""How many records one batch takes, and one chunk of it: by what the last ones cost. Pure.

A batch is committed as one, and its commit costs about 7.5 ms however few records it has: measured
against the floor of `make bench`, batches of 1,000 cost twice what batches of 10,000 do. A batch is
worked on in chunks, whose plain records nothing interrupts: heartbeats, scrapes and the commits of
other lanes wait for that. So the size of chunks follows what their records turn out to cost, and
the size of batches follows the backlog, up to what half a second can do. That does not bound what
the next records cost: chunks also end by bytes, and whatever is not plain is worked on in steps,
with turns of the others in between.
"""

from dataclasses import dataclass
from typing import Final

MIN_BATCH_RECORDS: Final = 500
"""The cost of a batch of fewer is mostly that of its commit."""
MAX_CHUNK_RECORDS: Final = 6_144
"""Beyond this size a chunk's records do not get cheaper by being many."""
MIN_CHUNK_RECORDS: Final = 100
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
class Pace:
    """How much a batch gathers before it is committed."""

    max_records: int
    commit_interval_s: float
    """While there is no backlog."""
