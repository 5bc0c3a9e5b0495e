"""The lines of a text file, and the rows of a CSV file with a header. Pure.

A reader takes the lines of a file as bytes, and keeps none of them. What is no text or no row is a
fault with its line, and reading goes on after it.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

from ..events.fields import shown
from .grades import Fault, Line

MOST_LINE_BYTES: Final = 64 * 2**20
"""A line may have so many bytes: a line of JSON may be a whole list of judgements."""
_MARK: Final = "\ufeff"
"""The mark that some programs, Excel among them, put before UTF-8 text."""

T = TypeVar("T")
Row: TypeAlias = tuple[int, Sequence[str]]
"""(line from 1 at which it begins, the fields that were asked for, without blanks around them)."""


def texts(lines: Iterable[bytes], file: str, faults: list[Fault]) -> Iterator[Line]:
    """The lines that are not blank, decoded; those that are no text become faults."""
    for number, line in enumerate(lines, start=1):
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


def header_of(line: str) -> Sequence[str]:
    """The names of the columns in the first line of a CSV file; none where it is no CSV."""
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return ()


def rows(lines: Iterator[Line], file: str, indices: Sequence[int]) -> Iterator[Row | Fault]:
    """The fields at these indices of every row that follows the header."""
    numbers: list[int] = []
    found = csv.reader(_remembered(lines, numbers), strict=True)
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
