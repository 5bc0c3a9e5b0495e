"""The native format, and what all formats share: valid records, and every reason to refuse."""

import json
from typing import Any, Final, NoReturn

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from relevanced.daemon.events import (
    MAX_ELEMENTS,
    Event,
    Feedback,
    Impression,
    InvalidField,
    Limits,
    Rejected,
    formats,
    native,
    read_carefully,
)
from tests.daemon.events.records import (
    FEEDBACK,
    GONE,
    IMPRESSION,
    NOON_MS,
    as_bytes,
    check_verdicts,
    damaged,
    good_feedback,
    good_impressions,
)

LIMITS: Final = Limits(depth=5, max_grade=3.0, max_future_ms=60_000, max_record_bytes=10_000)

decode = formats.decoder("native", LIMITS)


def not_fast(value: bytes, limits: Limits) -> NoReturn:
    raise InvalidField("not_fast")


read_fast = native.reader(LIMITS, read_rest=not_fast)


def reason_of(value: bytes | None, record_time_ms: int | None = None) -> str:
    (verdict,) = decode(value, record_time_ms)
    assert isinstance(verdict, Rejected)
    return verdict.reason


def event_of(value: bytes) -> Event:
    (verdict,) = decode(value, None)
    assert not isinstance(verdict, Rejected)
    return verdict


def test_impression_is_read_completely() -> None:
    assert decode(as_bytes(IMPRESSION), NOON_MS) == [
        Impression(
            impression_id="q1",
            time_ms=NOON_MS,
            items=("d3", "d7"),
            first_rank=1,
            attributes={"country": "US", "device": "ios"},
            experiments={"ranker-v2": "treatment"},
            grades={"d3": 2.0},
            user_id="u9",
        )
    ]


@pytest.mark.parametrize(("first_rank", "items"), [(4, ("d1",)), (6, ()), (1, ())])
def test_item_of_a_list_that_is_logged_item_by_item(
    first_rank: int, items: tuple[str, ...]
) -> None:
    given_items = ["d1"] if first_rank > 1 else []
    one = {"by_item": True, "items": given_items, "first_rank": first_rank}
    event = event_of(as_bytes(IMPRESSION, **one))
    assert isinstance(event, Impression)
    assert (event.by_item, event.first_rank, event.items) == (True, first_rank, items)
    for by_item in (False, None):
        event = event_of(as_bytes(IMPRESSION, by_item=by_item))
        assert isinstance(event, Impression) and not event.by_item


def test_feedback_is_read_completely() -> None:
    click = Feedback("q1", NOON_MS + 5000, kind="click", item="d7", rank=2)
    judged = Feedback("q1", NOON_MS + 5000, item="d7", rank=2, grade=0.0)
    assert event_of(as_bytes(FEEDBACK)) == click
    assert event_of(as_bytes(FEEDBACK, kind=None, grade=-2)) == judged


def test_optional_fields_may_be_null_or_missing() -> None:
    names = ("first_rank", "attributes", "experiments", "grades", "user_id")
    bare = Impression("q1", NOON_MS, ("d3", "d7"))
    assert event_of(as_bytes(IMPRESSION, **dict.fromkeys(names, None))) == bare
    assert event_of(as_bytes(IMPRESSION, **dict.fromkeys(names, GONE))) == bare


@pytest.mark.parametrize("needed", [None, ("country",)])
@pytest.mark.parametrize("extra", [{}, {"teams": [None, ""]}])
def test_an_empty_text_is_none(needed: tuple[str, ...] | None, extra: dict[str, Any]) -> None:
    """As trackers write it for what they do not know: read fast, and carefully with teams."""
    empty = {
        "grades": GONE,
        "user_id": "",
        "attributes": {"country": "", "device": ""},
        "experiments": {"x": ""},
    }
    decode = formats.decoder("native", Limits(attributes=needed))
    (event,) = decode(as_bytes(IMPRESSION, **(empty | extra)), None)
    assert isinstance(event, Impression) and not event.attributes and not event.experiments
    assert event.user_id is None and set(event.teams) <= {None}


