"""The pages of queries and judgements show what `relevanced queries` and its like say."""

import pytest

from deploy import query_examples
from deploy.example_commands import section_of
from deploy.query_examples import FILES, JUDGEMENTS, LISTING, QUERIES, RECORDING, SERVING, SHOWN

RENEW = "run: make query-examples"


def test_the_output_is_that_of_the_commands() -> None:
    found = query_examples.outputs()
    for command, output in found.items():
        assert section_of([command], output) in SHOWN[command].read_text(), RENEW
    assert found.keys() == SHOWN.keys()
    of_list = [line for line in found[LISTING].splitlines() if line.endswith(" !")]
    assert {" ".join(line.split()[:3]) for line in of_list} == set(FILES["broken.txt"].splitlines())


def test_the_pages_have_every_command_that_leads_there() -> None:
    pages = QUERIES.read_text() + JUDGEMENTS.read_text()
    for command in (*RECORDING, SERVING):
        assert f"\n    {command}\n" in pages
    for text in FILES.values():
        assert all(line in pages for line in text.splitlines())


def test_only_the_examples_are_renewed() -> None:
    for page in (QUERIES, JUDGEMENTS):
        stale = text = page.read_text()
        sections = {}
        for command in [one for one in SHOWN if SHOWN[one] == page]:
            after = text.partition(f"\n    {command}\n")[2].partition("\n```text\n")[2]
            sections[command] = after.partition("\n```\n")[0]
        for output in sections.values():
            stale = stale.replace(output, "of yesterday")
        assert stale != text and query_examples.with_examples(page, stale, sections) == text
    with pytest.raises(ValueError, match="does not stand in the page"):
        query_examples.with_examples(JUDGEMENTS, "nothing", sections)
