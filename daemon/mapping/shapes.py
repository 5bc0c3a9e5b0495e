"""What of a record a source reads, as a tree of the paths of its expressions. Pure data.

Three parts are kept apart, so that the same mapping can read records of another codec:

1. `shapes` (this module): which members are read, and as what (`Role`).
2. A reader that makes instances of a shape from bytes: for JSON `json_shapes`.
3. `getters`, `lists`, `plain_impressions`, `plain_feedback`, `compiled`: functions over instances.
   They know nothing of JSON; they read the attribute `attribute_of(name)` for the member `name`.

A reader for another codec (a generated Avro reader, a Protobuf message) gives instances where

* a shape with `members` is an object with an attribute for each of them, or None;
* a shape with an `element` is a list (anything with `len` and an index) of its values, or None;
* a shape with a `role` is a value of one of its types, or None. A value of another type (a float
  where an id is read), a text longer than `longest` and an integer of more than 64 bits must make
  the reader raise a ValueError: the interpreter then reads the record. Texts in a column
  of `Columns` may be of any length;
* RAW_IDS is JSON text of a list (`msgspec.Raw`) or a list of values, ANYTHING what
  `msgspec.json.decode` would give.

A missing member may be None, or an object whose attributes are None. 0 and "" are values.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ..events.attributes import can_be_fields
from ..events.types import SURELY_SHORT

_AS_IT_IS: Final = re.compile(r"(?!x_)[A-Za-z][A-Za-z0-9_]*", re.ASCII)


class Unsupported(ValueError):
    """An expression is outside of the compiled subset; the message says which part, for people."""


@dataclass(frozen=True)
class Role:
    """As what a value without members is read: values of other types make the record odd."""

    types: frozenset[type] = frozenset()
    longest: int | None = None
    """Most characters of a text."""
    special: str = ""
    """`ids` or `anything`, instead of types."""

    def and_also(self, other: "Role") -> "Role":
        """What fits both roles. Raises Unsupported."""
        if self == other or other.special == "anything" and self.special == "":
            return self
        if self.special == "anything" and other.special == "":
            return other
        if self.special or other.special:
            raise Unsupported("a list of ids is read as something else, too")
        lengths = [one for one in (self.longest, other.longest) if one is not None]
        return replace(self, types=self.types & other.types, longest=min(lengths, default=None))


ID: Final = Role(frozenset((str, int)), SURELY_SHORT)
TIME: Final = Role(frozenset((str, int, float)), SURELY_SHORT)
RANK: Final = Role(frozenset((str, int, float)))
SCALAR: Final = Role(frozenset((str, int, float, bool)))
TEXT: Final = Role(frozenset((str,)))
RAW_IDS: Final = Role(special="ids")
ANYTHING: Final = Role(special="anything")


@dataclass(eq=False)
class Shape:
    """What is read of one value: its members, its elements, or the value itself, by its role."""

    members: dict[str, "Shape"] = field(default_factory=dict)
    element: "Shape | None" = None
    or_one: bool = False
    """Whether the value may also be one element instead of a list of them."""
    role: Role | None = None

    def member(self, name: str) -> "Shape":
        """Read a member of the object; returns its shape. Raises Unsupported."""
        if self.role is not None or self.element is not None:
            raise Unsupported(f"a value that has the member {name} is read as something else, too")
        if not can_be_fields([name]):
            raise Unsupported("a member's name has a backslash, a quote or a control character")
        return self.members.setdefault(name, Shape())

    def elements(self) -> "Shape":
        """Read the elements of the list; returns the shape of each. Raises Unsupported."""
        if self.role is not None or self.members:
            raise Unsupported("a list is read as something else, too")
        self.element = self.element or Shape()
        return self.element

    def as_role(self, role: Role) -> None:
        """Read the value itself. Raises Unsupported."""
        if self.members or self.element is not None:
            raise Unsupported("an object or a list is read as a value, too")
        self.role = role if self.role is None else self.role.and_also(role)


def attribute_of(name: str) -> str:
    """Return the name of the attribute in which an instance has a member: the same for what is an
    identifier, else one made of its bytes."""
    return name if _AS_IT_IS.fullmatch(name) else f"x_{name.encode().hex()}"


def leaves(shape: Shape) -> Iterator[Shape]:
    """Yield all shapes without members and elements."""
    inner = [*shape.members.values(), *([shape.element] if shape.element else [])]
    for one in inner:
        yield from leaves(one)
    if not inner:
        yield shape
