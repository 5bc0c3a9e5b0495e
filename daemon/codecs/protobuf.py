"""Reads bodies of Protobuf by upb, the library's own parser in C. Pure.

Members have the names of the .proto file. Enums are their names; a number without a name stays a
number. A scalar that is absent and has no presence reads as its zero, but an empty text as null; a
member with presence reads as null. A Timestamp is ISO 8601, a wrapper its value, a map an object.
"""

import keyword
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from ..events import NOT_MAPPED, InvalidField
from ..schemas import (
    MOST_LISTED,
    PROTOBUF,
    InstanceReader,
    MemberColumns,
    Members,
    Message,
    SchemaText,
    Typed,
    Unfit,
    UnreadableSchema,
    members_key,
)
from .protobuf_values import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    ENUM,
    FLOAT,
    MESSAGES,
    STRING,
    Converter,
    Pool,
    converter,
    is_map,
    pool_of,
    pool_of_set,
)
from .values import MOST_VALUES, TooManyValues, bytes_text, finite, library

_WIDE: Final = (4, 6)
"""Integers of 64 bits without a sign."""
_OWN_VALUES: Final = "google.protobuf."


class MessageSource:
    """Writes the source of a function from messages to instances, as `Typed` wants them.

    Kinds of fields are known, so that what cannot fit raises Unfit where it is met. `m` is a
    message.
    """

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
                self._field(fields[member], below) if member in fields else self._absent(below)
                for member, below in wanted.members.items()
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
            if wanted.attributes and field.type in MESSAGES:
                return self._columns(field, wanted, value)
            read = self._single(field, wanted.element, "x")
            listed = self._constant(_listed)
            return f"[{read} for x in {listed}({value})]"
        single = wanted.element if wanted.element is not None and wanted.or_one else wanted
        read = self._single(field, single, value)
        if field.has_presence and not field.has_default_value:
            return f"({read} if {of}.HasField({field.name!r}) else {self._absent(wanted)})"
        if field.type in (STRING, BYTES):
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
        columns_of = self._constant(MemberColumns)
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
        is_text = field.type == STRING and not field.is_repeated and not field.has_presence
        if not is_text or str not in wanted.kinds or keyword.iskeyword(field.name):
            return f"[{self._field(field, wanted, 'x')} for x in s]"
        # Texts without presence: an empty one is none. How long they are costs as much as reading
        # a tenth of the record: who reads a whole column looks at it (`Columns`).
        nulls = self._constant(_with_nulls)
        return f"(t if '' not in (t := [x.{field.name} for x in s]) else {nulls}(t))"

    def _single(self, field: Any, wanted: Typed, value: str) -> str:
        """The expression that reads one value of a field."""
        if field.type in MESSAGES:
            if field.message_type.full_name.startswith(_OWN_VALUES):
                convert = converter(field.message_type, None)
                own = self._constant(lambda message: wanted.fit(convert(message, [MOST_VALUES])))
                return f"{own}({value})"
            if wanted.make is None:
                return self._unfit()
            return f"{self._message(field.message_type, wanted)}({value})"
        if field.type == ENUM:
            names = {symbol.number: symbol.name for symbol in reversed(field.enum_type.values)}
            return f"{self._constant(_Names(names, wanted))}[{value}]"
        kind = {DOUBLE: float, FLOAT: float, BOOLEAN: bool, STRING: str, BYTES: str}
        if kind.get(field.type, int) not in wanted.kinds:
            return self._unfit()
        if field.type in (DOUBLE, FLOAT):
            return f"finite({value})"
        if field.type == STRING and wanted.longest is not None:
            return f"(t if len(t := {value}) <= {wanted.longest} else {self._unfit()})"
        if field.type == BYTES or field.type in _WIDE:
            return f"{self._constant(_raw(wanted))}({value})"
        return value

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


def _listed(elements: Any) -> Any:
    if len(elements) > MOST_LISTED:
        raise Unfit
    return elements


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


