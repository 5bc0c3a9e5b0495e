"""Parse TREC's two formats, judgements (qrels) and results (run), and report faults by line.

The caller reads the file and passes its bytes. Bytes compressed with gzip are recognised.
"""

import gzip
import math
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from ...judgements import Fault, formats, grades
from ...recompute.files import without_mark

Qrels: TypeAlias = dict[str, dict[str, float]]
"""Query -> item -> grade; queries and items in the order of the file."""

Known: TypeAlias = dict[str, set[str]]
"""Query -> the items that the user knew before."""
Subtopics: TypeAlias = dict[str, dict[str, dict[str, float]]]
"""Query -> item -> subtopic -> grade."""

_WORDS: Final = re.compile(r'"([^"]+)"|(\S+)')
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SAMPLED_LINES: Final = 20
_SHOWN: Final = 60
"""A message shows at most this many characters of an invalid value."""


class TrecError(Exception):
    """A file that breaks the format; `faults` lists every fault in the order of the lines."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


@dataclass(frozen=True)
class Result:
    """One item that a run returned for a query."""

    item: str
    rank: str
    """As text, as the file has it: only the tie rule `rank` reads it as a number."""
    score: float


@dataclass(frozen=True)
class RunFile:
    """The results of one system."""

    tag: str
    """The system's name: the tag of the first line."""
    results: dict[str, list[Result]] = field(default_factory=dict)
    """Query -> its results, in the order of the file."""


def parse_qrels(data: bytes, file: str) -> Qrels:
    """Parse lines `query iteration item grade`, or those of a file that begins with the names of
    its columns, as BEIR's `query-id corpus-id score`, or JSON as `judgements` reads it; of a
    request of _rank_eval the queries are the ids of its requests. Grades may have decimals. An item
    that is judged for several subtopics (`query subtopic item grade`) has the highest of its
    grades. Raises TrecError.

    >>> parse_qrels(b"301 0 d7 1\\n301 0 d9 -1\\n", "q")
    {'301': {'d7': 1.0, 'd9': -1.0}}
    """
    qrels: Qrels = {}
    seen = set[tuple[str, str, str]]()
    data = _decompressed(data, file)
    _, header = next(_numbered(data), (0, b""))
    columns = formats.columns_of(header.decode(errors="replace"))

    def parse_words(words: list[str]) -> None:
        if len(words) != 4:
            raise ValueError(f"{len(words)} fields: must be 4, query iteration item grade")
        add(words[0], words[2], words[3], words[1])

    def parse_row(row: list[str]) -> None:
        assert columns is not None
        if len(row) <= max(columns[1]):
            raise ValueError(f"{len(row)} fields: must have those that the first line names")
        query, item, grade = (row[index].strip() for index in columns[1])
        if item or grade:  # a query alone is one that nobody has rated
            add(query, item, grade)

    def add(query: str, item: str, grade: str, subtopic: str = "") -> None:
        judged = qrels.setdefault(query, {})
        if (query, subtopic, item) in seen:
            raise ValueError(f"item {_short(item)} of query {_short(query)} is judged twice")
        seen.add((query, subtopic, item))
        judged[item] = max(_grade(grade), judged.get(item, -math.inf))

    if header.lstrip().startswith((b"{", b"[")):
        _parse_json(data, file, add)
    elif columns is None:
        _parse_lines(data, file, parse_words)
    else:
        _parse_lines(data, file, parse_row, columns[0])
    return qrels


def parse_subtopics(data: bytes, file: str) -> Subtopics:
    """Parse lines `query subtopic item grade`. Raises TrecError, also where the second column is
    the same everywhere: then it names no subtopics.

    >>> parse_subtopics(b"1 a d7 1\\n1 b d7 0\\n", "q")
    {'1': {'d7': {'a': 1.0, 'b': 0.0}}}
    """
    found: Subtopics = {}
    names = set[str]()

    def parse_words(words: list[str]) -> None:
        if len(words) != 4:
            raise ValueError(f"{len(words)} fields: must be 4, query subtopic item grade")
        query, subtopic, item, grade = words
        names.add(subtopic)
        found.setdefault(query, {}).setdefault(item, {})[subtopic] = _grade(grade)

    _parse_lines(data, file, parse_words)
    if len(names) < 2:
        rule = "has no subtopics: its second column, which names them, is the same in all lines"
        raise TrecError([Fault(file, 0, rule)])
    return found


def parse_run(data: bytes, file: str) -> RunFile:
    """Parse lines `query Q0 item rank score tag`; words after the tag are ignored. Or an answer of
    _rank_eval, whose queries are the ids of its requests, and whose hits are in order.

    Raises TrecError.

    >>> parse_run(b"301 Q0 d7 1 2.5 bm25\\n", "r").results
    {'301': [Result(item='d7', rank='1', score=2.5)]}
    """
    results: dict[str, list[Result]] = {}
    seen: set[tuple[str, str]] = set()
    tags: list[str] = []

    def parse_words(words: list[str]) -> None:
        if len(words) < 6:
            raise ValueError(f"{len(words)} fields: must be 6, query Q0 item rank score tag")
        query, _, item, rank, score, tag = words[:6]
        if (query, item) in seen:
            raise ValueError(f"item {_short(item)} of query {_short(query)} is returned twice")
        results.setdefault(query, []).append(Result(item, rank, _score(score)))
        seen.add((query, item))
        if not tags:
            tags.append(tag)

    data = _decompressed(data, file)
    if (details := _rank_eval(data, "details")) is not None:
        return RunFile(Path(file).name, _hits_of(details, file))
    _parse_lines(data, file, parse_words)
    return RunFile(tags[0], results)