def test_integer_ids_are_decimal_strings() -> None:
    event = event_of(as_bytes(IMPRESSION, impression_id=8, items=[1, "d2", -3], user_id=10**20))
    assert isinstance(event, Impression)
    assert (event.impression_id, event.items, event.user_id) == (
        "8",
        ("1", "d2", "-3"),
        str(10**20),
    )


@pytest.mark.parametrize(
    ("first_rank", "shown", "kept"),
    [(1, 5, 5), (1, 6, 5), (2, 6, 4), (4, 2, 2), (4, 3, 2), (6, 1, 0), (10**18, 1, 0)],
)
def test_items_are_cut_to_ranks_within_depth(first_rank: int, shown: int, kept: int) -> None:
    items = list("abcdef"[:shown])
    event = event_of(as_bytes(IMPRESSION, first_rank=first_rank, items=items))
    assert isinstance(event, Impression)
    assert event.items == tuple(items[:kept])


@pytest.mark.parametrize("bad", ["", "é" * 129], ids=["empty", "long"])
def test_items_beyond_depth_are_checked_too(bad: str) -> None:
    assert reason_of(as_bytes(IMPRESSION, items=["a", "b", "c", "d", "e", bad])) == "bad_id"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": GONE}, "missing_field"),
        ({"type": None}, "missing_field"),
        ({"type": "view"}, "unknown_type"),
        ({"type": 5}, "wrong_type"),
        ({"impression_id": None}, "missing_field"),
        ({"impression_id": 1.0}, "wrong_type"),
        ({"impression_id": True}, "wrong_type"),
        ({"impression_id": ""}, "bad_id"),
        ({"impression_id": "é" * 129}, "bad_id"),
        ({"timestamp": GONE}, "missing_field"),
        ({"timestamp": True}, "bad_timestamp"),
        ({"timestamp": "2026-11-20T12:00:00"}, "bad_timestamp"),
        ({"timestamp": -1}, "bad_timestamp"),
        ({"items": None}, "missing_field"),
        ({"by_item": 1}, "wrong_type"),
        ({"by_item": True}, "wrong_type"),  # of more than one item
        ({"by_item": True, "items": ["d1"], "teams": ["a"]}, "wrong_type"),
        ({"items": "d1"}, "wrong_type"),
        ({"items": ["d1", None]}, "wrong_type"),
        ({"items": ["d1", 10**256]}, "bad_id"),
        ({"items": ["d1", ["d2"]]}, "wrong_type"),
        ({"first_rank": 0}, "bad_rank"),
        ({"first_rank": 1.5}, "bad_rank"),
        ({"first_rank": 2**63}, "bad_rank"),
        ({"attributes": [1]}, "wrong_type"),
        ({"experiments": "b"}, "wrong_type"),
        ({"grades": [1]}, "wrong_type"),
        ({"grades": {"d3": 3.5}}, "bad_grade"),
        ({"grades": {"d3": "2"}}, "bad_grade"),
        ({"grades": {"": 1}}, "bad_id"),
        ({"user_id": []}, "wrong_type"),
    ],
    ids=str,
)
def test_impression_faults_have_their_reasons(changes: dict[str, object], reason: str) -> None:
    assert reason_of(as_bytes(IMPRESSION, **changes)) == reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": GONE, "grade": GONE}, "missing_field"),
        ({"kind": 5}, "wrong_type"),
        ({"kind": "k" * 257}, "bad_attribute"),
        ({"item": None, "rank": None}, "missing_field"),
        ({"item": None, "rank": 0}, "bad_rank"),
        ({"rank": "2.0"}, "bad_rank"),
        ({"rank": True}, "bad_rank"),
        ({"item": {}}, "wrong_type"),
        ({"item": ""}, "bad_id"),
        ({"grade": 3.01}, "bad_grade"),
        ({"grade": True}, "bad_grade"),
        ({"grade": "1"}, "bad_grade"),
    ],
    ids=str,
)
def test_feedback_faults_have_their_reasons(changes: dict[str, object], reason: str) -> None:
    assert reason_of(as_bytes(FEEDBACK, **changes)) == reason


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"\xef\xbb\xbf" + as_bytes(FEEDBACK), "not_json"),
        (as_bytes(FEEDBACK) + b"x", "not_json"),
        (as_bytes(FEEDBACK, grade=float("nan")), "not_json"),
        (as_bytes(FEEDBACK, grade=float("-inf")), "not_json"),
        (as_bytes(FEEDBACK, item="X").replace(b"X", b"\xff"), "not_json"),
        (b'{"a":' * 1500, "not_json"),
        (b"[" * 9000, "not_json"),
        (as_bytes(FEEDBACK, grade="X").replace(b'"X"', b"1e999"), "bad_grade"),
        (as_bytes(FEEDBACK, item="X").replace(b'"X"', b"1" * 5000), "bad_id"),
        (as_bytes(FEEDBACK, timestamp="X").replace(b'"X"', b"1" * 5000), "bad_timestamp"),
        (b"5", "wrong_type"),
        (b"null", "wrong_type"),
        (b"{}", "missing_field"),
        (None, "tombstone"),
        (b" " * 10_001, "too_large"),
    ],
)
def test_hostile_bytes_have_their_reasons(value: bytes | None, reason: str) -> None:
    assert reason_of(value) == reason


