"""What of a record a source reads, as a tree of the paths of its expressions. Pure.

Three parts are kept apart, so that the same mapping can read records of another codec:

1. `shapes` (this module): which members are read, and as what (`Role`).
2. A reader that makes instances of a shape from bytes: that of JSON stands below.
3. `getters`, `lists`, `impressions`, `feedback`, `compiled`: functions over instances.
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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import attrgetter, or_
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta, Raw

from ..events import SURELY_SHORT, can_be_fields
from ..schemas import Typed
from .expressions import Node

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


Read: TypeAlias = Callable[[Any], Any]
Attributes: TypeAlias = Callable[[str], Read]
"""Makes the function that reads a dotted path of attributes: `fast` or `safe`."""
Scope: TypeAlias = Shape | tuple[Shape, ...]
"""What an expression is relative to: an object, or an array of values of known shapes, as `zip`
makes it."""

# There are two ways through an instance. The fast one fails with an AttributeError where an object
# on the way is null; the safe one gives null there, as JMESPath does.

fast: Attributes = attrgetter


def safe(path: str) -> Read:
    """Return the function that reads a dotted path, and gives None behind a None."""
    names = path.split(".")

    def read(instance: Any) -> Any:
        for name in names:
            if instance is None:
                return None
            instance = getattr(instance, name)
        return instance

    return read


def all_of(attributes: Attributes, paths: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that reads several paths at once."""
    if attributes is fast and len(paths) > 1:
        return attrgetter(*paths)
    reads = [attributes(path) for path in paths]
    if len(paths) == 1:
        only = reads[0]
        return lambda instance: (only(instance),)
    return lambda instance: tuple([read(instance) for read in reads])


def steps_of(node: Node) -> list[str | int] | None:
    """Return the members and indices that a path consists of; None for another expression."""
    if node["type"] in ("identity", "current"):
        return []
    if node["type"] in ("field", "index"):
        return [node["value"]]
    if node["type"] not in ("subexpression", "index_expression"):
        return None
    steps = list[str | int]()
    for child in node["children"]:
        inner = steps_of(child)
        if inner is None:
            return None
        steps += inner
    return steps


def dotted(steps: Sequence[str | int], scope: Scope) -> tuple[str, Shape] | None:
    """Return the path of attributes of some members, and the shape there; None where there is an
    index, or no member. Raises Unsupported."""
    if not steps or isinstance(scope, tuple) or any(isinstance(step, int) for step in steps):
        return None
    for step in steps:
        scope = scope.member(str(step))
    return ".".join(attribute_of(str(step)) for step in steps), scope


def at_path(steps: Sequence[str | int], scope: Scope, attributes: Attributes) -> tuple[Read, Shape]:
    """Return the function that reads a path, and the shape of what it reads. Raises
    Unsupported."""
    if isinstance(scope, tuple):
        if not steps or not isinstance(steps[0], int) or not 0 <= steps[0] < len(scope):
            raise Unsupported("an element of zip() is read by [0], [1], …")
        return _then(_nth(steps[0]), steps[1:], scope[steps[0]], attributes)
    if not steps:
        return _itself, scope
    names = next((n for n, step in enumerate(steps) if isinstance(step, int)), len(steps))
    found = dotted(steps[:names], scope)
    read, shape = (_itself, scope) if found is None else (attributes(found[0]), found[1])
    if names == len(steps):
        return read, shape
    index = int(steps[names])
    return _then(_indexed(read, index), steps[names + 1 :], shape.elements(), attributes)


def leaf(steps: Sequence[str | int], scope: Scope, attributes: Attributes, role: Role) -> Read:
    """Return the function that reads the value at a path, in a role. Raises Unsupported."""
    read, shape = at_path(steps, scope, attributes)
    shape.as_role(role)
    return read


def _then(
    read: Read, steps: Sequence[str | int], shape: Shape, attributes: Attributes
) -> tuple[Read, Shape]:
    if not steps:
        return read, shape
    rest, last = at_path(steps, shape, attributes)

    def read_rest(instance: Any) -> Any:
        inner = read(instance)
        return None if inner is None else rest(inner)

    return read_rest, last


def _itself(instance: Any) -> Any:
    return instance


def _nth(index: int) -> Read:
    return lambda values: values[index]


def _indexed(read: Read, index: int) -> Read:
    def read_one(instance: Any) -> Any:
        values = read(instance)
        if values is None or not -len(values) <= index < len(values):
            return None
        return values[index]

    return read_one


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
        return _codec_scalar(shape.role)
    members = {name: typed_of(member, events) for name, member in shape.members.items()}
    fields: list[Any] = [
        (attribute_of(name), Any, msgspec.field(default=member.absent))
        for name, member in members.items()
    ]
    make = msgspec.defstruct("Read", fields, gc=False, frozen=True)
    return Typed(members=members, make=make, absent=make())


def _is_flat(shape: Shape) -> bool:
    return not shape.members and shape.element is None and shape.role not in (RAW_IDS, ANYTHING)


def _codec_scalar(role: Role) -> Typed:
    if role == ANYTHING:
        return Typed(is_any=True)
    if role == RAW_IDS:
        return Typed(element=_codec_scalar(ID))
    return Typed(kinds=role.types, longest=role.longest)


MOST_LISTED: Final = 1000
"""Longest list that is read: work is bounded. A record with a longer one is read carefully."""
ABSENT: Final = Raw(b"null")
_INTEGER: Final = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


def decoder_of(shape: Shape, or_list_of: Shape | None = None) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a shape; with `or_list_of`, also of a list of such objects or nulls.

    It makes one msgspec type per object. Members that no expression reads are skipped: only their
    syntax is checked. An absent object reads as one shared instance without values, so that paths
    through it give None without any test.
    """
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