def parse_known(data: bytes, file: str) -> Known:
    """Parse lines `query item`. Raises TrecError.

    >>> parse_known(b"301 d7\\n301 d9\\n", "k") == {"301": {"d7", "d9"}}
    True
    """
    known: Known = {}

    def parse_words(words: list[str]) -> None:
        if len(words) != 2:
            raise ValueError(f"{len(words)} fields: must be 2, query item")
        known.setdefault(words[0], set()).add(words[1])

    _parse_lines(data, file, parse_words)
    return known


def apparent_kind(data: bytes) -> Literal["judgements", "results"] | None:
    """What the first lines of a file look like: judgements have four fields, results have six or
    more; None for anything else, and for a gzip file that is broken.

    >>> apparent_kind(b"301 Q0 d7 1 2.5 bm25\\n")
    'results'
    """
    try:
        lines = islice(_numbered(_decompressed(data, "")), _SAMPLED_LINES)
    except TrecError:
        return None
    counts = {min(len(line.split()), 6) for _, line in lines}
    if counts == {4}:
        return "judgements"
    return "results" if counts == {6} else None


def _parse_lines(
    data: bytes, file: str, parse_words: Callable[[list[str]], None], separator: str | None = None
) -> None:
    """Call `parse_words` with the words of every line that is not blank; with a separator, with the
    fields of every line after the first.

    A ValueError of it becomes a fault of that line. Raises TrecError with all faults.
    """
    faults: list[Fault] = []
    any_line = False
    for line_number, line in _numbered(_decompressed(data, file)):
        is_header, any_line = separator is not None and not any_line, True
        if is_header:
            continue
        try:
            text = line.decode()
            parse_words(
                _words(text) if separator is None else list(grades.header_of(text, separator))
            )
        except UnicodeDecodeError:
            faults.append(Fault(file, line_number, "must be UTF-8 text"))
        except ValueError as error:
            faults.append(Fault(file, line_number, str(error)))
    if not any_line:
        faults.append(Fault(file, 0, "contains no line"))
    if faults:
        raise TrecError(faults)


def _decompressed(data: bytes, file: str) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TrecError([Fault(file, 0, f"is not a complete gzip file: {error}")]) from error


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without a byte order mark) of the lines that are not blank."""
    # Files that were put together have the mark before the first line of each.
    for line_number, line in enumerate(map(without_mark, data.split(b"\n")), start=1):
        if line.strip():
            yield line_number, line


def _words(text: str) -> list[str]:
    """The words of a line; one of several words stands in double quotes.

    >>> _words('"red shoes" 0 d7 2')
    ['red shoes', '0', 'd7', '2']
    """
    if not text.startswith('"'):
        return text.split()
    return [quoted or word for quoted, word in _WORDS.findall(text)]


def _parse_json(data: bytes, file: str, add: Callable[[str, str, str], None]) -> None:
    """Call `add` with the query, item and grade of each judgement; see `_parse_lines`."""
    if (requests := _rank_eval(data, "requests")) is not None:
        _parse_requests(requests, file, add)
        return
    faults: list[Fault] = []
    for found in formats.judgements_of(BytesIO(data), file):
        if isinstance(found, Fault):
            faults.append(Fault(file, found.line, found.reason))
        elif found.item != "" and found.grade not in (None, ""):
            try:
                add(found.query, str(found.item), str(found.grade))
            except ValueError as error:
                faults.append(Fault(file, found.line, str(error)))
    if faults:
        raise TrecError(faults)


def _rank_eval(data: bytes, member: str) -> Any:
    """A member of a request or an answer of Elastic's _rank_eval; None of anything else."""
    if not data.lstrip().startswith(b"{"):
        return None
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    return found.get(member) if isinstance(found, dict) else None


class _Rated(msgspec.Struct):
    item: str = msgspec.field(name="_id")
    rating: float


class _Request(msgspec.Struct):
    id: str
    ratings: list[_Rated] = []


class _Hit(msgspec.Struct):
    item: str = msgspec.field(name="_id")


class _RatedHit(msgspec.Struct):
    hit: _Hit


class _Detail(msgspec.Struct):
    hits: list[_RatedHit] = []


def _parse_requests(requests: Any, file: str, add: Callable[[str, str, str], None]) -> None:
    """Call `add` with the id of the request, the item and its grade for each rating. Raises
    TrecError."""
    try:
        for request in msgspec.convert(requests, list[_Request]):
            for rated in request.ratings:
                add(request.id, rated.item, str(rated.rating))
    except ValueError as error:
        raise TrecError([Fault(file, 0, f"requests of _rank_eval: {error}")]) from error


def _hits_of(details: Any, file: str) -> dict[str, list[Result]]:
    """The hits by the id of their request. Raises TrecError."""
    try:
        found = msgspec.convert(details, dict[str, _Detail])
    except ValueError as error:
        raise TrecError([Fault(file, 0, f"details of _rank_eval: {error}")]) from error
    # Their scores may be null: the order of the hits is that of the search.
    return {
        query: [
            Result(rated.hit.item, str(rank), -rank)
            for rank, rated in enumerate(detail.hits, start=1)
        ]
        for query, detail in found.items()
    }


def _grade(text: str) -> float:
    grade = grades.number_of(text)
    if grade is None:
        raise ValueError(f"grade={_short(text)}: must be a number")
    return grade


def _score(text: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise ValueError(f"score={_short(text)}: must be a number")
    return score


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
