"""Times in every unit and format become the same whole milliseconds."""

from datetime import timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from relevanced.daemon.events import InvalidField
from relevanced.daemon.mapping import TimeFormat, format_fault, time_ms

AT_MS = 1795176000123


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-20T12:00:00.123Z",
        "2026-11-20T13:00:00,1239+01:00",
        1795176000.123,
        "1795176000.123",
        AT_MS,
        str(AT_MS),
        1795176000123999,
        "1795176000123999",
        1795176000123999999,
        "1795176000123999999",
    ],
)
def test_auto_reads_dates_with_a_zone_and_numbers_by_their_size(value: object) -> None:
    assert time_ms(value, "at", TimeFormat()) == AT_MS


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("s", 1795176000.123),
        ("s", "1795176000.123"),
        ("ms", AT_MS),
        ("ms", "1795176000123.9"),
        ("us", 1795176000123999),
        ("ns", "1795176000123999999"),
    ],
)
def test_a_unit_is_taken_whatever_the_size(unit: str, value: object) -> None:
    assert time_ms(value, "at", TimeFormat(unit)) == AT_MS
    assert time_ms(5, "at", TimeFormat("s")) == 5000


@pytest.mark.parametrize("value", ["", "x", None, True, [], {}, -1, 1e300, 10**40, "9" * 30, "nan"])
@pytest.mark.parametrize("name", ["auto", "s", "ms", "us", "ns", "%d.%m.%Y %H:%M"])
def test_what_is_no_time_is_refused_with_a_rule(value: object, name: str) -> None:
    with pytest.raises(InvalidField) as caught:
        time_ms(value, "at", TimeFormat(name))
    assert caught.value.reason == "bad_timestamp"
    assert caught.value.detail.startswith("at=")


@pytest.mark.parametrize(
    ("zone", "expected_ms"),
    [
        (timezone.utc, 1795176000500),
        (timezone(timedelta(hours=1)), 1795172400500),
        (ZoneInfo("Europe/Berlin"), 1795172400500),
    ],
)
def test_a_format_without_a_zone_is_in_the_time_zone(
    zone: timezone | ZoneInfo, expected_ms: int
) -> None:
    written = TimeFormat("%d.%m.%Y %H:%M:%S.%f", zone)
    assert time_ms("20.11.2026 12:00:00.5009", "at", written) == expected_ms
    assert time_ms("2026-11-20 12:00 +0000", "at", TimeFormat("%Y-%m-%d %H:%M %z", zone)) == (
        1795176000000
    )


@pytest.mark.parametrize(
    ("text", "near_ms", "expected_ms"),
    [
        ("2026-10-25 02:15", None, 1792887300000),
        ("2026-10-25 02:15", 1792887300000 + 1_799_000, 1792887300000),
        ("2026-10-25 02:15", 1792887300000 + 1_801_000, 1792890900000),
        ("2026-10-25 03:15", 0, 1792894500000),
        ("2026-03-29 02:15", 1774750000000, 1774746900000),
    ],
)
def test_a_repeated_time_is_that_nearer_to_the_record(
    text: str, near_ms: int | None, expected_ms: int
) -> None:
    written = TimeFormat("%Y-%m-%d %H:%M", ZoneInfo("Europe/Berlin"))
    assert time_ms(text, "at", written, near_ms) == expected_ms


@pytest.mark.parametrize("text", ["%H:%M", "hours", "%Q", "%d.%m"])
def test_a_format_without_a_date_is_none(text: str) -> None:
    assert format_fault(text) is not None
