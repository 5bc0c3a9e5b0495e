"""How few bytes a type has, and how many values that its bytes do not pay for. Pure.

Each byte of a body pays for one value. What a type has beyond that, such as nulls without a byte,
is bounded before it is read: so a body of n bytes has at most n + MOST_VALUES values.
"""

from .avro_types import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union

_BYTES = {"null": 0, "float": 4, "double": 8}


class Weights:
    """Of the types of one schema. A record inside itself weighs nothing here: it is counted where
    it is read."""

    def __init__(self) -> None:
        self._records: dict[Record, tuple[int, int]] = {}

    def of(self, type_: AvroType) -> tuple[int, int]:
        """Return the least bytes of a value, and the most values that it has beyond one for each of
        its bytes, without the elements of arrays and maps."""
        if isinstance(type_, Primitive):
            least = _BYTES.get(type_.kind, 1)
            return least, 1 - least
        if isinstance(type_, Fixed):
            return type_.size, 1 - type_.size
        if isinstance(type_, Union):
            branches = [self.of(branch) for branch in type_.branches] or [(0, 0)]
            return 1 + min(least for least, _ in branches), max(most for _, most in branches) - 1
        if isinstance(type_, Record):
            return self._record(type_)
        assert isinstance(type_, Enum | Array | Map)
        return 1, 0

    def _record(self, record: Record) -> tuple[int, int]:
        known = self._records.get(record)
        if known is None:
            self._records[record] = 0, 0
            members = [self.of(type_) for _, type_ in record.fields]
            known = sum(least for least, _ in members), 1 + sum(most for _, most in members)
            self._records[record] = known
        return known


def repeated(top: AvroType) -> tuple[set[Record], set[Record]]:
    """Return the records that stand more than once in a schema, and those that lead back to
    themselves."""
    seen, twice, cyclic = set[Record](), set[Record](), set[Record]()
    path: list[Record] = []

    def visit(type_: AvroType) -> None:
        if isinstance(type_, Record):
            if type_ in path:
                cyclic.add(type_)
            if type_ in seen:
                twice.add(type_)
                return
            seen.add(type_)
            path.append(type_)
            for _, inner in type_.fields:
                visit(inner)
            path.pop()
        for inner in inner_types(type_):
            visit(inner)

    visit(top)
    return twice, cyclic


def inner_types(type_: AvroType) -> tuple[AvroType, ...]:
    """Return what a union, an array or a map is made of."""
    if isinstance(type_, Union):
        return type_.branches
    if isinstance(type_, Array):
        return (type_.items,)
    return (type_.values,) if isinstance(type_, Map) else ()
