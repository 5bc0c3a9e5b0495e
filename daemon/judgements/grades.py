"""The grades of one file, collected judgement by judgement, with every fault. Pure.

Every reader of a format yields `Judgement`s and `Fault`s; what the formats share is checked here:
the key of the query, the item, the grade, repetitions, and how many there may be.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from ..events.fields import InvalidField, identifier, shown
from ..queries.keys import key_of

MOST_JUDGEMENTS: Final = 3_000_000
"""A file may have so many; each takes about 100 bytes of memory."""
MOST_FAULTS: Final = 1_000
"""So many faults are kept; the others are counted."""
HIGHEST_GRADE: Final = 100.0
"""No scale reaches higher: the gain of nDCG is 2^grade."""
_NUMBER: Final = re.compile(r"[-+]?\d{1,20}(\.\d{0,30})?", re.ASCII)


class Judgement(NamedTuple):
    """One grade as a file has it."""

    line: int
    """Counted from 1."""
    query: str
    item: object
    grade: object
    """A number, or its text; None or empty text where nobody has rated the item."""


Line: TypeAlias = tuple[int, str]
"""(number from 1, text without its end) of a line that is not blank."""


@dataclass(frozen=True)
class Fault:
    """A line, or a whole file, that breaks a rule."""

    file: str
    line: int
    """Counted from 1; 0 for the file as a whole."""
    reason: str
    """With the value and the rule."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.reason}"


Found: TypeAlias = Iterator[Judgement | Fault]
"""What a reader of a format yields."""


class FaultyJudgements(Exception):
    """A file that breaks rules."""

    def __init__(self, faults: list[Fault], more: int = 0) -> None:
        lines = [str(fault) for fault in faults]
        super().__init__("\n".join([*lines, f"and {more} more"] if more else lines))
        self.faults = faults
        """The first `MOST_FAULTS`, in the order of the lines."""
        self.more = more
        """How many there are beyond these."""


@dataclass(frozen=True)
class Counts:
    """How much a file judges.

    >>> str(Counts(queries=1, judgements=2, unrated=3))
    '1 query, 2 judgements, 3 pairs without a rating'
    """

    queries: int
    judgements: int
    """Pairs of a query and an item with a grade."""
    unrated: int
    """Pairs without a rating."""

    def __str__(self) -> str:
        parts = [
            counted(self.queries, "query", "queries"),
            counted(self.judgements, "judgement", "judgements"),
        ]
        if self.unrated:
            parts.append(counted(self.unrated, "pair", "pairs") + " without a rating")
        return ", ".join(parts)


def counted(number: int, one: str, several: str) -> str:
    """The number with its noun.

    >>> counted(1, "query", "queries"), counted(1_000, "query", "queries")
    ('1 query', '1,000 queries')
    """
    return f"{number:,} {one if number == 1 else several}"


@dataclass(frozen=True, eq=False)
class Judgements:
    """The grades of one file."""

    by_query: Mapping[str, Mapping[str, float]]
    """Key of the query → item → grade; a grade below 0 means that the item was judged and has no
    gain. Every query has at least one item."""
    unrated: int = 0
    """Pairs of the file without a rating."""

    @property
    def counts(self) -> Counts:
        """How much it judges."""
        pairs = sum(len(items) for items in self.by_query.values())
        return Counts(len(self.by_query), pairs, self.unrated)


def collect(
    judgements: Iterable[Judgement | Fault], file: str, max_grade: float = HIGHEST_GRADE
) -> Judgements:
    """Collect the judgements of a file. Raises FaultyJudgements with every fault.

    The same query and item may stand there more than once with one grade. Queries are the same
    where their keys are, so that two spellings may contradict one another.
    """
    by_query: dict[str, dict[str, float]] = {}
    faults: list[Fault] = []
    count = unrated = more = 0
    for found in judgements:
        fault = found if isinstance(found, Fault) else None
        if isinstance(found, Judgement):
            try:
                is_rated = _add(by_query, found, max_grade)
            except ValueError as error:
                fault = Fault(file, found.line, str(error))
            else:
                count, unrated = count + is_rated, unrated + (not is_rated)
        if fault is not None and len(faults) < MOST_FAULTS:
            faults.append(fault)
        elif fault is not None:
            more += 1
        if count > MOST_JUDGEMENTS:
            rule = f"has more than {MOST_JUDGEMENTS:,} judgements, the most that a file may have"
            raise FaultyJudgements([*faults, Fault(file, 0, rule)], more)
    if not faults and not count:
        faults.append(Fault(file, 0, "contains no judgement"))
    if faults:
        raise FaultyJudgements(faults, more)
    return Judgements(by_query, unrated)


def _add(by_query: dict[str, dict[str, float]], judgement: Judgement, max_grade: float) -> bool:
    """Whether the judgement has a grade. Raises ValueError."""
    key = key_of(judgement.query)
    if not key:
        raise ValueError(f"query={shown(judgement.query)}: must not be empty")
    try:
        item = identifier("item", judgement.item)
    except InvalidField as error:
        raise ValueError(f"{error.detail}, of query {shown(key)}") from None
    if judgement.grade is None or judgement.grade == "":
        return False
    grade = _number(judgement.grade)
    rule = None
    if grade is None:
        rule = "must be a number"
    elif not -HIGHEST_GRADE <= grade <= max_grade:
        rule = f"must be from {-HIGHEST_GRADE:g} to {max_grade:g}"
    elif (before := by_query.setdefault(key, {}).setdefault(item, grade)) != grade:
        rule = f"must be {before:g}, its grade further up"
    if rule is not None:
        where = f"item {shown(item)} of query {shown(key)}"
        raise ValueError(f"grade={shown(judgement.grade)} of {where}: {rule}")
    return True


def _number(value: object) -> float | None:
    """The number that a grade is; None for anything else."""
    if type(value) is int or type(value) is float:
        return float(value)
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None