class ProtobufSchema:
    """The messages of one schema."""

    codec: Final = PROTOBUF

    def __init__(self, pool: Pool, main: Any, declared: str | None = None) -> None:
        """`main`: the file whose messages frames count; `declared`: the full name of the one
        message that is read."""
        self._pool, self._main, self._declared = pool, main, declared
        self._converters: dict[Hashable, Converter] = {}
        # What frames may name is without bound.
        self._meant = lru_cache(maxsize=256)(self._meant_by)

    def message_name(self, message: Message | None) -> str:
        """Return the full name of the message that a frame names. Raises InvalidField:
        bad_framing, or not_mapped for another message than the one that is declared."""
        if self._declared is not None:
            return self._declared_name(message, self._declared)
        # Where nothing names one: a schema of a single message needs no name.
        name = _full_name(self._main, (0,) if message is None else message, self._pool)
        if name is None:
            raise _not_there(message)
        return name

    def _declared_name(self, message: Message | None, declared: str) -> str:
        """The name of the message that is declared, if that is what a frame means."""
        if message is None or message in (declared, declared.rpartition(".")[2]):
            return declared
        names = self._meant(message)
        if not names:
            raise _not_there(message)
        if declared not in names:
            detail = f"record: is of {names[0]}, where message = {declared}"
            raise InvalidField(NOT_MAPPED, detail)
        return declared

    def _meant_by(self, message: Message) -> Sequence[str]:
        """The full names that a frame may mean; none where the schema has no such message."""
        ways = (_full_name(self._main, message, self._pool, entries) for entries in (True, False))
        return [name for name in ways if name is not None]

    def names(self, message: Message | None) -> Callable[[bytes], str]:
        """The same for all bodies of a frame."""
        name = self.message_name(message)
        return lambda body: name

    def reader(self, message: Message | None, members: Members) -> Callable[[bytes], object]:
        """Return what reads these members of a body. Raises InvalidField: bad_framing."""
        name = self.message_name(message)
        parse = self.parser(name)
        key = name, members_key(members)
        convert = self._converters.get(key)
        if convert is None:
            descriptor = self._pool.descriptor(name)
            convert = self._converters[key] = converter(descriptor, members)
        return lambda body: _body_value(parse, convert, body)

    def instances(
        self, message: Message | None, typed: Typed, listed: Typed | None
    ) -> InstanceReader:
        """Return what reads bodies into instances."""
        name = self.message_name(message)
        parse, error = self.parser(name), library(PROTOBUF, "message").DecodeError
        make = MessageSource().compiled(self._pool.descriptor(name), typed)

        def several(records: Sequence[bytes], first: int) -> list[Any]:
            bodies = map(itemgetter(slice(first, None)), records) if first else records
            try:
                # One after the other: a message is freed while its memory is still in cache.
                return list(map(make, map(parse, bodies)))
            except error:
                raise Unfit from None

        return InstanceReader(lambda record, first: several((record,), first)[0], several)

    def parser(self, name: str) -> Callable[[bytes], Any]:
        """Return the library's parser of a message. It raises DecodeError. Raises InvalidField:
        unknown_schema."""
        class_of = library(PROTOBUF, "message_factory").GetMessageClass
        descriptor = self._pool.descriptor(name)
        with suppress(RecursionError):
            # Makes this class, and then those of all messages that it leads to, one inside the
            # other. What the stack has no room for is made later, when it is met.
            class_of(descriptor)
        try:
            parse: Callable[[bytes], Any] = class_of(descriptor).FromString
        except RecursionError:
            detail = f"record: its schema nests messages too deep below {name}"
            raise InvalidField("unknown_schema", detail) from None
        return parse


def protobuf_schema(text: SchemaText) -> ProtobufSchema:
    """Return the schema of a registry's answer. Raises UnreadableSchema."""
    pool, main = pool_of(text)
    if not main.message_type:
        raise UnreadableSchema("declares no message")
    return ProtobufSchema(pool, main)


def protobuf_file(data: bytes, message: str) -> ProtobufSchema:
    """Return one message of a serialized FileDescriptorSet. Raises UnreadableSchema; its text lists
    the messages where it has not this one."""
    pool = pool_of_set(data)
    names = pool.names()
    if message not in names:
        listed = ", ".join(names[:20]) + ("…" if len(names) > 20 else "")
        raise UnreadableSchema(f"has no message {message}: must be one of {listed}")
    return ProtobufSchema(pool, pool.file_of(message), message)


def _not_there(message: Message | None) -> InvalidField:
    shown = list(message) if isinstance(message, tuple) else message
    return InvalidField("bad_framing", f"record: message {shown} is not in its schema")


def _full_name(main: Any, message: Message, pool: Pool, entries: bool = True) -> str | None:
    """What a frame means by a message of its schema's file. `entries`: whether indexes count those
    of maps: protoc has them between the messages inside one, Confluent after them all."""
    if isinstance(message, int):
        names = sorted(pool.names(main.name))
        return names[message] if message < len(names) else None
    parts = [main.package] if main.package else []
    if isinstance(message, str):
        if message not in (declared.name for declared in main.message_type):
            return None
        return ".".join((*parts, message))
    inside = main.message_type
    for index in message:
        counted = [one for one in inside if entries or not one.options.map_entry]
        if index >= len(counted):
            return None
        parts.append(counted[index].name)
        inside = counted[index].nested_type
    return ".".join(parts)


def _body_value(parse: Callable[[bytes], Any], convert: Converter, body: bytes) -> object:
    try:
        message = parse(body)
    except library(PROTOBUF, "message").DecodeError:
        raise InvalidField("bad_payload", "record: is no message of its schema") from None
    try:
        return convert(message, [MOST_VALUES + len(body)])
    except TooManyValues as error:
        raise InvalidField("too_many", f"record: {error}") from None
