"""Writes the source of a function from messages of Protobuf to instances, as `typed` wants them.
Pure.

Kinds of fields are known, so that what cannot fit raises Unfit where it is met. `m` is a message.
"""

import keyword
from collections.abc import Callable, Sequence
from typing import Any, Final

from .protobuf_values import MOST_VALUES, converter, is_map
from .typed import MOST_LISTED, Columns, Typed, Unfit
from .values import bytes_text, finite

_DOUBLE, _FLOAT, _BOOL, _STRING, _BYTES, _ENUM = 1, 2, 8, 9, 12, 14
_MESSAGES: Final = (10, 11)
_WIDE: Final = (4, 6)
"""Integers of 64 bits without a sign."""
_OWN_VALUES: Final = "google.protobuf."


class MessageSource:
    """The functions of one message, and what they find by name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"Unfit": Unfit, "finite": finite}
        self._lines: list[str] = []
        self._functions: dict[tuple[str, int], str] = {}

    def compiled(self, descriptor: Any, wanted: Typed) -> Callable[[Any], Any]:
        """Return the function that makes an instance of a message."""
        main = self._message(descriptor, wanted)
        # The source is our own, and has nothing of a schema but quoted texts and names of fields.
        code = compile("\n".join(self._lines), "<reader of a Protobuf message>", "exec")
        exec(code, self.names)  # noqa: S102
        found: Callable[[Any], Any] = self.names[main]
        return found

    def _message(self, descriptor: Any, wanted: Typed) -> str:
        """The name of the function for one message."""
        key = descriptor.full_name, id(wanted)
        name = self._functions.get(key)
        if name is None:
            name = self._functions[key] = f"f{len(self._functions)}"
            fields = {field.name: field for field in descriptor.fields}
            values = [
                self._field(fields[one], below) if one in fields else self._absent(below)
                for one, below in wanted.members.items()
            ]
            body = f" return {self._constant(wanted.make)}({', '.join(values)})"
            self._lines += [f"def {name}(m):", body if wanted.make else " raise Unfit"]
        return name

    def _absent(self, wanted: Typed) -> str:
        return "None" if wanted.absent is None else self._constant(wanted.absent)

    def _field(self, field: Any, wanted: Typed, of: str = "m") -> str:
        """The expression that reads a field of a message."""
        if wanted.is_any or is_map(field):
            return self._as_json(field, wanted, of)
        value = f"{of}.{field.name}"
        if keyword.iskeyword(field.name):
            value = f"getattr({of}, {field.name!r})"
        if field.is_repeated:
            if wanted.element is None:
                return self._unfit()
            if wanted.attributes and field.type in _MESSAGES:
                return self._columns(field, wanted, value)
            read = self._one(field, wanted.element, "x")
            listed = self._constant(_listed)
            return f"[{read} for x in {listed}({value})]"
        single = wanted.element if wanted.element is not None and wanted.or_one else wanted
        read = self._one(field, single, value)
        if field.has_presence and not field.has_default_value:
            return f"({read} if {of}.HasField({field.name!r}) else {self._absent(wanted)})"
        if field.type in (_STRING, _BYTES):
            return f"({read} or None)"
        return read

    def _columns(self, field: Any, wanted: Typed, value: str) -> str:
        """The expression that reads a list of messages attribute by attribute."""
        descriptor, element = field.message_type, wanted.element
        fields = {one.name: one for one in descriptor.fields}
        if element is None or not any(one in fields for one in element.members):
            return self._unfit()
        name = f"g{len(self.names)}"
        self.names[name] = None
        columns = []
        for attribute, (one, below) in zip(wanted.attributes, element.members.items(), strict=True):
            columns.append(f"{attribute!r}: {self._column(fields.get(one), below)}")
        columns_of = self._constant(Columns)
        make = self._constant(_made_of_short(element, wanted.attributes))
        self._lines += [
            f"def {name}(s):",
            f" if len(s) > {MOST_LISTED}: raise Unfit",
            " s = s[:]",  # makes the messages of a list faster than an iteration does
            f" return {columns_of}({{{', '.join(columns)}}}, {make})",
        ]
        return f"{name}({value})"

    def _column(self, field: Any, wanted: Typed) -> str:
        """The expression that reads a field of all messages of a list."""
        if field is None:
            return "[None] * len(s)"
        is_text = field.type == _STRING and not field.is_repeated and not field.has_presence
        if not is_text or str not in wanted.kinds or keyword.iskeyword(field.name):
            return f"[{self._field(field, wanted, 'x')} for x in s]"
        # Texts without presence: an empty one is none. How long they are costs as much as reading
        # a tenth of the record: who reads a whole column looks at it (`Columns`).
        nulls = self._constant(_with_nulls)
        return f"(t if '' not in (t := [x.{field.name} for x in s]) else {nulls}(t))"

    def _one(self, field: Any, wanted: Typed, value: str) -> str:
        """The expression that reads one value of a field."""
        if field.type in _MESSAGES:
            if field.message_type.full_name.startswith(_OWN_VALUES):
                convert = converter(field.message_type, None)
                own = self._constant(lambda message: wanted.fit(convert(message, [MOST_VALUES])))
                return f"{own}({value})"
            if wanted.make is None:
                return self._unfit()
            return f"{self._message(field.message_type, wanted)}({value})"
        if field.type == _ENUM:
            names = {one.number: one.name for one in reversed(field.enum_type.values)}
            return f"{self._constant(_Names(names, wanted))}[{value}]"
        kind = {_DOUBLE: float, _FLOAT: float, _BOOL: bool, _STRING: str, _BYTES: str}
        if kind.get(field.type, int) not in wanted.kinds:
            return self._unfit()
        if field.type in (_DOUBLE, _FLOAT):
            return f"finite({value})"
        if field.type == _STRING:
            return self._text(wanted, value)
        if field.type == _BYTES or field.type in _WIDE:
            return f"{self._constant(_raw(wanted))}({value})"
        return value

    def _text(self, wanted: Typed, value: str) -> str:
        if wanted.longest is None:
            return value
        return f"(t if len(t := {value}) <= {wanted.longest} else {self._unfit()})"

    def _as_json(self, field: Any, wanted: Typed, of: str) -> str:
        """A field as JSON would give it, or the members of a map."""
        convert = converter(field.containing_type, {field.name: None})

        def whole(message: Any) -> Any:
            return convert(message, [MOST_VALUES])[field.name]

        def chosen(message: Any) -> Any:
            found, make = whole(message), wanted.make
            if make is None:
                raise Unfit
            return make(*(one.fit(found.get(name)) for name, one in wanted.members.items()))

        return f"{self._constant(whole if wanted.is_any else chosen)}({of})"

    def _unfit(self) -> str:
        return f"{self._constant(_raise_unfit)}()"

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name


class _Names(dict[int, Any]):
    """The names of an enum's numbers that fit."""

    def __init__(self, names: dict[int, str], wanted: Typed) -> None:
        fit = str in wanted.kinds
        short = wanted.longest is None or max(map(len, names.values()), default=0) <= wanted.longest
        super().__init__(names if fit and short else {})
        self._names, self._fit = names, wanted.fit

    def __missing__(self, number: int) -> Any:
        return self._fit(self._names.get(number, number))


def _raw(wanted: Typed) -> Callable[[Any], Any]:
    """What reads bytes as text, or a number that may be too large."""
    return lambda value: wanted.fit(bytes_text(value) if isinstance(value, bytes) else value)


def _listed(found: Any) -> Any:
    if len(found) > MOST_LISTED:
        raise Unfit
    return found


def _made_of_short(element: Typed, attributes: Sequence[str]) -> Callable[..., Any] | None:
    """What makes one element of a list, which raises Unfit for a text that is too long."""
    members = zip(attributes, element.members.values(), strict=True)
    longest = {name: below.longest for name, below in members if below.longest is not None}
    make = element.make
    if make is None or not longest:
        return make

    def made(**values: Any) -> Any:
        for name, most in longest.items():
            if type(values[name]) is str and len(values[name]) > most:
                raise Unfit
        return make(**values)

    return made


def _with_nulls(texts: list[str]) -> list[str | None]:
    return [text or None for text in texts]


def _raise_unfit() -> Any:
    raise Unfit
