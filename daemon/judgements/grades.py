"""The grades of one file, or its classes of queries, collected line by line, with every fault.
Pure.

Every reader of a format yields `Judgement`s and `Fault`s; what the formats share is checked here:
the key of the query, the item, the grade, repetitions, and how many there may be. A reader takes
the lines of a file as bytes, and keeps none of them. What is no text or no row is a fault with its
line, and reading goes on after it.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar

from ..events import InvalidField, identifier, shown
from ..queries import key_of
from .faults import MOST_FAULTS, Fault, FaultyJudgements

MOST_JUDGEMENTS: Final = 3_000_000
"""A file may have so many; each takes about 100 bytes of memory."""
FEW_NUMBERS: Final = 3
"""People search for a number, but not only for so many."""
HIGHEST_GRADE: Final = 100.0
"""No scale reaches higher: the gain of nDCG is 2^grade."""
DEFAULT_MAX_GRADE: Final[float] = 3
"""Lanes read no higher grade unless the configuration says so."""
_NUMBER: Final = re.compile(
    r"[-+]?(\d{1,20}([.,]\d{0,30})?|[.,]\d{1,30})(e[-+]?\d{1,2})?", re.ASCII | re.IGNORECASE
)
_MANY_ALIKE: Final = 3
"""From so many faults on, by one rule and with no rating that counts, the whole file is so."""


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


Found: TypeAlias = Iterator[Judgement | Fault]
"""What a reader of a format yields."""


@dataclass(frozen=True)
class GradeCounts:
    """How much a file judges.

    >>> str(Counts(queries=1, judgements=2, unrated=3))
    '1 query, 2 judgements, 3 pairs without a rating'
    """

    queries: int
    judgements: int
    """Pairs of a query and an item with a grade."""
    unrated: int
    """Pairs without a rating."""
    unrated_queries: int = 0
    """Queries of which the file has no item."""
    only_numbers: bool = False
    """Whether each query is a number, as ids of queries are."""
    highest: float = 0.0
    """The highest grade; 0 where none is above it."""

    def __str__(self) -> str:
        parts = [
            counted(self.queries, "query", "queries"),
            counted(self.judgements, "judgement", "judgements"),
        ]
        if self.unrated:
            parts.append(counted(self.unrated, "pair", "pairs") + " without a rating")
        if self.unrated_queries:
            queries = counted(self.unrated_queries, "query", "queries")
            parts.append(f"{queries} without an item")
        if self.only_numbers:
            parts.append("every query is a number (searches are found by their texts, not by ids)")
        if self.highest > DEFAULT_MAX_GRADE:
            parts.append(
                f"grades up to {self.highest:g} (lanes need judgements.max_grade ="
                f" {self.highest:g} or more, the default is {DEFAULT_MAX_GRADE:g})"
            )
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
    unrated_queries: int = 0
    """Queries of which the file has no item."""

    @property
    def counts(self) -> GradeCounts:
        """How much it judges."""
        pairs = sum(len(items) for items in self.by_query.values())
        numbers = len(self.by_query) >= FEW_NUMBERS and all(map(str.isdecimal, self.by_query))
        highest = max((max(items.values()) for items in self.by_query.values()), default=0.0)
        return GradeCounts(
            queries=len(self.by_query),
            judgements=pairs,
            unrated=self.unrated,
            unrated_queries=self.unrated_queries,
            only_numbers=numbers,
            highest=max(highest, 0.0),
        )


def collect(
    judgements: Iterable[Judgement | Fault], file: str, max_grade: float = HIGHEST_GRADE
) -> Judgements:
    """Collect the judgements of a file. Raises FaultyJudgements with every fault.

    The same query and item may stand there more than once with one grade. Queries are the same
    where their keys are, so that two spellings may contradict one another.
    """
    by_query: dict[str, dict[str, float]] = {}
    faults: list[Fault] = []
    added, without_item, more = Counter[str](), set[str](), 0
    for found in judgements:
        fault = found if isinstance(found, Fault) else None
        if isinstance(found, Judgement):
            try:
                added[add_judgement(by_query, without_item, found, max_grade)] += 1
            except ValueError as error:
                fault = Fault(file, found.line, str(error))
        if fault is not None and len(faults) < MOST_FAULTS:
            faults.append(fault)
        elif fault is not None:
            more += 1
        if added[_RATED] > MOST_JUDGEMENTS:
            rule = f"has more than {MOST_JUDGEMENTS:,} judgements, the most that a file may have"
            raise FaultyJudgements([*faults, Fault(file, 0, rule)], more)
    if not faults and not added[_RATED]:
        faults.append(Fault(file, 0, "contains no judgement"))
    if faults:
        raise FaultyJudgements(*_told(faults, more, any_rated=added[_RATED] > 0))
    return Judgements(by_query, added[_UNRATED], len(without_item.difference(by_query)))


def _told(faults: list[Fault], more: int, *, any_rated: bool) -> tuple[list[Fault], int]:
    """The faults, of which one is told where the whole file breaks one rule."""
    rules = {fault.reason.rpartition(": ")[2] for fault in faults}
    if any_rated or len(faults) < _MANY_ALIKE or len(rules) > 1:
        return faults, more
    words = f"; all {len(faults) + more:,} ratings are like that"
    return [Fault(faults[0].file, faults[0].line, faults[0].reason + words)], 0


_RATED: Final = "rated"
_UNRATED: Final = "unrated"
_WITHOUT_ITEM: Final = "without_item"


def add_judgement(
    by_query: dict[str, dict[str, float]],
    without_item: set[str],
    judgement: Judgement,
    max_grade: float,
) -> str:
    """Add the judgement, and say what it is. Without item and grade it names a query of which tools
    say that nobody has rated it yet. Raises ValueError."""
    key = key_of(judgement.query)
    if not key:
        raise ValueError(f"query={shown(judgement.query)}: must not be empty")
    is_rated = judgement.grade is not None and judgement.grade != ""
    if judgement.item == "" and not is_rated:
        without_item.add(key)
        return _WITHOUT_ITEM
    try:
        item = identifier("item", judgement.item)
    except InvalidField as error:
        raise ValueError(f"{error.detail}, of query {shown(key)}") from None
    if not is_rated:
        return _UNRATED
    grade = number_of(judgement.grade)
    rule = None
    if grade is None:
        rule = "must be a number"
    elif not -HIGHEST_GRADE <= grade <= max_grade:
        rule = _scale_rule(grade, max_grade)
    elif (before := by_query.setdefault(key, {}).setdefault(item, grade)) != grade:
        rule = (
            f"must be {before:g}, its grade further up; of several raters, `judgements agreement`"
            " says how far they agree"
        )
    if rule is not None:
        where = f"item {shown(item)} of query {shown(key)}"
        raise ValueError(f"grade={shown(judgement.grade)} of {where}: {rule}")
    return _RATED


def _scale_rule(grade: float, max_grade: float) -> str:
    """The rule that a grade outside the scale breaks, and how a longer scale is set."""
    rule = f"must be from {-HIGHEST_GRADE:g} to {max_grade:g}"
    if max_grade < grade <= HIGHEST_GRADE:
        return f"{rule}; for a longer scale raise judgements.max_grade, or --max-grade"
    return rule


def number_of(value: object) -> float | None:
    """The number that a grade is; None for anything else."""
    if type(value) is int or type(value) is float:
        return float(value)
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return None
    return float(value.replace(",", "."))


MOST_LINE_BYTES: Final = 64 * 2**20
"""A line may have so many bytes: a line of JSON may be a whole list of judgements."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_MARK: Final = "\ufeff"
"""The mark that some programs, Excel among them, put before UTF-8 text."""

