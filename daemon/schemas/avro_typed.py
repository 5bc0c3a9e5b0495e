"""Writes the source of a reader of Avro that makes instances, as `typed` wants them. Pure."""

from typing import Final

from .avro_source import NOTHING, AvroSource, Wanted
from .avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union
from .members import EVERYTHING
from .typed import MOST_LISTED, Typed

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
        elif isinstance(type_, Union) or _is_null(type_):
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
        super()._value(type_, None, into, depth)
        if is_decimal:
            self._line(f"{into} = {self._constant(wanted.fit)}({into})")
        elif kind is str and wanted.longest is not None:
            self._line(f"if len({into}) > {wanted.longest}: raise Unfit")

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
        super()._many(type_, wanted, into, depth)
        if into is None or not isinstance(wanted, Typed):
            return
        if isinstance(type_, Array):
            self._line(f"if len({into}) > {MOST_LISTED}: raise Unfit")
            return
        members = {name: f"{into}.get({name!r})" for name in wanted.members}
        self._line(f"{into} = {self._made(wanted, members)}")


def _is_null(type_: AvroType) -> bool:
    return isinstance(type_, Primitive) and type_.kind == "null"