@pytest.mark.parametrize("name", ["item", "kind", "nobody reads it"])
@pytest.mark.parametrize("half", ["\ud83c", "\udf89 b"])
def test_half_of_a_surrogate_pair_is_read_as_u_fffd(name: str, half: str) -> None:
    replaced = as_bytes(FEEDBACK, **{name: half.replace(half[0], "\ufffd")})
    cut = as_bytes(FEEDBACK, **{name: half})
    assert event_of(cut) == event_of(replaced)
    assert decode(b"[%b,%b]" % (cut, cut), None) == [event_of(replaced)] * 2


def test_what_is_broken_beside_half_a_pair_is_the_cause() -> None:
    (verdict,) = decode(as_bytes(FEEDBACK, item="\ud83c") + b"x", None)
    assert isinstance(verdict, Rejected) and "trailing" in verdict.detail


@pytest.mark.parametrize("two", [2.0, "2"])
def test_a_whole_number_is_a_rank_however_it_is_written(two: object) -> None:
    assert event_of(as_bytes(FEEDBACK, rank=two)) == event_of(as_bytes(FEEDBACK, rank=2))
    by_number = event_of(as_bytes(IMPRESSION, first_rank=2))
    assert event_of(as_bytes(IMPRESSION, first_rank=two)) == by_number


@pytest.mark.parametrize("needed", [None, ("country",)])
@pytest.mark.parametrize("name", ["attributes", "experiments", "grades"])
def test_an_empty_array_is_an_empty_object(name: str, needed: tuple[str, ...] | None) -> None:
    of_needed = formats.decoder("native", Limits(attributes=needed, max_grade=3.0))
    (read,) = of_needed(as_bytes(IMPRESSION, **{name: []}), None)
    assert [read] == of_needed(as_bytes(IMPRESSION, **{name: {}}), None)
    assert isinstance(read, Impression)
    assert reason_of(as_bytes(IMPRESSION, **{name: [3]})) == "wrong_type"


def test_a_grade_that_is_null_is_none() -> None:
    graded = as_bytes(IMPRESSION, grades={"d3": 2, "d7": None})
    assert event_of(graded) == event_of(as_bytes(IMPRESSION, grades={"d3": 2}))


