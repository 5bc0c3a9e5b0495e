"""The gates that every event format reads its fields through.

A gate takes a decoded JSON value and returns the value that the event contains, or raises
`InvalidField` with the reason and a sentence for people. Gates know no format: field names are
arguments. No clock, no I/O.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from .types import MAX_TEXT_BYTES, SURELY_SHORT

SHOWN_CHARACTERS: Final = 80
"""As much of a refused value as its detail shows."""
RANK_LIMIT: Final = 2**63 - 1
"""Ranks are kept in 64 bits."""

_T = TypeVar("_T")

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
