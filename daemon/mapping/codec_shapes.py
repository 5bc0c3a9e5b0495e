"""What of Avro and Protobuf is read into instances of a shape. Pure."""

from collections.abc import Collection
from typing import Any

import msgspec

from ..schemas.typed import Typed
from .shapes import ANYTHING, ID, RAW_IDS, Role, Shape, attribute_of


def typed_of(shape: Shape, events: Collection[Shape] = ()) -> Typed:
    """Return what is wanted of a value: members that are null read as one shared instance without
    values, as absent objects of JSON do. `events`: what must be instances, one by one."""
    if shape.element is not None:
        listed, attributes = shape.element.members, tuple[str, ...]()
        if shape.element not in events and all(map(_is_flat, listed.values())):
            attributes = tuple(map(attribute_of, listed))
        element = typed_of(shape.element, events)
        return Typed(element=element, or_one=shape.or_one, attributes=attributes)
    if shape.role is not None and not shape.members:
        return _scalar(shape.role)
    members = {name: typed_of(member, events) for name, member in shape.members.items()}
    fields: list[Any] = [
        (attribute_of(name), Any, msgspec.field(default=member.absent))
        for name, member in members.items()
    ]
    make = msgspec.defstruct("Read", fields, gc=False, frozen=True)
    return Typed(members=members, make=make, absent=make())


def _is_flat(shape: Shape) -> bool:
    return not shape.members and shape.element is None and shape.role not in (RAW_IDS, ANYTHING)


def _scalar(role: Role) -> Typed:
    if role == ANYTHING:
        return Typed(is_any=True)
    if role == RAW_IDS:
        return Typed(element=_scalar(ID))
    return Typed(kinds=role.types, longest=role.longest)
