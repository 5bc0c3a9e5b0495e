"""The UBI format: its dialects, its gaps, and the contents of a real log."""

from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given

from relevanced.daemon.events import Event, Feedback, Impression, Limits, Rejected, formats, ubi
from tests.daemon.events.records import GONE, as_bytes, check_verdicts, damaged

QUERY_MS: Final = 1_737_703_890_699
QUERY: Final[dict[str, object]] = {
    "application": "shop",
    "query_id": "q1",
    "client_id": "c1",
    "user_query": "toner",
    "query_attributes": {"device": "ios", "page": 2},
    "timestamp": "2025-01-24T07:31:30.699+0000",
    "query_response_id": "r1",
    "query_response_hit_ids": ["d3", "d7"],
}
PLACE: Final[dict[str, object]] = {"object": {"object_id": "d7"}, "position": {"ordinal": 2}}
CLICK: Final[dict[str, object]] = {
    "application": "shop",
    "action_name": "click",
    "query_id": "q1",
    "session_id": "s1",
    "timestamp": "2025-01-24T07:31:30.699Z",
    "event_attributes": PLACE,
}

decode = formats.decoder("ubi", Limits(depth=5))


def event_of(value: bytes) -> Event:
    (verdict,) = decode(value, None)
    assert not isinstance(verdict, Rejected)
    return verdict


def impression_of(**changes: object) -> Impression:
    event = event_of(as_bytes(QUERY, **changes))
    assert isinstance(event, Impression)
    return event


def feedback_of(**changes: object) -> Feedback:
    event = event_of(as_bytes(CLICK, **changes))
    assert isinstance(event, Feedback)
    return event


def reason_of(value: bytes) -> str:
    (verdict,) = decode(value, None)
    assert isinstance(verdict, Rejected)
    return verdict.reason


def test_query_is_an_impression() -> None:
    assert impression_of() == Impression(
        impression_id="q1",
        time_ms=QUERY_MS,
        items=("d3", "d7"),
        attributes={"application": "shop", "device": "ios", "page": "2"},
        user_id="c1",
    )


def test_event_is_feedback() -> None:
    assert feedback_of() == Feedback("q1", QUERY_MS, kind="click", item="d7", rank=2)


@pytest.mark.parametrize("timestamp", ["2025-01-24T07:31:30.699Z", QUERY_MS])
def test_timestamp_has_three_forms(timestamp: object) -> None:
    assert impression_of(timestamp=timestamp).time_ms == QUERY_MS
    assert feedback_of(timestamp=timestamp).time_ms == QUERY_MS


def test_timestamp_without_a_zone_is_refused() -> None:
    assert reason_of(as_bytes(CLICK, timestamp="2025-01-24T07:31:30.699")) == "bad_timestamp"


def test_list_has_two_names_and_the_new_one_first() -> None:
    old = {"query_response_object_ids": [4, "d5"]}
    assert impression_of(**old).items == ("d3", "d7")
    assert impression_of(query_response_hit_ids=None, **old).items == ("4", "d5")
    assert impression_of(query_response_hit_ids=[], **old).items == ()


def test_list_is_cut_at_depth() -> None:
    assert impression_of(query_response_hit_ids=list("abcdefg")).items == tuple("abcde")


def test_query_without_a_list_is_skipped() -> None:
    (verdict,) = decode(as_bytes(QUERY, query_response_hit_ids=GONE), None)
    assert isinstance(verdict, Rejected) and verdict.skipped
    assert verdict.reason == "no_list"


def test_experiments_are_named_in_query_attributes() -> None:
    asked = {
        "experiments": {"ranker": "b", "layout": 3, "nested": {}},
        "experiment_ab": "x",
        "country": "US",
        "filters": ["new"],
        "nothing": None,
    }
    impression = impression_of(query_attributes=asked)
    assert impression.experiments == {"ranker": "b", "layout": "3", "experiment_ab": "x"}
    assert impression.attributes == {"application": "shop", "country": "US"}


def test_an_experiment_with_two_variants_in_one_query_has_neither() -> None:
    listed = {"experiment_a": "y", "experiment_b": 2, "experiment_c": None}
    single = {"experiment_a": "x", "experiment_b": "2", "experiment_c": "z"}
    asked = {"experiments": listed, **single}
    event, dropped = decode(as_bytes(QUERY, query_attributes=asked), None)
    assert isinstance(event, Impression)
    assert event.experiments == {"experiment_b": "2", "experiment_c": "z"}
    assert dropped == Rejected("two_variants")


def test_user_is_the_user_else_the_client() -> None:
    assert impression_of(user_id="u1").user_id == "u1"
    assert impression_of(user_id="").user_id == "c1"
    assert impression_of(client_id=GONE).user_id is None


