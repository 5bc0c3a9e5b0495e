"""Rows as CSV that is safe to open. Pure.

Names of segments come from events, so anybody may choose them: a spreadsheet would run a text that
begins like a formula. Such a text gets an apostrophe before it, as in spreadsheets themselves.
"""

import csv
import io
from collections.abc import Iterable
from typing import Final

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A header, and a line for each row; None is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return "" if value is None else value
