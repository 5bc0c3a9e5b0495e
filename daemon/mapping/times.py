"""Times of records in every unit and format, as whole milliseconds since the epoch. Pure."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Final

from ..events import refused, timestamp_ms
from .expressions import (
    AUTO,
    UNITS,
    TimeFormat,
)

_DIGITS: Final = re.compile(r"-?\d{1,20}(?:\.\d{1,20})?", re.ASCII)
_LATEST_MS: Final = 10**14
_NANOSECONDS_FROM: Final = 10**17
"""A bare number is in nanoseconds from here on: the year 1973, where microseconds end."""
_MOST_CHARACTERS: Final = 64
_WITH_A_YEAR: Final = ("%Y", "%y", "%G", "%c", "%x")
_RULES: Final = {
    "s": "must be a number of seconds since 1970",
    "ms": "must be a number of milliseconds since 1970",
    "us": "must be a number of microseconds since 1970",
    "ns": "must be a number of nanoseconds since 1970",
}


def time_ms(value: object, name: str, written: TimeFormat, near_ms: int | None = None) -> int:
    """Return the milliseconds, floored, of a time that is written in this format. A local time that
    a change of clocks repeats is that of the two instants which is nearer to `near_ms`, the first
    without one. `name` is for messages. Raises InvalidField."""
    if written.name == AUTO:
        return _auto_ms(value, name)
    if written.name in UNITS:
        return _unit_ms(value, name, written.name)
    first_ms, second_ms = instants_ms(value, name, written)
    if near_ms is None or abs(first_ms - near_ms) <= abs(second_ms - near_ms):
        return first_ms
    return second_ms


def format_fault(format_text: str) -> str | None:
    """Return what is wrong with a time format, for people; None where nothing is."""
    if format_text == AUTO or format_text in UNITS:
        return None
    rule = f'must be {AUTO}, {", ".join(UNITS)}, or a format such as "%d.%m.%Y %H:%M:%S"'
    if "%" not in format_text:
        return rule
    if not any(directive in format_text.replace("%%", "") for directive in _WITH_A_YEAR):
        return "must have year, month and day"  # strptime would warn of it, and refuse it one day
    moment = datetime(2026, 11, 20, 13, 14, 15)
    try:
        read = datetime.strptime(moment.strftime(format_text + "%%"), format_text + "%%")
    except ValueError as error:
        return f"{rule}: {error}"
    if (read.year, read.month, read.day) != (moment.year, moment.month, moment.day):
        return "must have year, month and day"
    return None


def has_zone(format_text: str) -> bool:
    """Whether a format of strptime reads a time zone."""
    return "%z" in format_text.replace("%%", "")


def _auto_ms(value: object, name: str) -> int:
    number = _number(value)
    if number is None or isinstance(value, float):
        return timestamp_ms(value, name)
    if number >= _NANOSECONDS_FROM:
        return _in_range(int(number // UNITS["ms"]), value, name, "auto")
    # A number with a fraction is exact as decimal text; `timestamp_ms` reads it from a float.
    whole = int(number) if number == int(number) else float(number)
    try:
        return timestamp_ms(whole, name)
    except ValueError:
        return timestamp_ms(value, name)


def _unit_ms(value: object, name: str, unit: str) -> int:
    number = _number(value)
    if number is None or number < 0:
        raise refused("bad_timestamp", name, value, _RULES[unit])
    return _in_range(int(number * UNITS[unit] // UNITS["ms"]), value, name, unit)


def _in_range(found_ms: int, value: object, name: str, unit: str) -> int:
    if not 0 <= found_ms < _LATEST_MS:
        rule = _RULES.get(unit, "must be a number since 1970")
        raise refused("bad_timestamp", name, value, f"{rule}, before the year 5138")
    return found_ms


def _number(value: object) -> Decimal | None:
    """The number that a value is, or writes in digits; None for another value."""
    if type(value) is str:
        return Decimal(value) if _DIGITS.fullmatch(value) else None
    if type(value) is int:
        return Decimal(value) if abs(value) < 10**30 else None
    if type(value) is float:
        # By its decimal digits: 1087841191.146 is a little less in binary.
        number = Decimal(repr(value))
        return number if number.is_finite() and abs(number) < 10**30 else None
    return None


def instants_ms(value: object, name: str, written: TimeFormat) -> tuple[int, int]:
    """Return the first and the last instant that a time in a format may be, in ms: mostly the
    same. Raises InvalidField."""
    rule = f"must be a time in the format {written.name!r}"
    if type(value) is not str or len(value) > _MOST_CHARACTERS:
        raise refused("bad_timestamp", name, value, rule)
    try:
        moment = datetime.strptime(value, written.name)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=written.zone)
        seconds = int(moment.replace(microsecond=0).timestamp())
        again = int(moment.replace(microsecond=0, fold=1).timestamp())
    except (ValueError, OverflowError) as error:
        raise refused("bad_timestamp", name, value, rule) from error
    found_ms = seconds * 1000 + moment.microsecond // 1000
    first_ms = _in_range(found_ms, value, name, "auto")
    return first_ms, first_ms + max(again - seconds, 0) * 1000
