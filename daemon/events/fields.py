"""The field readers that every event format shares. Pure.

A field reader takes a decoded JSON value and returns the value for the event, or raises
`InvalidField` with the reason and a sentence for people. It knows no format: the name of the field
is an argument. Timestamps are whole milliseconds since the epoch; those of configurations and
options are read here too.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from .event_types import MAX_TEXT_BYTES, MILLISECONDS_BELOW, SECONDS_BELOW, SURELY_SHORT

SHOWN_CHARACTERS: Final = 80
"""A detail shows at most so much of a refused value."""
RANK_LIMIT: Final = 2**63 - 1
"""Ranks are stored in 64 bits."""

_T = TypeVar("_T")

# A missing field reads as null.
ABSENT: Final = msgspec.Raw(b"null")
_ANYTHING: Final = msgspec.json.Decoder()


class InvalidField(ValueError):
    """A field breaks a rule: `reason` is one of the rejection or skip reasons, `detail` is for
    people."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def shown(value: object) -> str:
    """Return the value for a detail: on one line, strings quoted, at most `SHOWN_CHARACTERS`."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    text = repr(value[:SHOWN_CHARACTERS]) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def refused(reason: str, name: str, value: object, rule: str) -> InvalidField:
    """Return the error of one field: its value, and the rule that it breaks."""
    # Names of attributes come from the record too, and a detail is one line.
    field = name if name.isprintable() else repr(name)
    return InvalidField(reason, f"{field}={shown(value)}: {rule}")


def present(values: Mapping[str, object], name: str) -> object:
    """Return the value of a required field."""
    if values[name] is None:
        raise missing(name)
    return values[name]


def missing(name: str) -> InvalidField:
    """Return the error of a record that lacks a field or has null there."""
    return InvalidField("missing_field", f"{name}: must be there and not null")


def check_joins(impression_id: str, visitor: str | None, item: str | None) -> None:
    """Raise InvalidField where feedback could join to nothing: by id, or else by its visitor and
    its item."""
    if not impression_id and visitor is None:
        raise missing("impression_id, visitor")
    if not impression_id and item is None:
        raise missing("item")


def decoded(
    name: str, raw: msgspec.Raw | bytes, decoder: msgspec.json.Decoder[_T], reason: str
) -> _T:
    """Return the raw value as the decoder's type. Raises InvalidField: `reason` where it is of
    another type, not_json where it is broken.

    What the decoder refuses is read once more with its halves of surrogate pairs replaced."""
    try:
        return decoder.decode(raw)
    except (ValueError, RecursionError) as error:
        refusal: Exception = error
    paired = without_halves(raw)
    if paired is not raw:
        try:
            return decoder.decode(paired)
        except (ValueError, RecursionError) as error:
            refusal = error
    broken = "not_json" if not isinstance(refusal, msgspec.ValidationError) else reason
    raise InvalidField(broken, f"{name}: {refusal}") from refusal


_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# What both kinds of halves begin with stands in front, so that the engine skips to it.
_UNPAIRED: Final = re.compile(
    rb"\\u[dD](?:"
    rb"[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|[c-fC-F][0-9a-fA-F]{2}(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
_REPLACED: Final = rb"\\ufffd"
_BACKSLASH, _HIDDEN = rb"\\", b"\0\0"


def without_halves(raw: msgspec.Raw | bytes) -> msgspec.Raw | bytes:
    """Return JSON with U+FFFD for each escape of half a surrogate pair, as UTF-8 has it; the same
    object where there is none.

    JavaScript writes such a half where a text is cut within an emoji. The grammar of JSON permits
    it, the decoder does not, whether or not somebody reads the text.
    """
    value = bytes(raw)
    # What is hidden is a byte that JSON never has. The "u" behind an escaped backslash is a letter.
    if _HALF.search(value) is None or b"\0" in value:
        return raw
    hidden = value.replace(_BACKSLASH, _HIDDEN)
    found, count = _UNPAIRED.subn(_REPLACED, hidden)
    return found.replace(_HIDDEN, _BACKSLASH) if count else raw


def raw_decoder(names: Iterable[str]) -> msgspec.json.Decoder[msgspec.Struct]:
    """Return a decoder of an object into its fields of these names, as raw JSON, and no others."""
    fields = [(name, msgspec.Raw, ABSENT) for name in names]
    return msgspec.json.Decoder(msgspec.defstruct("RawFields", fields, gc=False))


def plain_values(raw: msgspec.Struct, reasons: Mapping[str, str]) -> dict[str, object]:
    """Return the values of these fields. `reasons` gives the reason per field for a number that is
    too large for any type."""
    values: dict[str, object] = {}
    for name, reason in reasons.items():
        value = getattr(raw, name)
        # A third of the fields of UBI are missing in a record: no call for those.
        values[name] = None if value is ABSENT else decoded(name, value, _ANYTHING, reason)
    return values


def too_long(text: str) -> bool:
    """Whether the text has more than MAX_TEXT_BYTES bytes in UTF-8."""
    return len(text) > SURELY_SHORT and len(text.encode()) > MAX_TEXT_BYTES


def members(name: str, value: object) -> dict[str, object]:
    """Return the members of an object; null reads as an empty one, and so does the empty array that
    PHP writes for it."""
    if value is None or value == []:
        return {}
    if not isinstance(value, dict):
        raise refused("wrong_type", name, value, "must be an object")
    return value


def identifier(name: str, value: object) -> str:
    """Return an id: a string, or an integer as its decimal string."""
    if type(value) is not str and type(value) is not int:
        raise refused("wrong_type", name, value, "must be a string or an integer")
    text = value if type(value) is str else str(value)
    if not text or too_long(text):
        raise refused("bad_id", name, value, f"must have 1 to {MAX_TEXT_BYTES} bytes")
    return text


def identifiers(name: str, value: object) -> tuple[str, ...]:
    """Return a list of ids, in its order."""
    if not isinstance(value, list):
        raise refused("wrong_type", name, value, "must be an array of ids")
    element = f"{name}[]"
    # Nearly all are short strings: testing that inline costs a third of a call for each.
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
    """Return whose ranker brought each item: names, None (or an empty text) for neither or both."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise refused("wrong_type", name, value, "must be an array of names")
    element = f"{name}[]"
    return tuple(None if team in (None, "") else identifier(element, team) for team in value)


