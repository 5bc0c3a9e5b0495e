"""Readers of TREC qrels and CSV, line by line, and which format a file of judgements has. Pure.

A reader takes the lines of a file as bytes and yields what they say; it keeps no line.

Reader of the judgements of the OpenSearch Search Relevance Workbench, which are JSON.

An object is `{"query": …, "ratings": [{"docId": …, "rating": …}]}`, or a list of judgements as the
workbench imports and exports it, with such objects under `judgmentRatings`. A file has one object
on each line, or is one object over many lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

import msgspec

from ..events import shown
from .grades import (
    HIGHEST_GRADE,
    Fault,
    Found,
    Judgement,
    Judgements,
    Line,
    collect,
    header_of,
    rows,
    texts,
    with_faults,
)

MOST_DOCUMENT_CHARACTERS: Final = 64 * 2**20
"""An object over many lines may have so many: it is decoded at once."""
_OBJECT_RULE: Final = "must be one JSON object"
_TRUNCATED: Final = "truncated"
"""Stands in the decoder's message where a text ends too early."""
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_decode: Final = msgspec.json.Decoder().decode

_Rating: TypeAlias = tuple[str, object, object]
"""(query, item, grade)."""


def read_json(lines: Iterator[Line], file: str) -> Found:
    """Yield what the lines of a file say, of which there is at least one.

    Faults in an object over many lines name its first line, and where in the object they are.
    """
    first, second = next(lines), next(lines, None)
    rest = lines if second is None else chain([second], lines)
    if _is_cut(first[1]) and (second is None or not second[1].lstrip().startswith("{")):
        yield from _document(chain([first], rest), file)
        return
    for number, text in chain([first], rest):
        try:
            value = _decode(text)
        except (ValueError, RecursionError) as error:
            yield Fault(file, number, f"{shown(text)}: {_OBJECT_RULE}: {error}")
            continue
        yield from _placed(_of_object(value), file, number)


def _is_cut(text: str) -> bool:
    """Whether the text is the beginning of an object."""
    try:
        _decode(text)
    except (ValueError, RecursionError) as error:
        return _TRUNCATED in str(error)
    return False


def _document(lines: Iterator[Line], file: str) -> Found:
    """The lines as one object."""
    numbers: list[int] = []
    texts: list[str] = []
    size = 0
    for number, text in lines:
        numbers.append(number)
        texts.append(text)
        size += len(text)
        if size > MOST_DOCUMENT_CHARACTERS:
            rule = f"must have at most {MOST_DOCUMENT_CHARACTERS:,} characters"
            yield Fault(file, number, f"the object that begins in line {numbers[0]}: {rule}")
            return
    data = "\n".join(texts).encode()
    try:
        value = _decode(data)
    except (ValueError, RecursionError) as error:
        at = _BYTE.search(str(error))
        index = data[: int(at[1])].count(b"\n") if at else len(texts) - 1
        reason = f"{shown(texts[index].strip())}: {_OBJECT_RULE}: {error}"
        yield Fault(file, numbers[index], reason)
    else:
        yield from _placed(_of_object(value), file, numbers[0])


def _placed(found: Iterator[_Rating | str], file: str, line: int) -> Found:
    for each in found:
        yield Fault(file, line, each) if isinstance(each, str) else Judgement(line, *each)


def _of_object(value: object) -> Iterator[_Rating | str]:
    """Each rating of an object, or what breaks a rule."""
    if not isinstance(value, dict):
        yield f"{shown(value)}: must be an object"
    elif "judgmentRatings" not in value:
        yield from _of_query(value, "")
    elif not isinstance(queries := value["judgmentRatings"], list):
        yield f"judgmentRatings={shown(queries)}: must be an array"
    else:
        for index, judged in enumerate(queries):
            yield from _of_query(judged, f"judgmentRatings[{index}].")


def _of_query(value: object, path: str) -> Iterator[_Rating | str]:
    """Each rating of a query; `path` leads to it."""
    if not isinstance(value, dict):
        yield f"{path.rstrip('.')}={shown(value)}: must be an object with query and ratings"
        return
    query, ratings = value.get("query"), value.get("ratings")
    if not isinstance(query, str):
        yield f"{path}query={shown(query)}: must be a string"
    elif not isinstance(ratings, list):
        yield f"{path}ratings={shown(ratings)} of query {shown(query)}: must be an array"
    else:
        for index, rating in enumerate(ratings):
            if isinstance(rating, dict):
                yield query, rating.get("docId"), rating.get("rating")
            else:
                where = f"{path}ratings[{index}]={shown(rating)} of query {shown(query)}"
                yield f"{where}: must be an object"


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
