"""What of Avro and Protobuf is read into instances of a shape. Pure."""

from typing import Any

import msgspec

from ..schemas.typed import Typed
from .shapes import ANYTHING, ID, RAW_IDS, Role, Shape, attribute_of


def typed_of(shape: Shape) -> Typed:
    """Return what is wanted of a value: members that are null read as one shared instance without
    values, as absent objects of JSON do."""
    if shape.element is not None:
        return Typed(element=typed_of(shape.element), or_one=shape.or_one)
    if shape.role is not None and not shape.members:
        return _scalar(shape.role)
    members = {name: typed_of(member) for name, member in shape.members.items()}
    fields: list[Any] = [
        (attribute_of(name), Any, msgspec.field(default=member.absent))
        for name, member in members.items()
    ]
    make = msgspec.defstruct("Read", fields, gc=False, frozen=True)
    return Typed(members=members, make=make, absent=make())


def _scalar(role: Role) -> Typed:
    if role == ANYTHING:
        return Typed(is_any=True)
    if role == RAW_IDS:
        return Typed(element=_scalar(ID))
    return Typed(kinds=role.types, longest=role.longest)
