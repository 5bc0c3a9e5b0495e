"""The kinds of settings with several values: lists and tables. Pure."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from .kinds import InvalidValue, Kind, duration, duration_text, number_or_text, quoted, shown, text

T = TypeVar("T")

_OUTER_COMMA: Final = re.compile(r",(?![^(]*\))")
"""A comma outside of parentheses: the parameters of a metric, `P(rel=2)@5`, stay together."""


def several(kind: Kind[T], name: str) -> Kind[tuple[T, ...]]:
    """A list of values of one kind. In the environment: JSON, or separated by commas."""

    def read(value: object) -> tuple[T, ...]:
        if isinstance(value, str):
            value = _parts(value)
        if not isinstance(value, list):
            raise InvalidValue((value, f"must be a list ({name})"))
        return tuple(each(value, kind.read))

    def write(values: tuple[T, ...]) -> str:
        return f"[{', '.join(kind.write(value) for value in values)}]"

    return Kind(name, read, write, json_or_text)


def each(values: Sequence[object], read: Callable[[object], T]) -> list[T]:
    """Read every element. Raises one InvalidValue with the faults of all of them."""
    valid: list[T] = []
    faults: list[tuple[object, str]] = []
    for value in values:
        try:
            valid.append(read(value))
        except InvalidValue as invalid:
            faults.extend(invalid.faults)
    if faults:
        raise InvalidValue(*faults)
    return valid


def table(name: str, value_kind: Kind[float]) -> Kind[dict[str, float]]:
    """A table of name to number. In the environment: JSON, or `name=number` separated by commas."""

    def entry(pair: object) -> tuple[str, float]:
        key, value = pair if isinstance(pair, tuple) else ("", pair)
        try:
            return key, value_kind.read(value)
        except InvalidValue as invalid:
            faults = [(f"{key}={shown(wrong)}", rule) for wrong, rule in invalid.faults]
            raise InvalidValue(*faults) from invalid

    def read(value: object) -> dict[str, float]:
        if not isinstance(value, dict):
            raise InvalidValue((value, f"must be a table ({name})"))
        return dict(each(list(value.items()), entry))

    def write(value: dict[str, float]) -> str:
        pairs = (f"{quoted(key)} = {value_kind.write(number)}" for key, number in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"

    return Kind(name, read, write, _table_of)


def windows() -> Kind[tuple[tuple[str, int], ...]]:
    """A list of durations, each as (text as written, seconds)."""
    length = duration(1000, 1000)

    def element(value: object) -> tuple[str, int]:
        length_s = length.read(value)
        return (value if isinstance(value, str) else duration_text(length_s * 1000)), length_s

    return several(Kind("", element, lambda pair: quoted(pair[0])), "list of durations")


def groupings() -> Kind[tuple[tuple[str, ...], ...]]:
    """A list of lists of attribute names. A name alone stands for a list of one."""

    def element(value: object) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list):
            raise InvalidValue((value, "must be a list of attribute names"))
        return tuple(each(names, text(rule="must be a non-empty attribute name").read))

    def write(names: tuple[str, ...]) -> str:
        return f"[{', '.join(quoted(name) for name in names)}]"

    return several(Kind("", element, write), "list of lists of attribute names")


def _parts(given: str) -> list[object]:
    return [part.strip() for part in _OUTER_COMMA.split(given) if part.strip()]


def json_or_text(given: str) -> object:
    """What a text that looks like JSON spells; any other text as it is."""
    # Looks at both ends: [::1]:9092 is an address, not JSON.
    if (given.strip()[:1], given.strip()[-1:]) not in (("[", "]"), ("{", "}")):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InvalidValue((given, f"is not JSON: {error}")) from error


def _table_of(given: str) -> object:
    parsed = json_or_text(given)
    if parsed is not given:
        return parsed
    pairs = (part.partition("=") for part in given.split(",") if part.strip())
    return {key.strip(): number_or_text(value.strip()) for key, _, value in pairs}
