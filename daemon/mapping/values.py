"""The values that expressions find, as the fields of events need them. Pure."""

import json
import re
from typing import Final

from ..events.fields import RANK_LIMIT, InvalidField, identifier, refused, too_long
from .evaluation import Evaluation
from .expressions import Expression
from .tables import Id

_WHOLE: Final = re.compile(r"-?\d{1,18}", re.ASCII)
JOINED_BY: Final = "|"


def missing(expression: Expression) -> InvalidField:
    """Return the error of a field that is not there."""
    return InvalidField("missing_field", f"{expression.name}: must be there and not null")


def whole_number(value: object) -> int | None:
    """Return a whole number of 64 bits, also in digits as text; None for any other value."""
    if type(value) is str and _WHOLE.fullmatch(value):
        return int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and -RANK_LIMIT <= value <= RANK_LIMIT:
        return value
    return None


def rank_of(found: Evaluation, rank: Expression | None, element: object, base: int) -> int | None:
    """Return the rank of an element, from 1; None where it has none, or one below the base."""
    return None if rank is None else rank_from(found.find(rank, element), base)


def rank_from(value: object, base: int) -> int | None:
    """Return the rank, from 1, that a value states from `base`; None where it states none."""
    number = whole_number(value)
    if number is None or number < base:
        return None
    return min(number - base + 1, RANK_LIMIT)


def id_of(found: Evaluation, expressions: Id, value: object) -> str | None:
    """Return an id that may have several parts; None where one of them is null."""
    parts = list[str]()
    for expression in expressions:
        part = found.find(expression, value)
        if part is None:
            return None
        parts.append(identifier(expression.name, part))
    joined = JOINED_BY.join(parts)
    return identifier(expressions[0].name, joined) if len(parts) > 1 else joined


def optional_id(found: Evaluation, expression: Expression | None, value: object) -> str | None:
    """Return an id; None where it is not mapped, null, or the empty text that trackers write for
    an unknown user."""
    text = None if expression is None else found.find(expression, value)
    return None if expression is None or text in (None, "") else identifier(expression.name, text)


def scalar_text(value: object) -> str | None:
    """Return a text, a number or a truth value as text; None for null, objects and arrays."""
    if value is None or isinstance(value, (dict, list)):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def elements_of(found: object, expression: Expression, most: int) -> list[object]:
    """Return the elements of an array. Raises InvalidField for another value, and for an array of
    more than `most` elements."""
    if not isinstance(found, list):
        raise refused("wrong_type", expression.name, found, "must be an array")
    if len(found) > most:
        rule = f"{len(found)} elements: must be <= {most}"
        raise InvalidField("too_large", f"{expression.name}: {rule}")
    return found


class Texts:
    """Gathers attributes or experiments: what cannot be one is left out, and its reason noted."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.dropped: list[str] = []

    def add(self, name: str, value: object) -> None:
        """Take the value of a name; null is none."""
        if value is None:
            return
        text = scalar_text(value)
        if text is None:
            self.dropped.append("bad_value")
        elif too_long(name) or too_long(text):
            self.dropped.append("long_name" if too_long(name) else "long_value")
        else:
            self.texts[name] = text

    def add_scalars(self, members: object) -> None:
        """Take the scalar members of an object that have no value yet."""
        if isinstance(members, dict):
            self.add_members(
                {
                    name: value
                    for name, value in members.items()
                    if name not in self.texts and not isinstance(value, (dict, list))
                }
            )
        elif members is not None:
            self.dropped.append("bad_value")

    def add_members(self, members: object) -> None:
        """Take all members of an object."""
        if isinstance(members, dict):
            for name, value in members.items():
                self.add(name, value)
        elif members is not None:
            self.dropped.append("bad_value")
