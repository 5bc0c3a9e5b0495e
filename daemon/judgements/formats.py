"""Readers of TREC qrels and CSV, line by line, and which format a file of judgements has. Pure.

A reader takes the lines of a file as bytes and yields what they say; it keeps no line.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from ..events.fields import shown
from .csv_rows import header_of, rows, texts, with_faults
from .grades import HIGHEST_GRADE, Fault, Found, Judgement, Judgements, Line, collect
from .workbench import read_json

_COLUMNS: Final = {
    "query": ("query", "querytext"),
    "docid": ("docid",),
    "rating": ("rating",),
}
"""Column of a CSV file → its names in lower case, without blanks and underscores."""


def read(lines: Iterable[bytes], file: str, max_grade: float = HIGHEST_GRADE) -> Judgements:
    """Read a file of judgements of any format: TREC qrels, CSV with the columns `query`, `docid`
    and `rating`, or JSON of the Search Relevance Workbench.

    `lines` have at most `MOST_LINE_BYTES` each; one that is longer may end there. `file` is its
    name in messages. Raises FaultyJudgements with every fault, in the order of the lines.

    >>> read([b'"red shoes" 0 d7 2'], "q").by_query
    {'red shoes': {'d7': 2.0}}
    """
    return collect(_judgements(lines, file), file, max_grade)


def _judgements(lines: Iterable[bytes], file: str) -> Found:
    faults: list[Fault] = []
    found = texts(lines, file, faults)
    first = next(found, None)
    judgements = () if first is None else _reader(first[1])(chain([first], found), file)
    yield from with_faults(iter(judgements), faults)


def _reader(first_line: str) -> Callable[[Iterator[Line], str], Found]:
    """The reader of a file that begins with this line."""
    if first_line.lstrip().startswith("{"):
        return read_json
    return _csv if _indices(header_of(first_line)) is not None else _qrels


def _qrels(lines: Iterator[Line], file: str) -> Found:
    """TREC qrels, `query iteration item grade`: a query of several words stands in double quotes,
    where `""` is one quote."""
    rule = "must be 4 fields, query iteration item grade, with a query of several words in quotes"
    or_csv = "; a CSV file begins with the names of its columns, query,docid,rating among them"
    for number, text in lines:
        query, rest = _topic(text.strip())
        if query is None or len(rest) != 3:
            yield Fault(file, number, f"{shown(text)}: {rule}{or_csv}")
        else:
            yield Judgement(number, query, rest[1], rest[2])
        or_csv = ""


def _topic(text: str) -> tuple[str | None, Sequence[str]]:
    """(the query, the other fields) of a line; None for a query whose quotes do not end."""
    if not text.startswith('"'):
        query, *rest = text.split()
        return query, rest
    end = 1
    while (end := text.find('"', end)) != -1:
        if text[end + 1 : end + 2] != '"':
            return text[1:end].replace('""', '"'), text[end + 1 :].split()
        end += 2
    return None, ()


def _csv(lines: Iterator[Line], file: str) -> Found:
    """CSV with a header, as Quepid exports it; other columns are ignored."""
    _, header = next(lines)
    indices = _indices(header_of(header)) or (0, 1, 2)  # the header made this the reader of it
    for row in rows(lines, file, indices):
        yield row if isinstance(row, Fault) else Judgement(row[0], *row[1])


def _indices(header: Sequence[str]) -> tuple[int, int, int] | None:
    """Where query, docid and rating are; None where the header does not name all of them."""
    names = [name.strip().lower().replace(" ", "").replace("_", "") for name in header]
    found = [
        next((names.index(name) for name in spellings if name in names), None)
        for spellings in _COLUMNS.values()
    ]
    query, docid, rating = found
    return None if query is None or docid is None or rating is None else (query, docid, rating)
