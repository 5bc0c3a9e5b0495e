"""The gates: what a timestamp, an id, a rank, a grade or an attribute may be."""

from datetime import datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relevanced.daemon.events import fields
from relevanced.daemon.events.attributes import attribute_texts, raw_members
from relevanced.daemon.events.fields import SHOWN_CHARACTERS, InvalidField, shown, timestamp_ms

NOON_MS = 1_795_176_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def reason_of(gate: str, *arguments: object) -> str:
    with pytest.raises(InvalidField) as caught:
        getattr(fields, gate)(*arguments)
    return caught.value.reason


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2026-11-20T12:00:00Z", NOON_MS),
        ("2026-11-20T12:00:00.123Z", NOON_MS + 123),
        ("2026-11-20T12:00:00.5Z", NOON_MS + 500),
        ("2026-11-20T12:00:00.9999999Z", NOON_MS + 999),
        ("2026-11-20T12:00:00,25+00:00", NOON_MS + 250),
        ("2026-11-20T12:00:00.123+0000", NOON_MS + 123),
        ("2026-11-20T17:30:00.001+05:30", NOON_MS + 1),
        ("2026-11-20 07:00:00-05", NOON_MS),
        ("2026-11-20t12:00:00z", NOON_MS),
        ("2026-11-20T12:00Z", NOON_MS),
        ("2026-11-20T14:00+02:00", NOON_MS),
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:00:00-01:00", 0),
    ],
)
def test_timestamp_text_with_a_zone_is_read(text: str, expected_ms: int) -> None:
    assert timestamp_ms(text) == expected_ms


@pytest.mark.parametrize(
    ("number", "expected_ms"),
    [
        (0, 0),
        (1_795_176_000, NOON_MS),
        (1_795_176_000.123, NOON_MS + 123),
        (1_795_176_000.9999, NOON_MS + 999),
        (1_087_841_191.146, 1_087_841_191_146),
        (99_999_999_999, 99_999_999_999_000),
        (100_000_000_000, 100_000_000_000),
        (NOON_MS, NOON_MS),
        (NOON_MS + 0.9, NOON_MS),
        (99_999_999_999_999, 99_999_999_999_999),
        (100_000_000_000_000, 100_000_000_000),
        (NOON_MS * 1000 + 1999, NOON_MS + 1),
        (10**17 - 1, 99_999_999_999_999),
    ],
)
def test_timestamp_number_goes_by_magnitude(number: float, expected_ms: int) -> None:
    assert timestamp_ms(number) == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-20T12:00:00",
        "2026-11-20T12:00:00.123",
        "2026-11-20",
        "2026-02-30T12:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T12:00:00.Z",
        "2026-11-20T12:00:00+24:00",
        "2026-11-20T12:00:00Z ",
        "２026-11-20T12:00:00Z",
        "20261120T120000Z",
        "1969-12-31T23:59:59.999Z",
        "1795176000000",
        "",
        -1,
        -0.001,
        10**17,
        1e300,
        True,
        [],
        {},
    ],
)
def test_timestamp_refuses_the_rest(value: object) -> None:
    assert reason_of("timestamp_ms", value) == "bad_timestamp"


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(5138, 1, 1)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_timestamp_agrees_with_the_standard_library(local: datetime, east_minutes: int) -> None:
    moment = local.replace(tzinfo=timezone(timedelta(minutes=east_minutes)))
    assert timestamp_ms(moment.isoformat()) == (moment - EPOCH) // timedelta(milliseconds=1)


@given(st.integers(0, 10**14 - 1))
def test_timestamp_of_milliseconds_survives_seconds_and_back(time_ms: int) -> None:
    assert timestamp_ms(float(f"{time_ms // 1000}.{time_ms % 1000:03}")) == time_ms


def test_identifier_is_text_or_decimal() -> None:
    assert fields.identifier("item", "d7") == "d7"
    assert fields.identifier("item", -17) == "-17"
    assert fields.identifier("item", 10**255) == "1" + "0" * 255


@pytest.mark.parametrize("text", ["a" * 256, "é" * 128, "€" * 85, "😀" * 64])
def test_identifier_length_counts_bytes(text: str) -> None:
    assert fields.identifier("item", text) == text
    assert reason_of("identifier", "item", text + "éé") == "bad_id"


@pytest.mark.parametrize("value", [True, 1.0, None, [], {}])
def test_identifier_of_another_type_is_wrong(value: object) -> None:
    assert reason_of("identifier", "item", value) == "wrong_type"
    assert reason_of("identifiers", "items", ["d1", value]) == "wrong_type"


def test_identifier_is_never_empty() -> None:
    assert reason_of("identifier", "item", "") == "bad_id"
    assert reason_of("identifiers", "items", ["d1", ""]) == "bad_id"


def test_grade_clamps_below_zero_and_refuses_above_the_scale() -> None:
    assert fields.grade_value("grade", -(10**400), 3.0) == 0.0
    assert fields.grade_value("grade", 2.5, 3.0) == 2.5
    assert reason_of("grade_value", "grade", 3.1, 3.0) == "bad_grade"
    assert reason_of("grade_value", "grade", 10**400, 3.0) == "bad_grade"


@pytest.mark.parametrize("value", [True, "1", None, float("nan"), float("inf"), []])
def test_grade_is_a_finite_number(value: object) -> None:
    assert reason_of("grade_value", "grade", value, 3.0) == "bad_grade"


def texts_of(values: object) -> tuple[dict[str, str], list[str]]:
    dropped: list[str] = []
    raws = raw_members("attributes", msgspec.json.encode(values))
    return attribute_texts(raws, dropped), dropped


def test_attributes_become_text() -> None:
    given_values = {"a": "x", "b": True, "c": False, "d": 7, "e": 0.5, "f": 1e22, "g": None}
    told = {"a": "x", "b": "true", "c": "false", "d": "7", "e": "0.5", "f": "1e+22"}
    assert texts_of(given_values) == (told, [])
    assert texts_of(None) == ({}, [])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"a": []}, "bad_value"),
        ({"a": {}}, "bad_value"),
        ({"a": "é" * 129}, "long_value"),
        ({"é" * 129: "a"}, "long_name"),
    ],
)
def test_attributes_are_short_scalars(values: dict[str, object], reason: str) -> None:
    assert texts_of({**values, "b": "x"}) == ({"b": "x"}, [reason])


@pytest.mark.parametrize("value", ["US", 5, ["US"]])
def test_attributes_are_an_object(value: object) -> None:
    with pytest.raises(InvalidField) as caught:
        texts_of(value)
    assert caught.value.reason == "wrong_type"


@pytest.mark.parametrize("value", [2.0, "2", True, 2**63, -(2**63), []])
def test_rank_is_an_integer_of_64_bits(value: object) -> None:
    assert reason_of("whole_rank", "rank", value) == "bad_rank"


def test_place_needs_an_item_or_a_rank_from_1() -> None:
    fields.check_place("d1", -3)
    fields.check_place(None, 1)
    assert reason_of("check_place", None, None) == "missing_field"
    assert reason_of("check_place", None, 0) == "bad_rank"


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans())
def test_shown_value_is_one_short_line(value: object) -> None:
    assert len(shown(value)) <= SHOWN_CHARACTERS
    assert len(shown(value).splitlines()) == 1
