"""TREC's two formats, judgements (qrels) and results (run): bytes to values, faults by line.

Pure: whoever has the file open hands its bytes over. Compressed (gzip) bytes are seen as such.
"""

import gzip
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Qrels: TypeAlias = dict[str, dict[str, int]]
"""Query -> item -> grade, both in the order of the file."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_SHOWN: Final = 60
"""Characters of a faulty value that a message shows."""


@dataclass(frozen=True)
class Fault:
    """What is wrong where."""

    file: str
    line: int
    """Counted from 1; 0 for the file as a whole."""
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


class TrecError(Exception):
    """A file that does not hold what it should; `faults` are all that were found, in order."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = faults


@dataclass(frozen=True)
class Result:
    """One item that a run returned for a query."""

    item: str
    rank: str
    """As the file has it; only the tie rule `rank` reads it."""
    score: float


@dataclass(frozen=True)
class Run:
    """What one system returned."""

    tag: str
    """The system's own name: the last column of the first line."""
    results: dict[str, list[Result]] = field(default_factory=dict)
    """Query -> its items, in the order of the file."""


def parse_qrels(data: bytes, file: str) -> Qrels:
    """Judgements of lines `query iteration item grade`. Raises TrecError.

    >>> parse_qrels(b"301 0 d7 1\\n301 0 d9 -1\\n", "q")
    {'301': {'d7': 1, 'd9': -1}}
    """
    qrels: Qrels = {}

    def take(words: list[str]) -> None:
        if len(words) != 4:
            raise ValueError(f"{len(words)} fields: must be 4, query iteration item grade")
        query, _, item, grade = words
        judged = qrels.setdefault(query, {})
        if item in judged:
            raise ValueError(f"item {_short(item)} of query {_short(query)} is judged twice")
        judged[item] = _grade(grade)

    _parse_lines(data, file, take)
    return qrels


def parse_run(data: bytes, file: str) -> Run:
    """Results of lines `query Q0 item rank score tag`; what stands behind the tag is passed over.

    Raises TrecError.

    >>> parse_run(b"301 Q0 d7 1 2.5 bm25\\n", "r").results
    {'301': [Result(item='d7', rank='1', score=2.5)]}
    """
    results: dict[str, list[Result]] = {}
    seen: set[tuple[str, str]] = set()
    tags: list[str] = []

    def take(words: list[str]) -> None:
        if len(words) < 6:
            raise ValueError(f"{len(words)} fields: must be 6, query Q0 item rank score tag")
        query, _, item, rank, score, tag = words[:6]
        if (query, item) in seen:
            raise ValueError(f"item {_short(item)} of query {_short(query)} is returned twice")
        results.setdefault(query, []).append(Result(item, rank, _score(score)))
        seen.add((query, item))
        if not tags:
            tags.append(tag)

    _parse_lines(data, file, take)
    return Run(tags[0], results)


def _parse_lines(data: bytes, file: str, take: Callable[[list[str]], None]) -> None:
    """Hands the words of every line over; collects what each refuses. Raises TrecError."""
    faults: list[Fault] = []
    lines = 0
    for number, line in _numbered(_unpacked(data, file)):
        lines += 1
        try:
            take(line.decode().split())
        except UnicodeDecodeError:
            faults.append(Fault(file, number, "must be UTF-8 text"))
        except ValueError as error:
            faults.append(Fault(file, number, str(error)))
    if not lines:
        faults.append(Fault(file, 0, "holds no line"))
    if faults:
        raise TrecError(faults)


def _unpacked(data: bytes, file: str) -> bytes:
    if not data.startswith(_GZIP_MAGIC):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TrecError([Fault(file, 0, f"is not a whole gzip file: {error}")]) from error


def _numbered(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _grade(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"grade={_short(text)}: must be a whole number") from None


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
