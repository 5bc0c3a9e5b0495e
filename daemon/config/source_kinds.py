"""The kinds of the keys of `[[sources]]`: expressions, and what is made of them. Pure."""

import difflib
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta, timezone
from typing import Final, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from ..events.types import MAX_TEXT_BYTES
from ..mapping.expressions import Expression, InvalidExpression, expression
from ..mapping.tables import ALL_MEMBERS, Experiments, Id, Zone
from ..mapping.times import format_fault
from .kinds import InvalidValue, Kind, quoted, shown

T = TypeVar("T")
Named: TypeAlias = Mapping[str, Expression]

LEAST_SIMILARITY: Final = 0.6
MOST_ID_PARTS: Final = 8
_NAME_RULE: Final = f"a name must be 1 to {MAX_TEXT_BYTES} bytes"
_ZONE_RULE: Final = "must be UTC, an offset such as +01:00, or a name such as Europe/Berlin"


def named(names: Collection[str]) -> Kind[str]:
    """One of the names; a similar one is suggested."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        near = difflib.get_close_matches(str(value), names, 1, LEAST_SIMILARITY)
        rule = f"did you mean {near[0]}?" if near else f"must be one of {', '.join(names)}"
        raise InvalidValue((value, rule))

    return Kind(" | ".join(map(quoted, names)), read, quoted)


def jmespath() -> Kind[Expression]:
    """A JMESPath expression."""
    return Kind("expression", _expression, _written)


def identifier() -> Kind[Id]:
    """An expression, or a list of expressions whose values make one id."""

    def read(value: object) -> Id:
        parts = value if isinstance(value, list) else [value]
        if not 0 < len(parts) <= MOST_ID_PARTS:
            raise InvalidValue((value, f"must be 1 to {MOST_ID_PARTS} expressions"))
        return tuple(_expression(part) for part in parts)

    def write(value: Id) -> str:
        texts = [_written(part) for part in value]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"

    return Kind("expression, or list of them", read, write)


def expressions_by_name() -> Kind[Named]:
    """A table of name = expression."""

    def read(value: object) -> Named:
        return _table(value, "table of name = expression", _expression)

    return Kind("table of name = expression", read, _written_names)


def texts_by_name() -> Kind[Mapping[str, str]]:
    """A table of text = text."""

    def read(value: object) -> Mapping[str, str]:
        return _table(value, "table of kind = kind", _text)

    def write(value: Mapping[str, str]) -> str:
        pairs = (f"{quoted(name)} = {quoted(kind)}" for name, kind in value.items())
        return f"{{ {', '.join(pairs)} }}"

    return Kind("table of kind = kind", read, write)


def experiments() -> Kind[Experiments]:
    """Variants by the name of the experiment; or `map`, an object of them; or `list`, an array of
    objects with `name` and `variant`."""
    shape = "table of name = expression, { map } or { list, name, variant }"

    def read(value: object) -> Experiments:
        found = _table(value, shape, _expression)
        if set(found) == {"map"}:
            return Experiments(map=found["map"])
        if set(found) == {"list", "name", "variant"}:
            return Experiments(None, None, found["list"], found["name"], found["variant"])
        return Experiments(variants=found)

    def write(value: Experiments) -> str:
        if value.variants is not None:
            return _written_names(value.variants)
        parts = {name: getattr(value, name) for name in ("map", "list", "name", "variant")}
        return _written_names({name: one for name, one in parts.items() if one is not None})

    return Kind(shape, read, write)


def time_format() -> Kind[str]:
    """`auto`, a unit, or a format of strptime."""

    def read(value: object) -> str:
        text = _text(value)
        fault = format_fault(text)
        if fault is not None:
            raise InvalidValue((value, fault))
        return text

    return Kind('"auto" | "s" | "ms" | "us" | "ns" | format', read, quoted)


def time_zone() -> Kind[Zone]:
    """A time zone."""

    def read(value: object) -> Zone:
        text = _text(value)
        if text == "UTC":
            return timezone.utc
        if text.startswith(("+", "-")):
            try:
                offset = datetime.strptime(text, "%z").utcoffset()
            except ValueError:
                raise InvalidValue((value, _ZONE_RULE)) from None
            return timezone(offset or timedelta(0))
        try:
            return ZoneInfo(text)
        except (KeyError, ValueError, OSError):
            raise InvalidValue((value, _ZONE_RULE)) from None

    return Kind("time zone", read, lambda zone: quoted(zone_name(zone)))


def zone_name(zone: Zone) -> str:
    """The zone as it is written in a configuration."""
    return zone.key if isinstance(zone, ZoneInfo) else str(zone).removeprefix("UTC") or "UTC"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidValue((value, "must be a non-empty text"))
    return value


def _expression(value: object) -> Expression:
    text = _text(value)
    try:
        return expression(text)
    except InvalidExpression as error:
        raise InvalidValue((value, str(error))) from None


def _written(value: Expression) -> str:
    return quoted(value.text)


def _written_names(value: Named) -> str:
    return f"{{ {', '.join(f'{quoted(name)} = {_written(one)}' for name, one in value.items())} }}"


def _table(value: object, shape: str, read: Callable[[object], T]) -> dict[str, T]:
    if not isinstance(value, dict):
        raise InvalidValue((value, f"must be a {shape}"))
    found, faults = dict[str, T](), list[tuple[object, str]]()
    for name, inner in value.items():
        if not 0 < len(name.encode()) <= MAX_TEXT_BYTES and name != ALL_MEMBERS:
            faults.append((name, _NAME_RULE))
            continue
        try:
            found[name] = read(inner)
        except InvalidValue as invalid:
            faults += [(f"{name}={shown(wrong)}", rule) for wrong, rule in invalid.faults]
    if faults:
        raise InvalidValue(*faults)
    return found
