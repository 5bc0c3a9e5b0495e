"""Each preset reads the records of its tool as the events that they are."""

import pytest

from relevanced.daemon.config import presets
from relevanced.daemon.events import Decoded, Feedback, Rejected

from .preset_records import EXAMPLES
from .sources import AT_MS, json, mapper_of


def without_detail(event: Decoded) -> Decoded:
    return type(event)(event.reason) if isinstance(event, Rejected) else event


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_preset_reads_the_records_of_its_tool(name: str) -> None:
    example = EXAMPLES[name]
    mapper = mapper_of(f'preset = "{name}"\n{example.config}')
    found = [event for record in example.records for event in mapper.events(json(record))]
    assert list(map(without_detail, found)) == example.events


def test_a_call_to_algolia_without_a_time_has_that_of_its_arrival() -> None:
    call = {"eventType": "click", "queryID": "q", "objectIDs": ["o"], "userToken": "u"}
    (event,) = mapper_of('preset = "algolia-insights"').events(json({"events": [call]}), AT_MS)
    assert isinstance(event, Feedback) and event.time_ms == AT_MS


def test_every_preset_has_an_example() -> None:
    assert set(EXAMPLES) == set(presets())
