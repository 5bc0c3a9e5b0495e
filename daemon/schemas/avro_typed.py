"""Writes the source of a reader of Avro that makes instances, as `typed` wants them. Pure."""

from typing import Final

from .avro_source import INLINED_DEPTH, NOTHING, ONE_BYTE, AvroSource, Wanted, is_null
from .avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from .members import EVERYTHING
from .typed import MOST_LISTED, Columns, Typed

_KINDS: Final[dict[str, type]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
}


class TypedSource(AvroSource):
    """The same source, for what is wanted of a value. What does not fit raises Unfit."""

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
        elif isinstance(type_, Record | Array | Map):
            self._parts(type_, wanted, into, depth)
        else:
            self._scalar(type_, wanted, into, depth)

    def _parts(self, type_: Record | Array | Map, wanted: Typed, into: str, depth: int) -> None:
        fits = wanted.element is not None if isinstance(type_, Array) else wanted.make is not None
        # An element without bytes takes more steps than the body has bytes.
        if not fits or isinstance(type_, Array) and not self._weights.of(type_.items)[0]:
            self._line("raise Unfit")
        elif isinstance(type_, Record):
            self._record(type_, wanted, into, depth)
        else:
            self._many(type_, wanted, into, depth)

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

    def _element_of(self, type_: Array | Map, wanted: Wanted) -> Wanted:
        if isinstance(wanted, Typed) and isinstance(type_, Array):
            assert wanted.element is not None
            return wanted.element
        return super()._element_of(type_, wanted)

    def _record_body(self, type_: Record, wanted: Wanted, into: str | None, depth: int) -> None:
        if into is None or not isinstance(wanted, Typed):
            super()._record_body(type_, wanted, into, depth)
            return
        variables: dict[str, str] = {}
        for name, inner in type_.fields:
            below = wanted.members.get(name)
            if below is not None:
                variables[name] = self._name("v")
                self._value(inner, below, variables[name], depth)
                self._or_absent(inner, below, variables[name])
            else:
                self._value(inner, NOTHING, None, depth)
        self._line(f"{into} = {self._made(wanted, variables)}")

    def _or_absent(self, type_: AvroType, wanted: Typed, variable: str) -> None:
        if wanted.absent is not None and isinstance(type_, Union):
            self._line(f"if {variable} is None: {variable} = {self._constant(wanted.absent)}")

    def _made(self, wanted: Typed, variables: dict[str, str]) -> str:
        values = [
            variables.get(name) or (self._constant(below.absent) if below.absent else "None")
            for name, below in wanted.members.items()
        ]
        return f"{self._constant(wanted.make)}({', '.join(values)})"

    def _many(self, type_: Array | Map, wanted: Wanted, into: str | None, depth: int) -> None:
        if into is None or not isinstance(wanted, Typed):
            super()._many(type_, wanted, into, depth)
            return
        if isinstance(type_, Array) and self._columns(type_.items, wanted, into, depth):
            return
        super()._many(type_, wanted, into, depth)
        if isinstance(type_, Array):
            self._line(f"if len({into}) > {MOST_LISTED}: raise Unfit")
            return
        members = {name: f"{into}.get({name!r})" for name in wanted.members}
        self._line(f"{into} = {self._made(wanted, members)}")

    def _columns(self, inner: AvroType, wanted: Typed, into: str, depth: int) -> bool:
        """Write what reads a list of records attribute by attribute; returns whether it can be."""
        element = wanted.element
        if element is None or not wanted.attributes or not isinstance(inner, Record):
            return False
        if inner in self._cyclic or depth >= INLINED_DEPTH:
            return False
        lists = {name: self._name("a") for name, _ in inner.fields if name in element.members}
        if not lists:
            return False
        self._line("; ".join(f"{one} = []" for one in lists.values()))
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
        self.constants["Columns"] = Columns
        self._line(f"{into} = Columns({{{pairs}}}, {self._constant(element.make)})")
        return True
