"""Classes of queries by how often they are searched for: head, torso, tail. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


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
    shares = list(map(_share, text.split(",")))
    if any(later.part <= earlier.part for earlier, later in zip(shares, shares[1:])):
        raise ValueError(f"{text}: shares must ascend, each includes the classes before it")
    if len({share.name for share in shares}) < len(shares):
        raise ValueError(f"{text}: each class must be named once")
    return shares


def _share(text: str) -> Share:
    name, _, part = (each.strip() for each in text.partition("="))
    try:
        share = Share(name, float(part))
    except ValueError:
        raise ValueError(f"{text}: must be class=share, such as head=0.3") from None
    if not name or not 0 < share.part <= 1:
        raise ValueError(f"{text}: must be a name, and a share above 0 and at most 1")
    return share


def classed(
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
