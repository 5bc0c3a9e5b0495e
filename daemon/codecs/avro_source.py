"""Writes the source of a function that reads the bodies of one Avro schema. Pure.

It returns the members that are asked for, and steps over all others where they stand. It checks
what moves it: a body that ends inside a value raises IndexError, or ends elsewhere than it should.
`b` is the body, `i` the next byte, `d` the depth of records in themselves, `q` what is left of the
values that a body may have. Names of schemas stand in it as quoted texts only.
"""

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from ..schemas import EVERYTHING, MOST_LISTED, UNREAD, MemberColumns, Members, Typed, members_key
from .avro_types import (
    Array,
    AvroRecord,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Union,
    Weights,
    repeated_records,
)

Wanted: TypeAlias = Members | Typed
"""What is read of a value: members of it, or an instance."""

MAIN: Final = "read"
INLINED_DEPTH: Final = 5
"""Python takes 20 loops and 100 indents inside one another."""
ONE_BYTE: Final = 64
NOTHING: Final[Members] = {}


class AvroSource:
    """The source of the reader of one schema, and the constants that it finds by name."""

    def __init__(self, top: AvroType) -> None:
        self.constants: dict[str, Any] = {}
        self._weights = Weights()
        self._several, self._cyclic = repeated_records(top)
        self._functions: dict[Hashable, str] = {}
        self._waiting: list[tuple[str, AvroType, Wanted, bool]] = []
        self._lines: list[str] = []
        self._indent = 0
        self._names = 0
        self._top = top

    def text(self, wanted: Wanted) -> str:
        """Return the source of `read(b, q)`, which returns the value and where it ends."""
        self._function(MAIN, self._top, wanted, True)
        while self._waiting:
            self._function(*self._waiting.pop())
        return "\n".join(self._lines)

    def _function(self, name: str, type_: AvroType, wanted: Wanted, is_read: bool) -> None:
        self._line(f"def {name}(b, i, d, q):")
        with self._inside():
            if type_ in self._cyclic:
                self._line(f"d = deeper(d, {max(1, self._weights.of(type_)[1])}, q)")
            if isinstance(type_, AvroRecord):
                self._record_body(type_, wanted, "v" if is_read else None, 1)
            else:
                self._value(type_, wanted, "v" if is_read else None, 1)
            self._line("return v, i" if is_read else "return i")

    def _value(self, type_: AvroType, wanted: Wanted, into: str | None, depth: int) -> None:
        """Read a value into a variable, or step over it."""
        if isinstance(type_, Primitive):
            self._primitive(type_, into)
        elif isinstance(type_, Fixed) and type_.is_uuid and into:
            self._line(f"{into} = uuid_text(b[i:i + 16]); i += 16")
        elif isinstance(type_, Fixed):
            self._bytes(f"i + {type_.size}", False, type_.scale, into)
        elif isinstance(type_, Enum):
            self._size()
            self._line(f"{into} = {self._constant(type_.symbols)}[n >> 1]" if into else "pass")
        elif isinstance(type_, Union):
            self._union(type_, wanted, into, depth)
        elif isinstance(type_, AvroRecord):
            self._record(type_, wanted, into, depth)
        else:
            self._array_or_map(type_, wanted, into, depth)

    # --- scalars

    def _size(self) -> None:
        """Read a length or an index into `n`, which is twice that number."""
        self._line("n = b[i]; i += 1")
        self._line("if n & 129: n, i = size(b, i - 1)")

    def _primitive(self, type_: Primitive, into: str | None) -> None:
        kind = type_.kind
        if kind == "null":
            self._line(f"{into} = None" if into else "pass")
        elif kind == "boolean":
            self._line(f"{into} = BOOLEANS[b[i]]; i += 1" if into else "i += 1")
        elif kind in ("int", "long"):
            self._line("n = b[i]; i += 1")
            self._line(f"if n > 127: {into or 'n'}, i = long(b, i - 1)")
            if into:
                self._line(f"else: {into} = n >> 1 ^ -(n & 1)")
        elif kind in ("float", "double"):
            width = 4 if kind == "float" else 8
            self._line((f"{into} = float{width}(b, i); " if into else "") + f"i += {width}")
        elif into:
            self._size()
            self._bytes("i + (n >> 1)", kind == "string", type_.scale, into)
        else:
            self._line("n = b[i]")
            self._line("if n & 129: n, i = size(b, i); i += n >> 1")
            self._line("else: i += (n >> 1) + 1")

    def _bytes(self, end: str, is_text: bool, scale: int | None, into: str | None) -> None:
        if not into:
            self._line(f"i = {end}")
            return
        self._line(f"j = {end}")
        # What a cut body has fewer is noticed at its end.
        if is_text:
            self._line(f"{into} = b[i:j].decode(); i = j")
        elif scale is None:
            self._line(f"{into} = bytes_text(b[i:j]); i = j")
        else:
            self._line(f"{into} = decimal_number(b[i:j], {scale}); i = j")

    # --- what has parts

    def _union(self, type_: Union, wanted: Wanted, into: str | None, depth: int) -> None:
        # No writer writes an index below 64 in two bytes: that is refused as one of no branch.
        self._line("n = b[i]; i += 1")
        if len(type_.branches) > ONE_BYTE:
            self._line("if n & 129: n, i = size(b, i - 1)")
        # The value first, null last: what is there is mostly what was wanted of it.
        branches = sorted(enumerate(type_.branches), key=lambda one: is_null(one[1]))
        for place, (index, branch) in enumerate(branches):
            self._line(f"{'elif' if place else 'if'} n == {2 * index}:")
            with self._inside():
                self._value(branch, wanted, into, depth + 1)
        self._line("else: raise bad_branch(n)" if type_.branches else "raise bad_branch(n)")

    def _record(self, type_: AvroRecord, wanted: Wanted, into: str | None, depth: int) -> None:
        if type_ not in self._several and type_ not in self._cyclic and depth < INLINED_DEPTH:
            self._record_body(type_, wanted, into, depth)
        else:
            self._call(type_, wanted, into)

    def _call(self, type_: AvroType, wanted: Wanted, into: str | None) -> None:
        same_wanted = id(wanted) if isinstance(wanted, Typed) else members_key(wanted)
        key = type_, same_wanted, into is not None
        name = self._functions.get(key)
        if name is None:
            name = self._functions[key] = self._name("f")
            self._waiting.append((name, type_, wanted, into is not None))
        self._line(f"{into}, i = {name}(b, i, d, q)" if into else f"i = {name}(b, i, d, q)")

    def _record_body(self, type_: AvroRecord, wanted: Wanted, into: str | None, depth: int) -> None:
        members = self._chosen(wanted)
        variables: dict[str, str] = {}
        for name, inner in type_.fields:
            is_read = into is not None and (members is None or name in members)
            if is_read:
                variables[name] = self._name("v")
            below = EVERYTHING if members is None else members.get(name, NOTHING)
            self._value(inner, below, variables[name] if is_read else None, depth)
        if type_.fields and not variables:
            variables[UNREAD] = "None"
        pairs = ", ".join(f"{name!r}: {variable}" for name, variable in variables.items())
        self._line(f"{into} = {{{pairs}}}" if into else "pass")

    def _array_or_map(
        self, type_: Array | Map, wanted: Wanted, into: str | None, depth: int
    ) -> None:
        if depth >= INLINED_DEPTH:
            self._call(type_, wanted, into)
            return
        inner = type_.items if isinstance(type_, Array) else type_.values
        below = wanted
        if isinstance(type_, Array) and isinstance(wanted, Typed):
            assert wanted.element is not None
            below = wanted.element
        least, weight = self._weights.of(inner)
        least += isinstance(type_, Map)
        element = self._name("v")
        if into:
            self._line(f"{into} = {'[]' if isinstance(type_, Array) else '{}'}")
        with self._blocks(least, weight):
            if isinstance(type_, Array):
                self._value(inner, below, element if into else None, depth + 1)
                self._line(f"{into}.append({element})" if into else "pass")
            else:
                self._entry(inner, wanted, element, into, depth)

    @contextmanager
    def _blocks(self, least_bytes: int, weight: int) -> Iterator[None]:
        """Read blocks of elements, the last of which is empty: inside, one element is read."""
        self._line("while True:")
        with self._inside():
            self._line(f"n, i = block(b, i, {least_bytes}, {max(0, weight)}, q)")
            self._line("if not n: break")
            self._line("for _ in range(n):")
            with self._inside():
                yield

    def _entry(
        self, inner: AvroType, wanted: Wanted, element: str, into: str | None, depth: int
    ) -> None:
        """Read one name of a map with its value."""
        key = self._name("k")
        self._value(Primitive("string"), None, key if into else None, depth)
        members = self._chosen(wanted)
        if into is None or members is None:
            below = EVERYTHING if members is None else NOTHING
            self._value(inner, below, element if into else None, depth + 1)
            self._line(f"{into}[{key}] = {element}" if into else "pass")
            return
        for index, (name, of_name) in enumerate(members.items()):
            self._line(f"{'elif' if index else 'if'} {key} == {name!r}:")
            with self._inside():
                self._value(inner, of_name, element, depth + 1)
                self._line(f"{into}[{key}] = {element}")
        self._line("else:" if members else "if True:")
        with self._inside():
            self._value(inner, NOTHING, None, depth + 1)
            self._line(f"if not {into}: {into}[{UNREAD!r}] = None")

    # --- what is wanted

    def _chosen(self, wanted: Wanted) -> Mapping[str, Wanted] | None:
        """The members that are read; None for all."""
        return wanted.members if isinstance(wanted, Typed) else wanted

    # --- lines

    def _line(self, text: str) -> None:
        if text != "pass":
            self._lines.append(" " * self._indent + text)
        elif self._lines[-1].endswith(":"):
            self._lines.append(" " * self._indent + text)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._indent += 1
        first = len(self._lines)
        yield
        if len(self._lines) == first:
            self._lines.append(" " * self._indent + "pass")
        self._indent -= 1

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _constant(self, value: Any) -> str:
        name = self._name("C")
        self.constants[name] = value
        return name