def test_rank_beside_an_item_may_be_anything() -> None:
    event = event_of(as_bytes(FEEDBACK, rank=-7))
    assert isinstance(event, Feedback)
    assert event.rank == -7


def test_unknown_fields_are_not_validated() -> None:
    value = as_bytes(FEEDBACK, items="X", query={"a": ["b"]}).replace(b'"X"', b"1e999")
    assert event_of(value) == event_of(as_bytes(FEEDBACK))


def test_last_of_repeated_fields_wins() -> None:
    value = as_bytes(FEEDBACK)[:-1] + b',"item":5,"item":"d9","kind":7,"kind":"buy"}'
    event = event_of(value)
    assert isinstance(event, Feedback)
    assert (event.item, event.kind) == ("d9", "buy")


def test_array_elements_are_refused_singly() -> None:
    value = b" [ %b ,\n{}, [%b],\t%b ] " % (
        as_bytes(IMPRESSION),
        as_bytes(FEEDBACK),
        as_bytes(FEEDBACK),
    )
    first, second, third, fourth = decode(value, NOON_MS)
    assert isinstance(first, Impression) and isinstance(fourth, Feedback)
    assert isinstance(second, Rejected) and second.reason == "missing_field"
    assert isinstance(third, Rejected) and third.reason == "wrong_type"


def test_array_may_be_empty_or_broken() -> None:
    assert decode(b"[]", None) == []
    assert reason_of(b"[{},") == "not_json"


def test_array_of_too_many_elements_is_refused_once() -> None:
    read = formats.decoder("native", replace(LIMITS, max_record_bytes=1_000_000))
    most = b"[" + b"{}," * (MAX_ELEMENTS - 1) + b"{}]"
    assert len(read(most, None)) == MAX_ELEMENTS
    (verdict,) = read(b"[0," + most[1:], None)
    assert verdict == Rejected("too_large", "50001 elements: must be <= 50000")


@pytest.mark.parametrize("value", [None, b"", b"7", b"[]", b" [{}]", b"[{", b'[{},0,{"a":[]}]'])
@pytest.mark.parametrize("times", [1, 1000])
def test_slices_are_the_events_of_the_record(value: bytes | None, times: int) -> None:
    if value is not None and value.startswith(b"[{}"):
        value = b"[" + b",".join([value[1:-1]] * times) + b"]"
    slices = list(decode.slices(value, NOON_MS))
    assert [event for events in slices for event in events] == decode(value, NOON_MS)
    assert slices and max(map(len, slices)) <= formats.SLICE_ELEMENTS


def test_a_refused_element_that_comes_again_has_the_same_verdict() -> None:
    first, second, other, third = decode(b'[{},{},{"type":7},{}]', None)
    assert first is second is third and first != other


def test_array_of_garbage_is_counted_with_few_details() -> None:
    verdicts = decode(b"[" + b"0," * 4000 + b"0]", None)
    details = [v.detail for v in verdicts if isinstance(v, Rejected) and v.detail]
    assert len(verdicts) == 4001
    assert len(details) == formats.DETAILED_ELEMENTS


@pytest.mark.parametrize(
    ("record_time_ms", "accepted"),
    [(None, True), (-1, True), (NOON_MS - 60_000, True), (NOON_MS - 60_001, False), (0, False)],
)
def test_future_is_measured_from_the_record(record_time_ms: int | None, accepted: bool) -> None:
    (verdict,) = decode(as_bytes(IMPRESSION), record_time_ms)
    assert isinstance(verdict, Impression) is accepted
    if not accepted:
        assert isinstance(verdict, Rejected) and verdict.reason == "future"


def test_detail_shows_field_value_and_rule() -> None:
    (verdict,) = decode(as_bytes(FEEDBACK, rank="x" * 500), None)
    assert isinstance(verdict, Rejected)
    assert verdict.detail.startswith("rank='xxx") and verdict.detail.endswith("must be an integer")
    assert len(verdict.detail) < 120


