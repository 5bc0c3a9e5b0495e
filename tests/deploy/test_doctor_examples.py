"""doctor.md and README.md show what `relevanced doctor` says, of the traffic of every preset."""

import re

import pytest

from deploy import doctor_examples
from deploy.doctor_examples import DOCUMENT, EXAMPLES, HEAD, IN_README, README, Example
from relevanced.daemon.config.presets import NAMES

RENEW = "run: make doctor-examples"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_the_output_is_that_of_the_commands(example: Example) -> None:
    text = DOCUMENT.read_text()
    _, _, rest = text.partition(f"\n## {example.title}\n")
    shown = rest.partition("\n## ")[0]
    section = doctor_examples.section_of(example)
    assert shown.rstrip() == section.rstrip(), RENEW
    assert example != IN_README or section in README.read_text(), RENEW


def test_the_document_has_every_preset_and_nothing_else() -> None:
    text = DOCUMENT.read_text()
    assert text.startswith(HEAD), RENEW
    assert re.findall("^## (.*)$", text, re.M) == [example.title for example in EXAMPLES]
    assert {preset for example in EXAMPLES for preset in example.topics.values()} == set(NAMES)


def test_the_readme_is_renewed_only_where_the_example_stands() -> None:
    readme = README.read_text()
    section = doctor_examples.section_of(IN_README)
    stale = readme.replace(section, section.replace("Proposed by", "Once proposed by"))
    assert stale != readme and doctor_examples.with_example(stale) == readme
