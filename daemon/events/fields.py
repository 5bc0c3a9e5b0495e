"""The gates that every event format reads its fields through.

A gate takes a decoded JSON value and returns the value that the event contains, or raises
`InvalidField` with the reason and a sentence for people. Gates know no format: field names are
arguments. No clock, no I/O.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import date, time
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from .types import MAX_TEXT_BYTES, MILLISECONDS_BELOW, SECONDS_BELOW, SURELY_SHORT

SHOWN_CHARACTERS: Final = 80
"""As much of a refused value as its detail shows."""
RANK_LIMIT: Final = 2**63 - 1
"""Ranks are kept in 64 bits."""
MICROSECONDS_BELOW: Final = 10**17
"""A bare number is seconds, milliseconds or microseconds by its size: each reaches year 5138."""

_T = TypeVar("_T")

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
# A field that is not there reads like one that is null.
ABSENT: Final = msgspec.Raw(b"null")
_ANYTHING: Final = msgspec.json.Decoder()


class InvalidField(ValueError):
    """No event can be made of this: `reason` is a rejection or skip reason, `detail` for people."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def shown(value: object) -> str:
    """The value for a detail: on one line, strings quoted, at most `SHOWN_CHARACTERS` of it."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    text = repr(value[:SHOWN_CHARACTERS]) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def refused(reason: str, name: str, value: object, rule: str) -> InvalidField:
    """The refusal of one field: its value beside the rule that it breaks."""
    # Names of attributes come from the record too, and a detail is one line.
    field = name if name.isprintable() else repr(name)
    return InvalidField(reason, f"{field}={shown(value)}: {rule}")


def present(values: Mapping[str, object], name: str) -> object:
    """The value of a required field."""
    if values[name] is None:
        raise missing(name)
    return values[name]


def missing(name: str) -> InvalidField:
    """The refusal of a record that lacks a field, or has null there."""
    return InvalidField("missing_field", f"{name}: must be there and not null")


def decoded(
    name: str, raw: msgspec.Raw | bytes, decoder: msgspec.json.Decoder[_T], reason: str
) -> _T:
    """The raw value as the decoder's type: `reason` where it is of another, not_json if broken."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidField(reason, f"{name}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidField("not_json", f"{name}: {error}") from error


def raw_decoder(names: Iterable[str]) -> msgspec.json.Decoder[msgspec.Struct]:
    """Decodes an object into its fields of these names, not yet looked into, and no others."""
    fields = [(name, msgspec.Raw, ABSENT) for name in names]
    return msgspec.json.Decoder(msgspec.defstruct("RawFields", fields, gc=False))


def plain_values(raw: msgspec.Struct, reasons: Mapping[str, str]) -> dict[str, object]:
    """The values of these fields: the field's reason refuses a number too large to hold."""
    return {
        name: decoded(name, getattr(raw, name), _ANYTHING, reason)
        for name, reason in reasons.items()
    }


# Gates ----------------------------------------------------------------------------------------


def too_long(text: str) -> bool:
    """Whether the text has more than MAX_TEXT_BYTES bytes in UTF-8."""
    return len(text) > SURELY_SHORT and len(text.encode()) > MAX_TEXT_BYTES


def members(name: str, value: object) -> dict[str, object]:
    """The members of an object; null is as good as empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refused("wrong_type", name, value, "must be an object")
    return value


def identifier(name: str, value: object) -> str:
    """An id: a string, or an integer as its decimal string."""
    if type(value) is not str and type(value) is not int:
        raise refused("wrong_type", name, value, "must be a string or an integer")
    text = value if type(value) is str else str(value)
    if not text or too_long(text):
        raise refused("bad_id", name, value, f"must have 1 to {MAX_TEXT_BYTES} bytes")
    return text


def identifiers(name: str, value: object) -> tuple[str, ...]:
    """A list of ids, in its order."""
    if not isinstance(value, list):
        raise refused("wrong_type", name, value, "must be an array of ids")
    element = f"{name}[]"
    # Nearly all are plain: testing that here is a third of the cost of a call for each.
    return tuple(
        [
            (
                item
                if type(item) is str and 0 < len(item) <= SURELY_SHORT
                else identifier(element, item)
            )
            for item in value
        ]
    )


def team_names(name: str, value: object) -> tuple[str | None, ...]:
    """Whose ranker brought each item: names, null for none or for both."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise refused("wrong_type", name, value, "must be an array of names")
    return tuple(None if one is None else identifier(f"{name}[]", one) for one in value)


