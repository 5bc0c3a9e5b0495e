"""The page of topics shows what `relevanced doctor` says, and what it proposes for every preset."""

import pytest

from deploy import doctor_examples, example_commands
from deploy.doctor_examples import EXAMPLES, PAGE, SHOWN, Example
from relevanced.daemon.config import NAMES

RENEW = "run: make doctor-examples"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_the_page_has_what_doctor_says(example: Example) -> None:
    page, output = PAGE.read_text(), doctor_examples.output_of(example)
    section = example_commands.section_of(example.commands, doctor_examples.shown(output))
    assert example != SHOWN or section in page, RENEW
    assert all(preset in output for preset in example.topics.values())
    for source in doctor_examples.proposed(output):
        (row,) = (
            line
            for line in page.splitlines()
            if line.startswith("| ") and f'preset = "{source["preset"]}"' in line
        )
        ids = [table["id"] for table in source.values() if "id" in table]
        assert all(one.replace("|", r"\|") in row for one in ids)


def test_every_preset_has_an_example() -> None:
    assert {preset for example in EXAMPLES for preset in example.topics.values()} == set(NAMES)


def test_the_page_is_renewed_only_where_the_example_stands() -> None:
    page = PAGE.read_text()
    stale = page.replace("Proposed by", "Once proposed by")
    assert stale != page and doctor_examples.with_example(stale) == page
