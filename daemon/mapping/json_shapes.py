"""Reads JSON into instances of a shape: one msgspec type per object. Pure.

Members that no expression reads are skipped: only their syntax is checked. An absent object reads
as one shared instance without values, so that paths through it give None without any test.
"""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from .shapes import ANYTHING, RAW_IDS, Role, Shape, attribute_of

MOST_LISTED: Final = 1000
"""Longest list that is read: work is bounded. A record with a longer one is read carefully."""
ABSENT: Final = Raw(b"null")
_INTEGER: Final = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


def decoder_of(shape: Shape, or_list_of: Shape | None = None) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a shape; with `or_list_of`, also of a list of such objects or nulls."""
    kind = type_of(shape)
    if or_list_of is not None:
        kind = kind | _list_of(kind if or_list_of is shape else type_of(or_list_of))
    return msgspec.json.Decoder(kind)


def type_of(shape: Shape) -> Any:
    """Return the type of a shape's values; every one may be null."""
    if shape.element is not None:
        one = type_of(shape.element)
        kind: Any = _list_of(one)
        listed: Any = Annotated[kind, Meta(max_length=MOST_LISTED)]
        return listed | one if shape.or_one else listed | None
    if shape.role is not None and not shape.members:
        return _scalar(shape.role)
    return _struct(shape) | None


def _list_of(element: Any) -> Any:
    listed: Any = list
    return listed[element]


def _struct(shape: Shape) -> type[msgspec.Struct]:
    fields, rename = list[tuple[str, Any, Any]](), dict[str, str]()
    for name, member in shape.members.items():
        attribute = attribute_of(name)
        rename[attribute] = name
        if member.members:
            kind = _struct(member)
            fields.append((attribute, kind | None, msgspec.field(default=kind())))
        else:
            absent = ABSENT if member.role == RAW_IDS else None
            fields.append((attribute, type_of(member), absent))
    return msgspec.defstruct("Read", fields, rename=rename, gc=False, frozen=True)


def _scalar(role: Role) -> Any:
    if role == RAW_IDS:
        return Raw
    if role == ANYTHING:
        return Any
    kinds: list[Any] = sorted(role.types - {str, int}, key=repr)
    if str in role.types:
        kinds.append(str if role.longest is None else Annotated[str, Meta(max_length=role.longest)])
    if int in role.types:
        kinds.append(_INTEGER)
    return reduce(or_, [*kinds, type(None)])


def builtins_of(instance: Any, shape: Shape) -> Any:
    """Return an instance as `msgspec.json.decode` gives it, but only what the shape reads of it."""
    if instance is None:
        return None
    if shape.element is not None:
        if shape.or_one and not isinstance(instance, list):
            return builtins_of(instance, shape.element)
        return [builtins_of(one, shape.element) for one in instance]
    if shape.members or shape.role is None:
        return {
            name: builtins_of(getattr(instance, attribute_of(name)), member)
            for name, member in shape.members.items()
        }
    return _decoded(instance) if shape.role == RAW_IDS else instance


def _decoded(raw: Raw) -> Any:
    """A list that was kept as text; the text, which is no list, where it is broken."""
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return bytes(raw).decode(errors="replace")