def test_detail_is_one_line_whatever_the_names() -> None:
    (verdict,) = decode(as_bytes(IMPRESSION, grades={"a\nb": []}), None)
    assert isinstance(verdict, Rejected)
    assert len(verdict.detail.splitlines()) == 1


@pytest.mark.parametrize(
    ("field", "bad", "reason"),
    [
        ("attributes", {"country": "é" * 129}, "long_value"),
        ("attributes", {"country": 10**256}, "long_value"),
        ("attributes", {"country": ["US"]}, "bad_value"),
        ("attributes", {"country": {"a": 1e308}}, "bad_value"),
        ("experiments", {"a" * 257: "b"}, "long_name"),
        ("experiments", {"é" * 129: 7}, "long_name"),
        ("experiments", {"a": []}, "bad_value"),
    ],
    ids=str,
)
def test_bad_value_is_left_out_and_counted(field: str, bad: dict[str, object], reason: str) -> None:
    value = as_bytes(IMPRESSION, **{field: {**bad, "device": "ios"}})
    for data in (value, b"[%b]" % value):
        event, dropped = decode(data, NOON_MS)
        assert isinstance(event, Impression) and isinstance(dropped, Rejected)
        assert getattr(event, field) == {"device": "ios"}
        assert (dropped.reason, dropped.skipped) == (reason, True)


def test_number_too_large_for_any_type_is_left_out() -> None:
    value = as_bytes(IMPRESSION, attributes={"a": "X"}).replace(b'"X"', b"1e999")
    assert [type(event) for event in decode(value, None)] == [Impression, Rejected]


def test_trimmed_impression_may_be_in_the_future() -> None:
    value = as_bytes(IMPRESSION, attributes={"a": []})
    assert reason_of(value, NOON_MS - 60_001) == "future"
    assert len(decode(value, NOON_MS - 60_000)) == len(decode(value, -1)) == 2


@pytest.mark.parametrize("names", [("country", "device"), ("country", 'a "quoted" name'), ()])
def test_attributes_that_are_not_needed_are_not_validated(names: tuple[str, ...]) -> None:
    given_values = {"url": "x" * 300, "page": 2, "filters": [{}], "é" * 129: 1, "country": "US"}
    value = as_bytes(IMPRESSION, attributes=given_values)
    limits = replace(LIMITS, attributes=names)
    (event,) = formats.decoder("native", limits)(value, NOON_MS)
    assert isinstance(event, Impression)
    assert event.attributes == ({"country": "US"} if names else {})
    assert read_carefully(value, limits) == event
    if '"' not in "".join(names):
        assert native.reader(limits, read_rest=not_fast)(value) == event


def test_unknown_format_is_an_error_that_lists_the_formats() -> None:
    with pytest.raises(ValueError, match=r"format='avro': must be one of native, ubi"):
        formats.decoder("avro", LIMITS)


@given(good_impressions | good_feedback, st.booleans())
def test_both_readers_agree_on_valid_records(record: dict[str, object], escaped: bool) -> None:
    value = json.dumps(record, ensure_ascii=escaped).encode()
    assert read_fast(value) == read_carefully(value, LIMITS)


@pytest.mark.parametrize("names", [None, ("country",), ()])
@given(damaged(IMPRESSION, FEEDBACK))
def test_fast_answers_are_careful_answers(names: tuple[str, ...] | None, value: bytes) -> None:
    limits = replace(LIMITS, attributes=names)
    try:
        fast = native.reader(limits, read_rest=not_fast)(value)
    except InvalidField:
        return
    assert fast == read_carefully(value, limits)


@given(damaged(IMPRESSION, FEEDBACK) | st.binary(), st.none() | st.integers(-1, NOON_MS))
def test_decoder_never_raises(value: bytes, record_time_ms: int | None) -> None:
    check_verdicts(list(decode(value, record_time_ms)))