T = TypeVar("T")
Row: TypeAlias = tuple[int, Sequence[str]]
"""(line from 1 at which it begins, the fields that were asked for, without blanks around them)."""


def texts(lines: Iterable[bytes], file: str, faults: list[Fault]) -> Iterator[Line]:
    """The lines that are not blank, decoded; those that are no text become faults."""
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith(_UTF_16):
            faults.append(Fault(file, 0, "is UTF-16 text: must be UTF-8, save it as such"))
            return
        if len(line) > MOST_LINE_BYTES:
            faults.append(Fault(file, number, f"must have at most {MOST_LINE_BYTES:,} bytes"))
            return
        try:
            # Files that were put together have the mark before the first line of each.
            text = line.decode().removeprefix(_MARK).rstrip("\r\n")
        except UnicodeDecodeError as error:
            near = line[max(0, error.start - 10) : error.end + 10].decode(errors="replace")
            faults.append(Fault(file, number, f"{shown(near.strip())}: must be UTF-8 text"))
            continue
        if text and not text.isspace():
            yield number, text


def header_of(line: str, separator: str = ",") -> Sequence[str]:
    """The names of the columns in the first line of a CSV file; none where it is no CSV."""
    try:
        return next(csv.reader([line], strict=True, delimiter=separator))
    except csv.Error:
        return ()


def rows(
    lines: Iterator[Line],
    file: str,
    header: Sequence[str],
    indices: Sequence[int],
    separator: str = ",",
) -> Iterator[Row | Fault]:
    """The fields at these indices of every row that follows the header. A row with more fields has
    a separator within a text, which moves the fields behind it."""
    numbers: list[int] = []
    found = csv.reader(_remembered(lines, numbers), strict=True, delimiter=separator)
    last = max(indices)
    while True:
        numbers.clear()
        try:
            row = next(found, None)
        except csv.Error as error:
            yield Fault(file, numbers[0], f"the row that begins here is not CSV: {error}")
            continue
        if row is None:
            return
        if len(row) <= last:
            rule = f"must have at least {last + 1}, as the header names them"
            yield Fault(file, numbers[0], f"{len(row)} fields: {rule}")
            continue
        if len(row) > len(header) and any(field.strip() for field in row[len(header) :]):
            rule = f"must have at most {len(header)}, as the header names them; a text with"
            rule += f" {shown(separator)} stands in double quotes"
            yield Fault(file, numbers[0], f"{len(row)} fields: {rule}")
            continue
        yield numbers[0], [row[index].strip() for index in indices]


def with_faults(found: Iterator[T], faults: list[Fault]) -> Iterator[T | Fault]:
    """Pass on the faults that reading the lines collects, between what is found in them."""
    for one in found:
        yield from faults
        faults.clear()
        yield one
    yield from faults


def _remembered(lines: Iterator[Line], numbers: list[int]) -> Iterator[str]:
    """The texts, with their ends; their numbers are added to `numbers`."""
    for number, text in lines:
        numbers.append(number)
        yield text + "\n"


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


def read_classes(lines: Iterable[bytes], file: str) -> QueryClasses:
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
                _add_class(by_query, classes, query, of)
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
    columns = header_of(header)
    names = [name.strip().lower() for name in columns]
    if all(name in names for name in COLUMNS):
        indices = [names.index(name) for name in COLUMNS]
        yield from with_faults(rows(found, file, columns, indices), faults)
        return
    yield from faults
    if number:
        yield Fault(file, number, f"{shown(header)}: must name the columns query,class")


def _add_class(by_query: dict[str, str], classes: set[str], query: str, of: str) -> None:
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
