"""Timestamps: which texts and numbers are read, and what is printed."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.events import (
    InvalidField,
    instant_ms,
    span_text,
    timestamp_ms,
    timestamp_text,
    timestamps_ms,
)

NOON_MS = 1_795_176_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


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
    with pytest.raises(InvalidField) as caught:
        timestamp_ms(value)
    assert caught.value.reason == "bad_timestamp"


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


@given(
    st.lists(
        st.datetimes().map(lambda at: at.isoformat(timespec="milliseconds") + "Z")
        | st.sampled_from(("2026-11-20T12:00:00+01:00", "1969-12-31T23:59:59.999Z", "yesterday"))
    )
)
def test_many_texts_are_read_as_each_of_them(texts: list[str]) -> None:
    try:
        expected = [timestamp_ms(text) for text in texts]
    except InvalidField:
        with pytest.raises(InvalidField):
            timestamps_ms(texts)
    else:
        assert timestamps_ms(texts) == expected


@given(st.integers(0, 10**14 - 1))
def test_what_is_printed_is_read_back(time_ms: int) -> None:
    assert timestamp_ms(timestamp_text(time_ms)) == time_ms
    assert instant_ms(timestamp_text(time_ms)) == time_ms


def test_an_instant_is_printed_in_utc_to_the_millisecond() -> None:
    assert timestamp_text(NOON_MS) == "2026-11-20T12:00:00.000Z"
    assert timestamp_text(NOON_MS + 1) == "2026-11-20T12:00:00.001Z"


@pytest.mark.parametrize("text", ["2026-11-20T13:00:00+01:00", "20261120T120000Z"])
def test_an_instant_of_people_has_any_iso_form(text: str) -> None:
    assert instant_ms(text) == instant_ms(datetime.fromisoformat(text)) == NOON_MS


@pytest.mark.parametrize("text", ["2026-11-20T12:00:00", "2026-11-20", "noon", ""])
def test_an_instant_needs_its_zone(text: str) -> None:
    with pytest.raises(ValueError):
        instant_ms(text)


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [(119_400, "119 s"), (120_000, "2 min"), (7_200_001, "2 h"), (200_000_000, "2 days")],
)
def test_spans_are_stated_in_one_unit(span_ms: int, text: str) -> None:
    assert span_text(span_ms) == text
