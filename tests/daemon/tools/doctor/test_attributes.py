"""Attributes worth grouping by are proposed where the preset knows none."""

from typing import Any

import pytest

from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.events import Impression
from relevanced.daemon.tools.diagnosis import attributes, profiled
from relevanced.daemon.tools.doctor import diagnosed
from relevanced.daemon.tools.traffic import SHAPES
from tests.daemon.tools.doctor.test_diagnosis import native_events, records

IMPRESSIONS = [event for _, event in native_events() if event["type"] == "impression"]


@pytest.mark.parametrize("preset", ["metarank", "elastic"])
def test_attributes_of_the_records_are_proposed_and_read(preset: str) -> None:
    sample = records(SHAPES[preset].record)
    found, text = diagnosed({"shop": sample}, [])
    assert text is not None and 'groupings = [["country"],["device"]]' in text
    decode = decoder_of(load(text, {}, "proposed"))
    events = [event for record in sample for event in decode.of_record(record)]
    shown = [event.attributes for event in events if isinstance(event, Impression)]
    assert shown == [event["attributes"] for event in IMPRESSIONS]
    assert {"attribute country", "attribute device"} <= {one.name for one in found}


@pytest.mark.parametrize("preset", ["segment", "snowplow", "ga4"])
def test_attributes_of_a_preset_that_have_values_stay(preset: str) -> None:
    _, text = diagnosed({"shop": records(SHAPES[preset].record)}, [])
    assert text is not None and "attributes =" not in text


def test_an_attribute_of_the_preset_with_one_value_is_kept_beside_the_others() -> None:
    def applied(event: dict[str, Any]) -> Any:
        record = dict(SHAPES["elastic"].record(event) or {})
        if "search" in record:
            record["search"] = {**record["search"], "search_application": "shop"}
        return record

    _, text = diagnosed({"shop": records(applied)}, [])
    assert text is not None and 'device = "labels.device", application = ' in text


def test_a_text_with_few_lists_for_each_value_may_be_an_id() -> None:
    few = [{"id": f"q{n}", "shop": f"s{n % 3}", "n": n % 2} for n in range(12)]
    assert attributes(profiled(few), ()) == {"shop": "shop"}
    assert attributes(profiled(few), {"shop"}) == {}
    assert attributes(profiled(few[:11]), ()) == {}


def test_keys_of_an_array_are_attributes_by_their_names() -> None:
    rows = [
        {"fields": [{"name": "country", "value": c}, {"name": "a-b", "value": c}]} for c in "ab"
    ]
    assert attributes(profiled(rows * 4), ()) == {"country": "fields[?name=='country'].value | [0]"}