def whole_rank(name: str, value: object, least: int = -RANK_LIMIT) -> int:
    """A rank: an integer of 64 bits."""
    if type(value) is not int or not least <= value <= RANK_LIMIT:
        least_shown = "" if least == -RANK_LIMIT else f" >= {least}"
        raise refused("bad_rank", name, value, f"must be an integer{least_shown}")
    return value


def check_place(item: str | None, rank: int | None) -> None:
    """Feedback names its item, or its rank from 1 on; beside an item any rank will do."""
    if item is not None:
        return
    if rank is None:
        raise InvalidField("missing_field", "item, rank: one of them must be there and not null")
    if rank < 1:
        raise refused("bad_rank", "rank", rank, "must be >= 1 where there is no item")


def grade_value(name: str, value: object, max_grade: float) -> float:
    """A grade: a number; those below 0 count as 0."""
    if type(value) is not int and type(value) is not float:
        raise refused("bad_grade", name, value, "must be a number")
    if not value <= max_grade:
        raise refused("bad_grade", name, value, f"must be <= {max_grade:g}")
    return float(value) if value > 0 else 0.0


def grade_values(name: str, value: object, max_grade: float) -> dict[str, float]:
    """Grades by item id."""
    return {
        identifier(f"key of {name}", item): grade_value(f"{name}.{item}", grade, max_grade)
        for item, grade in members(name, value).items()
    }


def kind_text(name: str, value: object) -> str:
    """The kind of a feedback."""
    if not isinstance(value, str):
        raise refused("wrong_type", name, value, "must be a string")
    if too_long(value):
        raise refused("bad_attribute", name, value, f"must have at most {MAX_TEXT_BYTES} bytes")
    return value


# Time -----------------------------------------------------------------------------------------


_LATEST_MS: Final = 10**14
"""The year 5138, where the magnitudes of numbers end too."""


def timestamp_ms(value: object, name: str = "timestamp") -> int:
    """Milliseconds since the epoch, floored, of a date-time with a zone or a bare number."""
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


def _text_ms(text: str) -> int:
    minute, rest = text[:_MINUTE_CHARACTERS], text[_MINUTE_CHARACTERS:]
    if rest.startswith(_ZONE_STARTS):
        text = f"{minute}:00{rest}"
    return _second_ms(text[:_SECOND_CHARACTERS]) + _rest_ms(text[_SECOND_CHARACTERS:])


@lru_cache(maxsize=_TEXTS_KEPT)
def _second_ms(text: str) -> int:
    """A whole second, as if in UTC: it repeats from event to event, hence the cache."""
    match = _SECOND.fullmatch(text)
    if match is None:
        raise ValueError("not a date-time")
    clock = time(int(match[2]), int(match[3]), int(match[4]))
    days = date.fromisoformat(match[1]).toordinal() - _EPOCH_DAY
    return (((days * 24 + clock.hour) * 60 + clock.minute) * 60 + clock.second) * 1000


@lru_cache(maxsize=_TEXTS_KEPT)
def _rest_ms(text: str) -> int:
    """The fraction of a second and the zone: what they add to the whole second."""
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
    # As it was written: 1087841191.146 is a little less in binary; its product floors to .145.
    exact = value if isinstance(value, int) else Decimal(repr(value))
    if value < SECONDS_BELOW:
        return math.floor(exact * 1000)
    return math.floor(exact if value < MILLISECONDS_BELOW else exact // 1000)
