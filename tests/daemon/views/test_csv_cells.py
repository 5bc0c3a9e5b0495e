"""A name out of events is a text in a spreadsheet, never a formula."""

import csv
import io

import pytest

from relevanced.daemon.views import csv_text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(start: str) -> None:
    text = csv_text(["segment"], [[f'{start}HYPERLINK("x")']])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["segment"] == f'\'{start}HYPERLINK("x")'


def test_numbers_and_other_texts_stay_as_they_are() -> None:
    text = csv_text(["a", "b", "c", "d"], [[-1.5, 3, None, 'DE,"x"'], [True, "", "a=b", "é"]])
    assert text == 'a,b,c,d\n-1.5,3,,"DE,""x"""\nTrue,,a=b,é\n'


@pytest.mark.parametrize("cell", ["a\r=1+1", "a\r\nb", "\r", 'a\r"b"', "a\nb"])
@pytest.mark.parametrize("exact", [True, False])
def test_a_name_with_a_line_end_is_one_cell(cell: str, exact: bool) -> None:
    text = csv_text(["segment", "value"], [[cell, 1]], exact=exact)
    guarded = f"'{cell}" if cell.startswith("\r") and not exact else cell
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["segment", "value"], [guarded, "1"]]
