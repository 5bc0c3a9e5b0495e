"""Timestamps: read from events, from configurations and from options, and printed.

Pure. Instants are whole milliseconds since the epoch.
"""

import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Final

from .fields import refused
from .types import MILLISECONDS_BELOW, SECONDS_BELOW

MICROSECONDS_BELOW: Final = 10**17
"""A bare number is in seconds, milliseconds or microseconds by its magnitude: each range reaches
the year 5138."""
_LATEST_MS: Final = 10**14
"""The year 5138, where the ranges of numbers end too."""

_TIMESTAMP_RULE: Final = "must be an ISO 8601 date-time with a zone, or s, ms or µs, since 1970"
_SECOND: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d):(\d\d):(\d\d)", re.ASCII)
_REST: Final = re.compile(
    r"(?:[.,](\d{1,18}))?(?:[Zz]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)", re.ASCII
)
_FRACTION_MS: Final = {"Z": 0} | {f".{ms:03}Z": ms for ms in range(1000)}
_TEXTS_KEPT: Final = 4096
_MINUTE_CHARACTERS: Final = len("2026-11-20T12:00")
_ZONE_STARTS: Final = ("Z", "z", "+", "-")
_SECOND_CHARACTERS: Final = len("2026-11-20T12:00:00")
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def timestamp_ms(value: object, name: str = "timestamp") -> int:
    """Return the milliseconds, floored, of a date-time with a zone or of a bare number.

    Raises InvalidField. The usual `…:00.123Z` takes one cached look-up per second of event time and
    one per fraction, instead of regular expressions.
    """
    try:
        if type(value) is str:
            rest_ms = _FRACTION_MS.get(value[_SECOND_CHARACTERS:])
            if rest_ms is None:
                time_ms = _text_ms(value)
            else:
                time_ms = _second_ms(value[:_SECOND_CHARACTERS]) + rest_ms
        else:
            time_ms = _number_ms(value)
    except ValueError as error:
        raise refused("bad_timestamp", name, value, _TIMESTAMP_RULE) from error
    if not 0 <= time_ms < _LATEST_MS:
        raise refused("bad_timestamp", name, value, _TIMESTAMP_RULE)
    return time_ms


def timestamps_ms(values: Sequence[str]) -> list[int]:
    """Return the milliseconds of several texts: what `timestamp_ms` returns of each, and faster
    where all are written in the usual way. Raises InvalidField."""
    try:
        found = [
            _second_ms(value[:_SECOND_CHARACTERS]) + _FRACTION_MS[value[_SECOND_CHARACTERS:]]
            for value in values
        ]
        if not found or (min(found) >= 0 and max(found) < _LATEST_MS):
            return found
    except (KeyError, ValueError):
        pass
    return list(map(timestamp_ms, values))


def _text_ms(text: str) -> int:
    minute, rest = text[:_MINUTE_CHARACTERS], text[_MINUTE_CHARACTERS:]
    if rest.startswith(_ZONE_STARTS):
        text = f"{minute}:00{rest}"
    return _second_ms(text[:_SECOND_CHARACTERS]) + _rest_ms(text[_SECOND_CHARACTERS:])


@lru_cache(maxsize=_TEXTS_KEPT)
def _second_ms(text: str) -> int:
    """Return a whole second as if in UTC. Cached: events of one second follow each other."""
    match = _SECOND.fullmatch(text)
    if match is None:
        raise ValueError("not a date-time")
    clock = time(int(match[2]), int(match[3]), int(match[4]))
    days = date.fromisoformat(match[1]).toordinal() - _EPOCH_DAY
    return (((days * 24 + clock.hour) * 60 + clock.minute) * 60 + clock.second) * 1000


@lru_cache(maxsize=_TEXTS_KEPT)
def _rest_ms(text: str) -> int:
    """Return the milliseconds that the fraction of a second and the zone add."""
    match = _REST.fullmatch(text)
    if match is None:
        raise ValueError("no zone")
    fraction, sign, hours, minutes = match.groups()
    east_minutes = int(f"{sign}1") * (int(hours) * 60 + int(minutes or 0)) if sign else 0
    return int((fraction or "")[:3].ljust(3, "0")) - east_minutes * 60_000


def _number_ms(value: object) -> int:
    if type(value) is not int and type(value) is not float:
        raise ValueError("neither text nor number")
    if not value < MICROSECONDS_BELOW:
        raise ValueError("too large")
    # By its decimal digits: 1087841191.146 is a little less in binary, and would floor to .145.
    exact = value if isinstance(value, int) else Decimal(repr(value))
    if value < SECONDS_BELOW:
        return math.floor(exact * 1000)
    return math.floor(exact if value < MILLISECONDS_BELOW else exact // 1000)


def instant_ms(moment: datetime | str) -> int:
    """Return the milliseconds, rounded, of a date and time with its zone as people write it in a
    configuration or an option. Raises ValueError for any other text or a missing zone."""
    parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    if parsed.tzinfo is None:
        raise ValueError("no zone")
    return round(parsed.timestamp() * 1000)


def timestamp_text(time_ms: int) -> str:
    """Return the instant in RFC 3339, in UTC, to the millisecond: `2026-11-20T12:00:00.000Z`."""
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span_text(span_ms: int) -> str:
    """A length of time for people: in one unit, rounded.

    >>> span_text(97_000_000), span_text(230_000), span_text(900)
    ('27 h', '4 min', '1 s')
    """
    for unit_ms, unit, least in ((86_400_000, "days", 2), (3_600_000, "h", 2), (60_000, "min", 2)):
        if span_ms >= least * unit_ms:
            return f"{round(span_ms / unit_ms)} {unit}"
    return f"{round(span_ms / 1000)} s"