@pytest.mark.parametrize(
    ("ordinal", "rank_base", "rank"),
    [(2, 1, 2), (2, 0, 3), ({"index": 2}, 1, 2), (-1, 1, -1), (2.0, 1, 2), ("2", 0, 3)],
)
def test_ordinal_becomes_a_rank_from_1(ordinal: object, rank_base: int, rank: int) -> None:
    based = formats.decoder("ubi", Limits(rank_base=rank_base))
    details = PLACE | {"position": {"ordinal": ordinal, "xy": {"x": 1, "y": 2}}}
    (event,) = based(as_bytes(CLICK, event_attributes=details), None)
    assert isinstance(event, Feedback)
    assert event.rank == rank


def test_event_may_name_item_or_rank_alone() -> None:
    by_item = feedback_of(event_attributes={"object": {"object_id": 7}, "position": None})
    by_rank = feedback_of(event_attributes={"object": {"duration": 3}, "position": {"ordinal": 1}})
    assert (by_item.item, by_item.rank) == ("7", None)
    assert (by_rank.item, by_rank.rank) == (None, 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"query_id": GONE}, "no_query_id"),
        ({"query_id": None}, "no_query_id"),
        ({"query_id": ""}, "no_query_id"),
        ({"timestamp": None}, "missing_field"),
        ({"action_name": 5}, "wrong_type"),
        ({"event_attributes": None}, "no_item"),
        ({"event_attributes": {"object": None, "position": {"xy": {}}}}, "no_item"),
        ({"event_attributes": {"position": {"ordinal": -1}}}, "no_item"),
        ({"event_attributes": {"position": {"ordinal": "x"}}}, "bad_rank"),
        ({"event_attributes": {"position": {"ordinal": -(2**63) + 1}}}, "no_item"),
        ({"event_attributes": {"position": 1}}, "wrong_type"),
        ({"event_attributes": {"object": {"object_id": 1.5}}}, "wrong_type"),
        ({"event_attributes": [1]}, "wrong_type"),
    ],
    ids=str,
)
def test_event_faults_have_their_reasons(changes: dict[str, object], reason: str) -> None:
    assert reason_of(as_bytes(CLICK, **changes)) == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"query_id": GONE, "query_response_hit_ids": GONE}, "no_query_id"),
        ({"query_id": ""}, "no_query_id"),
        ({"query_response_hit_ids": "d1"}, "wrong_type"),
        ({"query_response_hit_ids": ["d1", None]}, "wrong_type"),
        ({"query_attributes": "x"}, "wrong_type"),
        ({"user_id": True}, "wrong_type"),
    ],
    ids=str,
)
def test_query_faults_have_their_reasons(changes: dict[str, object], reason: str) -> None:
    assert reason_of(as_bytes(QUERY, **changes)) == reason


SEEN: Final[dict[str, object]] = CLICK | {
    "action_name": "impression",
    "client_id": "c1",
    "event_attributes": PLACE | {"device": "ios", "experiments": {"ranker": "b"}, "scroll": 0.5},
}
of_shown = formats.decoder("ubi", Limits(depth=5, ubi_lists="shown"))


def test_impression_of_an_item_is_one_item_of_a_list() -> None:
    assert of_shown(as_bytes(SEEN), None) == [
        Impression(
            impression_id="q1",
            time_ms=QUERY_MS,
            items=("d7",),
            first_rank=2,
            attributes={"application": "shop", "device": "ios", "scroll": "0.5"},
            experiments={"ranker": "b"},
            user_id="c1",
            by_item=True,
        )
    ]


def test_query_of_an_item_is_read_where_queries_are_needed() -> None:
    reads = formats.decoder("ubi", Limits(depth=5, ubi_lists="shown", queries=True))
    [event] = reads(as_bytes(SEEN, user_query="red shoes"), None)
    assert isinstance(event, Impression) and event.query == "red shoes"
    event, dropped = reads(as_bytes(SEEN, user_query=7), None)
    assert isinstance(event, Impression) and event.query is None
    assert dropped == Rejected("bad_query")
    [event] = of_shown(as_bytes(SEEN, user_query="red shoes"), None)
    assert isinstance(event, Impression) and event.query is None


def test_impression_of_an_item_is_feedback_where_lists_are_logged() -> None:
    assert decode(as_bytes(SEEN), None) == [
        Feedback("q1", QUERY_MS, kind="impression", item="d7", rank=2)
    ]


def test_item_beyond_the_depth_adds_nothing() -> None:
    place = PLACE | {"position": {"ordinal": 6}}
    [event] = of_shown(as_bytes(SEEN, event_attributes=place), None)
    assert isinstance(event, Impression) and (event.items, event.first_rank) == ((), 6)


def test_other_events_are_feedback_where_lists_are_what_was_shown() -> None:
    assert of_shown(as_bytes(CLICK), None) == decode(as_bytes(CLICK), None)


