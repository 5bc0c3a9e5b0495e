"""Files of classes of queries: CSV with the columns `query` and `class`. Pure.

What `relevanced queries --classes` writes, or anybody else: one class for each query.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..events.fields import InvalidField, identifier, shown
from ..queries.keys import key_of
from .csv_rows import Row, header_of, rows, texts, with_faults
from .grades import MOST_FAULTS, Fault, FaultyJudgements, counted

MOST_QUERIES: Final = 1_000_000
"""A file may class so many queries; each takes about 150 bytes of memory."""
MOST_CLASSES: Final = 1_000
"""A file may name so many classes: each is a segment."""
COLUMNS: Final = ("query", "class")


@dataclass(frozen=True)
class ClassCounts:
    """How much a file classes.

    >>> str(ClassCounts({"head": 1_200, "torso": 1}))
    '1,200 queries head, 1 query torso'
    """

    queries: Mapping[str, int]
    """Class → its queries."""

    def __str__(self) -> str:
        each = self.queries.items()
        return ", ".join(f"{counted(n, 'query', 'queries')} {of}" for of, n in each)


@dataclass(frozen=True, eq=False)
class QueryClasses:
    """The classes of one file."""

    by_query: Mapping[str, str]
    """Key of the query → its class."""

    @property
    def counts(self) -> ClassCounts:
        """How much it classes."""
        return ClassCounts(dict(Counter(self.by_query.values()).most_common()))


def read(lines: Iterable[bytes], file: str) -> QueryClasses:
    """Read a file of classes. Raises FaultyJudgements with every fault, in the order of the lines.

    Queries are the same where their keys are; the same one may stand there again with the same
    class.

    >>> read([b"query,class", b"Red Shoes,head"], "f").by_query
    {'red shoes': 'head'}
    """
    by_query: dict[str, str] = {}
    classes: set[str] = set()
    faults, more = list[Fault](), 0
    for row in _rows(lines, file):
        fault = row if isinstance(row, Fault) else None
        if not isinstance(row, Fault):
            line, (query, of) = row
            try:
                _add(by_query, classes, query, of)
            except ValueError as error:
                fault = Fault(file, line, str(error))
        if fault is not None and len(faults) < MOST_FAULTS:
            faults.append(fault)
        elif fault is not None:
            more += 1
        if len(by_query) > MOST_QUERIES:
            rule = f"has more than {MOST_QUERIES:,} queries, the most that a file may class"
            raise FaultyJudgements([*faults, Fault(file, 0, rule)], more)
    if not faults and not by_query:
        faults.append(Fault(file, 0, "classes no query"))
    if faults:
        raise FaultyJudgements(faults, more)
    return QueryClasses(by_query)


def _rows(lines: Iterable[bytes], file: str) -> Iterator[Row | Fault]:
    faults: list[Fault] = []
    found = texts(lines, file, faults)
    number, header = next(found, (0, ""))
    names = [name.strip().lower() for name in header_of(header)]
    if all(name in names for name in COLUMNS):
        indices = [names.index(name) for name in COLUMNS]
        yield from with_faults(rows(found, file, indices), faults)
        return
    yield from faults
    if number:
        yield Fault(file, number, f"{shown(header)}: must name the columns query,class")


def _add(by_query: dict[str, str], classes: set[str], query: str, of: str) -> None:
    """Add a query and its class. Raises ValueError."""
    key = key_of(query)
    if not key:
        raise ValueError(f"query={shown(query)}: must not be empty")
    if of not in classes:
        try:
            identifier("class", of)
        except InvalidField as error:
            raise ValueError(f"{error.detail}, of query {shown(key)}") from None
        if len(classes) == MOST_CLASSES:
            raise ValueError(f"class={shown(of)}: a file must name at most {MOST_CLASSES} classes")
        classes.add(of)
    if (before := by_query.setdefault(key, of)) != of:
        rule = f"must be {shown(before)}, its class further up"
        raise ValueError(f"class={shown(of)} of query {shown(key)}: {rule}")
