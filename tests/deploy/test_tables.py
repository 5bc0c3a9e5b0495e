"""The tables in the documents say what the code says."""

import pytest

from deploy.tables import ROOT, TABLES, renewed


@pytest.mark.parametrize(("document", "heading", "make"), TABLES)
def test_table_is_the_one_that_the_code_makes(document: str, heading: str, make: object) -> None:
    text = (ROOT / document).read_text()
    assert callable(make)
    assert text == renewed(text, heading, make()), "make tables renews it"
