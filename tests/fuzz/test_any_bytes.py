"""Whatever bytes a record has, it becomes an event or a reason of the table, its effects can be
stored and served, and the next valid record counts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from relevanced.daemon.events import FORMATS, Impression, Limits, decoder
from tests.builders import PLAN, plan_with
from tests.daemon.events.records import FEEDBACK, IMPRESSION, NOON_MS
from tests.daemon.events.test_ubi import CLICK, QUERY, SEEN
from tests.fuzz.flow import Flow, check_verdicts, metrics_of
from tests.fuzz.hostile import flipped, objects, records
from tests.fuzz.settings import examples

GOOD: Final[Mapping[str, tuple[Mapping[str, object], ...]]] = {
    "native": (IMPRESSION, FEEDBACK),
    "ubi": (QUERY, CLICK, {"index": {"_index": "ubi_queries", "_id": "e7"}}),
    "ubi shown": (SEEN, CLICK, QUERY),
}
LIMITS: Final = Limits(depth=5, max_grade=3.0, attributes=("country", "device"))
DECODERS: Final = {name: decoder(name, LIMITS) for name in FORMATS} | {
    "ubi shown": decoder("ubi", replace(LIMITS, ubi_lists="shown"))
}
TWO_GROUPINGS: Final = plan_with(
    groupings=(("country",), ("country", "experiment:ranker-v2")), max_segments=50
)
NEXT: Final[Mapping[str, Mapping[str, object]]] = {
    "native": {**IMPRESSION, "impression_id": "the next", "timestamp": 99_999_999_999_999},
    "ubi": {**QUERY, "query_id": "the next", "timestamp": 99_999_999_999_999},
    "ubi shown": {**SEEN, "query_id": "the next", "timestamp": 99_999_999_999_999},
}
"""Later than any time of a record, so that it is accepted whatever came before."""

formats = pytest.mark.parametrize("name", list(DECODERS))


@formats
@examples(250)
@given(st.data())
def test_any_record_ends_in_a_verdict(name: str, data: st.DataObject) -> None:
    value = data.draw(records(GOOD[name]) | st.binary(max_size=40))
    record_ms = data.draw(st.sampled_from((None, -1, 0, NOON_MS)))
    check_verdicts(DECODERS[name](value, record_ms), LIMITS)


@formats
@examples(80)
@given(st.data())
def test_any_records_leave_a_lane_that_continues(name: str, data: st.DataObject) -> None:
    flow = Flow(TWO_GROUPINGS, DECODERS[name])
    values = data.draw(st.lists(records(GOOD[name]), min_size=1, max_size=6))
    for value in values:
        flow.take(value)
    flow.check()
    before = flow.accepted()
    flow.take(None, json.dumps(NEXT[name]).encode())
    flow.check()
    assert flow.accepted() == before + 1


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.sampled_from(
    [
        "a\nb",
        '"',
        "\\",
        "\\n",
        'a="b"} 1',
        "# EOF",
        "\x00",
        "\x7f",
        "\x85\u2028",
        "all",
        "other",
        ",",
    ]
)


@examples(50)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_any_values_are_served_as_they_were_read(pairs: list[tuple[str, str]]) -> None:
    """`check` compares each label with the parts of its segment, each grouping with the whole."""
    flow = Flow(TWO_GROUPINGS, DECODERS["native"])
    for index, (country, variant) in enumerate(pairs):
        named = {"attributes": {"country": country}, "experiments": {"ranker-v2": variant}}
        event = {**IMPRESSION, **named, "impression_id": index, "timestamp": NOON_MS}
        flow.take(json.dumps(event).encode())
    countries = {dict(labels).get("country") for _, labels in metrics_of(flow)}
    assert {country or "(none)" for country, _ in pairs} <= countries
    flow.take(json.dumps(NEXT["native"]).encode())
    assert flow.accepted() == len(pairs) + 1
    flow.check()
    names = {segment for _, segment in flow.owned.lane.segments.names}
    assert len(names) <= 1 + 2 * (len(pairs) + 1)


@examples(200)
@given(st.data())
def test_any_change_of_a_real_record_ends_in_a_verdict(shared: Path, data: st.DataObject) -> None:
    lines = (shared / "data/ubi-chorus/ubi_queries_events.ndjson").read_bytes().splitlines()
    line = lines[data.draw(st.integers(0, len(lines) - 1))]
    changed = data.draw(flipped(line) | objects([json.loads(line)]))
    check_verdicts(DECODERS["ubi"](changed, None), LIMITS)


SAME: Final = [(1, "1"), (-5, "-5"), (10**30, str(10**30))]
OTHER: Final = [("é", "e\u0301"), ("1", "01"), ("1", " 1"), ("a", "A"), ("1", "1.0"), ("-0", "0")]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [*((*pair, "duplicate") for pair in SAME), *((*pair, "accepted") for pair in OTHER)],
)
def test_ids_are_the_same_as_text_and_in_no_other_way(
    first: object, second: object, outcome: str
) -> None:
    flow = Flow(PLAN, DECODERS["native"])
    for identity in (first, second):
        flow.take(json.dumps({**IMPRESSION, "impression_id": identity}).encode())
    assert flow.owned.lane.counts["impression_outcomes"][outcome] == (
        1 if outcome == "duplicate" else 2
    )


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [*((*pair, "joined") for pair in SAME), *((*pair, "waits") for pair in OTHER)],
)
def test_items_are_the_same_as_text_and_in_no_other_way(
    first: object, second: object, outcome: str
) -> None:
    flow = Flow(PLAN, DECODERS["native"])
    flow.take(json.dumps({**IMPRESSION, "items": [first], "grades": None}).encode())
    flow.take(json.dumps({**FEEDBACK, "item": second, "rank": None}).encode())
    assert flow.owned.lane.counts["feedback_outcomes"]["joined"] == int(outcome == "joined")
    assert len(flow.owned.lane.waiting) == int(outcome == "waits")


def test_the_last_of_doubled_members_counts_in_both_readers() -> None:
    doubled = (
        b'{"type":"impression","impression_id":"a","impression_id":"b","timestamp":1795176000000,'
        b'"items":["x"],"items":["y"],"attributes":{"country":"US"},"attributes":{"country":"US",'
        b'"country":"DE"%s}}'
    )
    for more in (b"", b',"device":7'):
        (event,) = DECODERS["native"](doubled % more, None)
        assert isinstance(event, Impression)
        assert (event.impression_id, event.items) == ("b", ("y",))
        assert event.attributes["country"] == "DE"