def is_null(type_: AvroType) -> bool:
    """Whether a type is null alone."""
    return isinstance(type_, Primitive) and type_.kind == "null"


_KINDS: Final[dict[str, type]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
}


class TypedSource(AvroSource):
    """The source of a reader that makes instances, as `Typed` wants them. What does not fit raises
    Unfit."""

    def _value(self, type_: AvroType, wanted: Wanted, into: str | None, depth: int) -> None:
        if into is None or not isinstance(wanted, Typed):
            super()._value(type_, wanted, into, depth)
        elif wanted.is_any:
            super()._value(type_, EVERYTHING, into, depth)
        elif isinstance(type_, Union) or is_null(type_):
            super()._value(type_, wanted, into, depth)
        elif wanted.element is not None and not isinstance(type_, Array):
            if wanted.or_one:
                self._value(type_, wanted.element, into, depth)
            else:
                self._line("raise Unfit")
        elif isinstance(type_, AvroRecord | Array | Map):
            self._parts(type_, wanted, into, depth)
        else:
            self._scalar(type_, wanted, into, depth)

    def _parts(self, type_: AvroRecord | Array | Map, wanted: Typed, into: str, depth: int) -> None:
        fits = wanted.element is not None if isinstance(type_, Array) else wanted.make is not None
        # An element without bytes takes more steps than the body has bytes.
        if not fits or isinstance(type_, Array) and not self._weights.of(type_.items)[0]:
            self._line("raise Unfit")
        elif isinstance(type_, AvroRecord):
            self._record(type_, wanted, into, depth)
        else:
            self._array_or_map(type_, wanted, into, depth)

    def _scalar(
        self, type_: Primitive | Fixed | Enum | Union, wanted: Typed, into: str, depth: int
    ) -> None:
        kind: type = str
        if isinstance(type_, Primitive):
            kind = _KINDS.get(type_.kind, str)
        is_decimal = not isinstance(type_, Enum | Union) and type_.scale is not None
        if kind not in wanted.kinds and not is_decimal:
            self._line("raise Unfit")
            return
        if isinstance(type_, Primitive) and type_.kind == "string" and wanted.longest is not None:
            self._short_text(wanted.longest, into)
            return
        super()._value(type_, None, into, depth)
        if is_decimal:
            self._line(f"{into} = {self._constant(wanted.fit)}({into})")
        elif kind is str and wanted.longest is not None:
            self._line(f"if len({into}) > {wanted.longest}: raise Unfit")

    def _short_text(self, longest: int, into: str) -> None:
        """A text of at most so many bytes; one whose length takes one byte has fewer."""
        assert longest >= ONE_BYTE
        self._line("n = b[i]; i += 1")
        self._line("if n & 129:")
        with self._inside():
            self._line("n, i = size(b, i - 1)")
            self._line(f"if n > {2 * longest}: raise Unfit")
        self._bytes("i + (n >> 1)", True, None, into)

    def _record_body(self, type_: AvroRecord, wanted: Wanted, into: str | None, depth: int) -> None:
        if into is None or not isinstance(wanted, Typed):
            super()._record_body(type_, wanted, into, depth)
            return
        variables: dict[str, str] = {}
        for name, inner in type_.fields:
            below = wanted.members.get(name)
            if below is not None:
                variables[name] = self._name("v")
                self._value(inner, below, variables[name], depth)
                if below.absent is not None and isinstance(inner, Union):
                    absent = self._constant(below.absent)
                    self._line(f"if {variables[name]} is None: {variables[name]} = {absent}")
            else:
                self._value(inner, NOTHING, None, depth)
        self._line(f"{into} = {self._made(wanted, variables)}")

    def _made(self, wanted: Typed, variables: dict[str, str]) -> str:
        values = [
            variables.get(name) or (self._constant(below.absent) if below.absent else "None")
            for name, below in wanted.members.items()
        ]
        return f"{self._constant(wanted.make)}({', '.join(values)})"

    def _array_or_map(
        self, type_: Array | Map, wanted: Wanted, into: str | None, depth: int
    ) -> None:
        if into is None or not isinstance(wanted, Typed):
            super()._array_or_map(type_, wanted, into, depth)
            return
        if isinstance(type_, Array) and self._columns(type_.items, wanted, into, depth):
            return
        super()._array_or_map(type_, wanted, into, depth)
        if isinstance(type_, Array):
            self._line(f"if len({into}) > {MOST_LISTED}: raise Unfit")
            return
        members = {name: f"{into}.get({name!r})" for name in wanted.members}
        self._line(f"{into} = {self._made(wanted, members)}")

    def _columns(self, inner: AvroType, wanted: Typed, into: str, depth: int) -> bool:
        """Read a list of records attribute by attribute; returns whether it can be."""
        element = wanted.element
        if element is None or not wanted.attributes or not isinstance(inner, AvroRecord):
            return False
        if inner in self._cyclic or depth >= INLINED_DEPTH:
            return False
        lists = {name: self._name("a") for name, _ in inner.fields if name in element.members}
        if not lists:
            return False
        self._line("; ".join(f"{variable} = []" for variable in lists.values()))
        least, weight = self._weights.of(inner)
        with self._blocks(least, weight):
            for name, type_ in inner.fields:
                variable = self._name("v") if name in lists else None
                below = element.members[name] if variable else NOTHING
                self._value(type_, below, variable, depth + 1)
                if variable:
                    self._line(f"{lists[name]}.append({variable})")
        count = f"len({next(iter(lists.values()))})"
        self._line(f"if {count} > {MOST_LISTED}: raise Unfit")
        pairs = ", ".join(
            f"{attribute!r}: {lists.get(name, f'[None] * {count}')}"
            for name, attribute in zip(element.members, wanted.attributes, strict=True)
        )
        self.constants["Columns"] = MemberColumns
        self._line(f"{into} = Columns({{{pairs}}}, {self._constant(element.make)})")
        return True
