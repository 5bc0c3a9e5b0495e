"""How many records one batch takes. Pure: what the last batch cost is an argument.

A batch is one piece of work that nobody interrupts: heartbeats, scrapes and the commits of other
lanes wait for its end. So its size follows the work that records turn out to be, and grows to no
more than what is there to be read.
"""

from dataclasses import dataclass
from typing import Final

LEAST_RECORDS: Final = 500
"""A batch of fewer is mostly the cost of its commit."""
TARGET_S: Final = 0.05
"""What a batch may keep others waiting. The commit of another lane, about as long, may be put
together in the same turn of the event loop; twice both is still the 100 ms that nobody notices."""


@dataclass(frozen=True)
class Work:
    """How many records one poll gave in all; and those of its longest piece of work."""

    taken: int
    records: int = 0
    spent_s: float = 0.0
    asked_all: bool = True
    """Whether all lanes were asked: those that are busy cannot tell whether they have more."""


def next_size(size: int, work: Work, most: int) -> int:
    """The size of the next batch, at most `most` (≥ 1), after a poll that asked for `size`.

    1. The work took too long: what would have fitted. 2. The poll came back more than half full,
    and twice the work fits as well: there is a backlog, double. 3. Almost nothing came, of all
    lanes: half, so that the first records after a silence cost little, whatever they are.
    4. Otherwise the same.
    """
    if work.spent_s > TARGET_S:
        wanted = min(size, int(work.records * TARGET_S / work.spent_s))
    elif is_backlog(size, work) and work.spent_s * 2 <= TARGET_S:
        wanted = size * 2
    elif work.asked_all and work.taken * 8 < size:
        wanted = size // 2
    else:
        wanted = size
    return min(max(wanted, LEAST_RECORDS), most)


def is_backlog(size: int, work: Work) -> bool:
    """Whether so much came that more is likely to be there already."""
    return work.taken * 2 > size