_WHOLE: Final = re.compile(r"-?\d{1,18}", re.ASCII)


def whole_number(value: object) -> int | None:
    """Return a whole number of 64 bits, also in digits as text; None for any other value."""
    if type(value) is str and _WHOLE.fullmatch(value):
        return int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and -RANK_LIMIT <= value <= RANK_LIMIT:
        return value
    return None


def whole_rank(name: str, value: object, least: int = -RANK_LIMIT) -> int:
    """Return a rank: a whole number, at least `least`."""
    number = whole_number(value)
    if number is None or number < least:
        least_shown = "" if least == -RANK_LIMIT else f" >= {least}"
        raise refused("bad_rank", name, value, f"must be an integer{least_shown}")
    return number


def check_item_or_rank(item: str | None, rank: int | None) -> None:
    """Check that feedback has an item, or a rank ≥ 1. Beside an item any rank is accepted."""
    if item is not None:
        return
    if rank is None:
        raise InvalidField("missing_field", "item, rank: one of them must be there and not null")
    if rank < 1:
        raise refused("bad_rank", "rank", rank, "must be >= 1 where there is no item")


def grade_value(name: str, value: object, max_grade: float) -> float:
    """Return a grade: a number up to `max_grade`; numbers below 0 count as 0."""
    if type(value) is not int and type(value) is not float:
        raise refused("bad_grade", name, value, "must be a number")
    if not value <= max_grade:
        raise refused("bad_grade", name, value, f"must be <= {max_grade:g}")
    return float(value) if value > 0 else 0.0


def grade_values(name: str, value: object, max_grade: float) -> dict[str, float]:
    """Return grades by item id; null is none."""
    return {
        identifier(f"key of {name}", item): grade_value(f"{name}.{item}", grade, max_grade)
        for item, grade in members(name, value).items()
        if grade is not None
    }


def kind_text(name: str, value: object) -> str:
    """Return the kind of feedback."""
    if not isinstance(value, str):
        raise refused("wrong_type", name, value, "must be a string")
    if too_long(value):
        raise refused("bad_attribute", name, value, f"must have at most {MAX_TEXT_BYTES} bytes")
    return value


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
