"""README.md shows what `relevanced queries` says."""

import pytest

from deploy import query_examples
from deploy.example_commands import section_of
from deploy.query_examples import CHECKED, FILES, README, RECORDING, SERVING, SHOWN

RENEW = "run: make query-examples"


def test_the_output_is_that_of_the_commands() -> None:
    readme, found = README.read_text(), query_examples.outputs()
    for command, output in found.items():
        assert section_of([command], output) in readme, RENEW
    assert found.keys() == {*SHOWN, CHECKED}
    of_list = [line for line in found[SHOWN[0]].splitlines() if " ! " in line]
    assert {line.split("│")[1].strip() for line in of_list} == set(FILES["broken.txt"].splitlines())


def test_the_readme_has_every_command_that_leads_there() -> None:
    readme = README.read_text()
    for command in (*RECORDING, SERVING):
        assert f"\n    {command}\n" in readme
    for text in FILES.values():
        assert all(line in readme for line in text.splitlines())


def test_only_the_examples_are_renewed() -> None:
    readme = README.read_text()
    sections = {}
    for command in (CHECKED, *SHOWN):
        after = readme.partition(f"\n    {command}\n")[2].partition("\n```text\n")[2]
        sections[command] = after.partition("\n```\n")[0]
    stale = readme
    for output in sections.values():
        stale = stale.replace(output, "of yesterday")
    assert stale != readme and query_examples.with_examples(stale, sections) == readme
    with pytest.raises(ValueError, match="does not stand in README.md"):
        query_examples.with_examples("nothing", sections)
