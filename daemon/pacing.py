"""How many records one batch takes. Pure: what the last batch cost is an argument.

A batch is worked on in pieces that nobody interrupts: heartbeats, scrapes and the commits of other
lanes wait for the end of one. So its size follows the work that records turn out to be, and grows
to no more than what is there to be read.
"""

from dataclasses import dataclass
from typing import Final

LEAST_RECORDS: Final = 500
"""A batch of fewer is mostly the cost of its commit."""
TARGET_S: Final = 0.05
"""What a piece of work may keep others waiting. The commit of another lane, about as long, may be
put together in the same turn of the event loop; both are still the 100 ms that nobody notices."""


@dataclass(frozen=True)
class Work:
    """What one poll gave, and what it cost."""

    taken: int
    """Records in all."""
    records: int = 0
    """Of its longest piece."""
    spent_s: float = 0.0
    """On its longest piece."""
    closing_s: float = 0.0
    """The longest that the end of a batch took: most of that is the same for few and for many."""
    asked_all: bool = True
    """Whether all lanes were asked: those that are busy cannot tell whether they have more."""


def next_size(size: int, work: Work, most: int, piece: int) -> int:
    """The size of the next batch, at most `most` (≥ 1), after a poll that asked for `size`; it is
    worked on in pieces of at most `piece` records.

    1. A piece took too long: what would have fitted. 2. The end of a batch took too long: half, but
    no less than a piece. 3. The poll came back more than half full, and twice the work fits as
    well: there is a backlog, double. 4. Almost nothing came, of all lanes: half, so that the first
    records after a silence cost little, whatever they are. 5. Otherwise the same.
    """
    if work.spent_s > TARGET_S:
        wanted = min(size, int(work.records * TARGET_S / work.spent_s))
    elif work.closing_s > TARGET_S and size > piece:
        wanted = max(size // 2, piece)
    elif is_backlog(size, work) and _twice_fits(size, work, piece):
        wanted = size * 2
    elif work.asked_all and work.taken * 8 < size:
        wanted = size // 2
    else:
        wanted = size
    return min(max(wanted, LEAST_RECORDS), most)


def _twice_fits(size: int, work: Work, piece: int) -> bool:
    longer = min(size * 2, piece) / min(size, piece)
    return max(work.spent_s * longer, work.closing_s * 2) <= TARGET_S


def is_backlog(size: int, work: Work) -> bool:
    """Whether so much came that more is likely to be there already."""
    return work.taken * 2 > size
