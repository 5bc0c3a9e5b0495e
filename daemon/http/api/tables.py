"""Answers as CSV: a header, and one line for each row of the answer. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from ...exporter.csv_cells import csv_text

SUFFIX: Final = ".csv"
CONTENT_TYPE: Final = "text/csv; charset=utf-8; header=present"


def table_text(answer: msgspec.Struct, rows: str, row: type[msgspec.Struct]) -> bytes:
    """The rows of an answer, which are in its attribute `rows`. A column of a nested value has the
    name of both, joined by `_`; null is an empty field."""
    values = (_values(msgspec.structs.asdict(one)) for one in getattr(answer, rows))
    return csv_text(_columns(row), values).encode()


def _columns(row: type[msgspec.Struct], before: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(row):
        name = f"{before}{field.encode_name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _columns(field.type, f"{name}_")
        else:
            yield name


def _values(row: Mapping[str, Any]) -> Iterator[object]:
    for value in row.values():
        if isinstance(value, msgspec.Struct):
            yield from _values(msgspec.structs.asdict(value))
        else:
            yield value
