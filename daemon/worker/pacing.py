"""How many records one batch takes, and one piece of it. Pure: what the last ones cost is given.

A batch is committed as one. It is worked on in pieces that nobody interrupts: heartbeats, scrapes
and the commits of other lanes wait for the end of one. So pieces follow the work that records turn
out to be; batches grow to no more than what is there to be read, and are done soon.
"""

from dataclasses import dataclass
from typing import Final

LEAST_RECORDS: Final = 500
"""A batch of fewer is mostly the cost of its commit."""
MOST_PIECE: Final = 6_144
"""Records of a piece: beyond that they do not get cheaper by being many."""
LEAST_PIECE: Final = 100
PIECE_S: Final = 0.03
"""What a piece of work may keep others waiting. What a lane commits may be put together in the same
turn of the event loop, and what was fetched be unpacked: all of it stays below the 100 ms that
nobody notices."""
BATCH_S: Final = 0.5
"""What a lane's batch may take until it is committed."""


@dataclass(frozen=True)
class Spent:
    """The longest of several pieces of work: its records, and what it took."""

    records: int = 0
    seconds: float = 0.0

    def or_longer(self, records: int, seconds: float) -> "Spent":
        """This, or another that took longer."""
        return Spent(records, seconds) if seconds > self.seconds else self

    def fitting(self, seconds: float) -> int:
        """How many records would have taken so long."""
        return int(self.records * seconds / self.seconds)


@dataclass(frozen=True)
class Work:
    """What one poll gave, and what it cost."""

    taken: int
    """Records in all."""
    piece: Spent = Spent()
    batch: Spent = Spent()
    closing_s: float = 0.0
    """The longest that the end of a batch took: most of that is the same for few and for many."""
    asked_all: bool = True
    """Whether all lanes were asked: those that are busy cannot tell whether they have more."""


def next_piece(piece: int, work: Work) -> int:
    """The records of the next pieces, after some of `piece` at most: what would have fitted where
    one took too long, twice as many where a full one took less than half of what it may."""
    if work.piece.seconds > PIECE_S:
        return max(work.piece.fitting(PIECE_S), LEAST_PIECE)
    if work.piece.records * 2 > piece and work.piece.seconds * 2 <= PIECE_S:
        return min(piece * 2, MOST_PIECE)
    return piece


def next_size(size: int, work: Work, most: int) -> int:
    """The size of the next batch, at most `most` (≥ 1), after a poll that asked for `size`.

    1. A batch took too long: what would have fitted. 2. The end of a batch took too long: half, but
    no less than the largest piece. 3. The poll came back more than half full, and twice the work
    fits as well: there is a backlog, double. 4. Almost nothing came, of all lanes: half, so that
    the first records after a silence cost little, whatever they are. 5. Otherwise the same.
    """
    if work.batch.seconds > BATCH_S:
        wanted = min(size, work.batch.fitting(BATCH_S))
    elif work.closing_s > PIECE_S and size > MOST_PIECE:
        wanted = max(size // 2, MOST_PIECE)
    elif is_backlog(size, work) and _twice_fits(work):
        wanted = size * 2
    elif work.asked_all and work.taken * 8 < size:
        wanted = size // 2
    else:
        wanted = size
    return min(max(wanted, LEAST_RECORDS), most)


def _twice_fits(work: Work) -> bool:
    return work.batch.seconds * 2 <= BATCH_S and work.closing_s * 2 <= PIECE_S


def is_backlog(size: int, work: Work) -> bool:
    """Whether so much came that more is likely to be there already."""
    return work.taken * 2 > size