def test_queries_are_skipped_where_lists_are_what_was_shown() -> None:
    [verdict] = of_shown(as_bytes(QUERY), None)
    assert isinstance(verdict, Rejected) and verdict.skipped and verdict.reason == "no_list"
    assert "events.ubi_lists=shown" in verdict.detail
    [verdict] = of_shown(as_bytes(QUERY, query_id=GONE), None)
    assert isinstance(verdict, Rejected) and verdict.reason == "no_query_id"
    assert verdict.skipped


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"query_id": GONE}, "no_query_id"),
        ({"timestamp": None}, "missing_field"),
        ({"event_attributes": None}, "no_item"),
        ({"event_attributes": {"object": {"object_id": "d7"}}}, "no_item"),
        ({"event_attributes": {"position": {"ordinal": 2}}}, "no_item"),
        ({"event_attributes": PLACE | {"position": {"ordinal": 0}}}, "no_item"),
        ({"event_attributes": PLACE | {"position": {"ordinal": "x"}}}, "bad_rank"),
        ({"user_id": True}, "wrong_type"),
    ],
    ids=str,
)
def test_faults_of_an_impression_of_an_item_have_their_reasons(
    changes: dict[str, object], reason: str
) -> None:
    [verdict] = of_shown(as_bytes(SEEN, **changes), None)
    assert isinstance(verdict, Rejected) and verdict.reason == reason
    if reason == "no_item" and changes["event_attributes"]:
        assert "events.rank_base=1" in verdict.detail


def test_attribute_of_an_item_that_is_no_text_is_left_out_and_counted() -> None:
    details = PLACE | {"device": "x" * 300}
    event, dropped = of_shown(as_bytes(SEEN, event_attributes=details), None)
    assert isinstance(event, Impression) and event.attributes == {"application": "shop"}
    assert dropped == Rejected("long_value")


def test_event_may_come_in_an_array_of_one() -> None:
    assert decode(b"[%b]" % as_bytes(CLICK), None) == [feedback_of()]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"index": {"_index": "ubi_queries", "_id": "e7"}}\n', True),
        (rb'{"index": {"_id": "e\ud83c"}}', True),
        (b' {"create":{}}', True),
        (b'{"index": {}, "query_id": "q1"}', False),
        (b'{"index": 5}', False),
        (b'{"index": {}', False),
        (b'{"delete": {}}', False),
        (b"[]", False),
        (b"", False),
        (as_bytes(CLICK), False),
    ],
)
def test_bulk_action_is_no_record(value: bytes, expected: bool) -> None:
    assert ubi.is_bulk_action(value) is expected
    assert (decode(value, None) == []) is (expected or value == b"[]")


def test_an_empty_array_is_an_empty_object() -> None:
    assert impression_of(query_attributes=[]) == impression_of(query_attributes={})
    place = {"object": {"object_id": "d7"}, "position": []}
    assert feedback_of(event_attributes=place) == Feedback("q1", QUERY_MS, kind="click", item="d7")
    assert reason_of(as_bytes(CLICK, event_attributes=[])) == "no_item"
    (verdict,) = of_shown(as_bytes(SEEN, event_attributes=PLACE | {"experiments": []}), None)
    assert isinstance(verdict, Impression)


def test_half_of_a_surrogate_pair_costs_no_record() -> None:
    assert impression_of(user_query="party \ud83c") == impression_of()
    assert impression_of(query_attributes={"\udf89": [], "device": "ios", "page": 2})


@given(damaged(QUERY, CLICK, SEEN))
def test_decoder_never_raises(value: bytes) -> None:
    check_verdicts(list(decode(value, None)))
    check_verdicts(list(of_shown(value, None)))


def test_real_log_is_read_as_its_description_says(shared: Path) -> None:
    lines = (shared / "data/ubi-chorus/ubi_queries_events.ndjson").read_bytes().splitlines()
    verdicts = [(line, event) for line in lines for event in decode(line, None)]
    chorus = [event for line, event in verdicts if b'"application": "Chorus"' in line]
    impressions = [event for event in chorus if isinstance(event, Impression)]
    kinds = Counter(event.kind for event in chorus if isinstance(event, Feedback))

    assert (len(lines), len(verdicts)) == (7842, 3921)
    assert len(impressions) == 273
    assert len({event.impression_id for event in impressions}) == 84
    assert sum(not event.items for event in impressions) == 192
    assert kinds == {"impression": 999, "click": 227, "add_to_cart": 227}
    assert {event.attributes["application"] for event in impressions} == {"Chorus"}


def test_real_log_lacks_only_lists_and_items(shared: Path) -> None:
    lines = (shared / "data/ubi-chorus/ubi_queries_events.ndjson").read_bytes().splitlines()
    rejected = Counter(
        (event.reason, event.detail.split(":")[0])
        for line in lines
        for event in decode(line, None)
        if isinstance(event, Rejected)
    )
    assert rejected == {
        ("no_list", "query_response_hit_ids, query_response_object_ids"): 200,
        ("no_item", "object_id, ordinal"): 545,
        ("no_query_id", "query_id"): 2,
    }
