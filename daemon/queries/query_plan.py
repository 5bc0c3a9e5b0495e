"""What is kept of queries, and their classes by how often they are searched for: head, torso, tail.
Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

PLAIN: Final = "plain"
HASHED: Final = "hashed"
OFF: Final = "off"
TEXTS: Final = (OFF, PLAIN, HASHED)
"""How queries are kept: not at all, as their normalised text, or as keyed hashes of it."""
ZERO_SHARE: Final = 5
"""The table of searches without results keeps a fifth of the rows of the others."""
USER_ID: Final = "user_id"


@dataclass(frozen=True)
class QueryPlan:
    """The tables of queries of a lane."""

    text: str = PLAIN
    """PLAIN or HASHED."""
    by: str | None = None
    """A grouping of one attribute that has a table of its own; None: there is none."""
    kept: int = 500
    """Rows of a lane and hour that are stored."""
    days: int = 8
    """Hours are kept for so many days."""
    min_users: int = 5
    """A text is shown from so many different users on; 0: always."""
    user: str = USER_ID
    """Who counts as a user: USER_ID, or an attribute."""
    examples: int = 2
    """Searches that are kept of a row and hour as they were shown; 0: none."""
    salt: bytes = b""
    """Of the hashes of users, beside the day."""
    key: bytes = field(default=b"", repr=False)
    """The secret key of hashed texts."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What a change of begins the tables anew."""
        return self.text, self.by, self.kept, self.min_users, self.user, self.examples

    @property
    def kept_zero(self) -> int:
        """Rows of the table of searches without results."""
        return max(1, self.kept // ZERO_SHARE)


KEYS_ALONE: Final = QueryPlan(min_users=0)
"""Where the keys of queries are needed and no tables are kept."""


class OutOfReach(Exception):
    """The queries that are known carry less than a class asks for."""

    def __init__(self, name: str, asked: float, reached: float) -> None:
        super().__init__(name, asked, reached)
        self.name, self.asked, self.reached = name, asked, reached


@dataclass(frozen=True)
class Share:
    """A class: with those before it, it has the queries that carry this part of all searches."""

    name: str
    part: float
    """Above 0, at most 1."""


def shares_of(text: str) -> list[Share]:
    """The classes of `head=0.3,torso=0.6`. Raises ValueError with the rule.

    >>> shares_of("head=0.3, torso=0.6")
    [Share(name='head', part=0.3), Share(name='torso', part=0.6)]
    """
    shares = list(map(_share_of, text.split(",")))
    if any(later.part <= earlier.part for earlier, later in zip(shares, shares[1:])):
        raise ValueError(f"{text}: shares must ascend, each includes the classes before it")
    if len({share.name for share in shares}) < len(shares):
        raise ValueError(f"{text}: each class must be named once")
    return shares


def _share_of(text: str) -> Share:
    name, _, part = (each.strip() for each in text.partition("="))
    try:
        share = Share(name, float(part))
    except ValueError:
        raise ValueError(f"{text}: must be class=share, such as head=0.3") from None
    if not name or not 0 < share.part <= 1:
        raise ValueError(f"{text}: must be a name, and a share above 0 and at most 1")
    return share


def classed_queries(
    queries: Iterable[tuple[str, int]], searches: int, shares: Sequence[Share]
) -> Iterator[tuple[str, str]]:
    """(query, class) of the most frequent queries, until the last class has its share.

    `queries` are (query, searches of it), the most frequent first; `searches` are all, also of
    queries that are not among them. Each class has the fewest queries that reach its share. Raises
    OutOfReach at the end of the queries.
    """
    carried, remaining = 0, iter(queries)
    for share in shares:
        while carried < share.part * searches:
            query, count = next(remaining, (None, 0))
            if query is None:
                raise OutOfReach(share.name, share.part, carried / searches)
            carried += count
            yield query, share.name
