"""What Protobuf schemas declare, and the values of their messages as JSON would give them. Pure."""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from ..schemas import PROTOBUF, UNREAD, Members, SchemaText, UnreadableSchema
from .values import MOST_VALUES, TooManyValues, bytes_text, finite, library

Converter: TypeAlias = Callable[[Any, list[int]], Any]
"""(what the library has read, [values that are left]) → the value."""

# The kinds of fields, as descriptors number them.
DOUBLE, FLOAT, INT32, BOOLEAN, STRING, BYTES, UINT32, ENUM = 1, 2, 5, 8, 9, 12, 13, 14
MESSAGES: Final = (10, 11)
_EXACT: Final = 2**53
"""Doubles below it are exact as integers."""
_FIRST: Final = datetime(1970, 1, 1)
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in "Double Float Int64 UInt64 Int32 UInt32 Bool String Bytes".split()
)


def converter(descriptor: Any, members: Members) -> Converter:
    """Return what makes an object of a message, with these members."""
    return _Converters().of_message(descriptor, members)


class _Converters:
    """Makes a tree of functions for one message and set of members. A message that is read whole is
    always read by the same function."""

    def __init__(self) -> None:
        self._whole: dict[str, Converter] = {}

    def of_message(self, descriptor: Any, members: Members) -> Converter:
        name = descriptor.full_name
        known = _KNOWN.get(name)
        if known is not None:
            return known
        if name in _WRAPPERS:
            inner = self._single(descriptor.fields_by_name["value"], None)
            return lambda message, left: inner(message.value, left)
        if members is not None:
            return self._object(descriptor, members)
        if name not in self._whole:

            def first(message: Any, left: list[int]) -> Any:
                # Made when one is met: hundreds of messages may lead from one to the next, and the
                # stack has no room for them all.
                whole = self._whole[name] = self._object(descriptor, None)
                return whole(message, left)

            self._whole[name] = first
        return lambda message, left: self._whole[name](message, left)

    def _object(self, descriptor: Any, members: Members) -> Converter:
        fields = [
            (field.name, self._field(field, None if members is None else members[field.name]))
            for field in descriptor.fields
            if members is None or field.name in members
        ]
        if not fields and descriptor.fields:
            return lambda message, left: {UNREAD: None}
        weight = len(fields)

        def convert(message: Any, left: list[int]) -> Any:
            left[0] -= weight
            if left[0] < 0:
                raise TooManyValues(f"has more than {MOST_VALUES} values beyond its bytes")
            return {name: read(message, left) for name, read in fields}

        return convert

    def _field(self, field: Any, members: Members) -> Converter:
        name = field.name
        if is_map(field):
            return self._map(name, field.message_type, members)
        single = self._single(field, members)
        if field.is_repeated:
            if field.type not in (*MESSAGES, ENUM, DOUBLE, FLOAT, BYTES):
                # The library's elements are the values.
                return lambda message, left: _counted(list(getattr(message, name)), left)
            each = MESSAGE_VALUES if field.type in MESSAGES else 1
            return lambda message, left: [
                single(element, left)
                for element in list(_counted(getattr(message, name), left, each))
            ]
        if field.has_presence and not field.has_default_value:
            return lambda message, left: (
                single(getattr(message, name), left) if message.HasField(name) else None
            )
        if field.type in (STRING, BYTES):
            return lambda message, left: single(getattr(message, name), left) or None
        return lambda message, left: single(getattr(message, name), left)

    def _map(self, name: str, entry: Any, members: Members) -> Converter:
        value_field = entry.fields_by_name["value"]
        is_boolean = entry.fields_by_name["key"].type == BOOLEAN

        def key_text(key: Any) -> str:
            return str(key).lower() if is_boolean else str(key)

        if members is not None:
            chosen = {one: self._single(value_field, below) for one, below in members.items()}

            def convert_chosen(message: Any, left: list[int]) -> Any:
                found = _counted(getattr(message, name), left)
                keys = {text: key for key in found if (text := key_text(key)) in chosen}
                if found and not keys:
                    return {UNREAD: None}
                return {text: chosen[text](found[key], left) for text, key in keys.items()}

            return convert_chosen
        single = self._single(value_field, None)

        def convert(message: Any, left: list[int]) -> Any:
            found = _counted(getattr(message, name), left)
            return {key_text(key): single(found[key], left) for key in found}

        return convert

    def _single(self, field: Any, members: Members) -> Converter:
        """What makes a value of one element of a field."""
        if field.type in MESSAGES:
            return self.of_message(field.message_type, members)
        if field.type == ENUM:
            names = {value.number: value.name for value in reversed(field.enum_type.values)}
            return lambda number, left: names.get(number, number)
        if field.type in (DOUBLE, FLOAT):
            return lambda number, left: finite(number)
        if field.type == BYTES:
            return lambda data, left: bytes_text(data)
        return lambda value, left: value


def is_map(field: Any) -> bool:
    """Whether a field is a map: the library has it as an object, not as a list of entries."""
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


MESSAGE_VALUES: Final = 8
"""So many values does it take as long to make as one message without any."""


def _counted(elements: Any, left: list[int], each: int = 1) -> Any:
    """The elements, which are taken off what is left of the values: `each` for one."""
    count, fit = len(elements), left[0] // each
    left[0] -= count * each
    if left[0] < 0:
        raise TooManyValues(f"has a list of {count:,}: in a record of its size must be <= {fit:,}")
    return elements


def _timestamp(message: Any, left: list[int]) -> str:
    """The moment as ISO 8601 in UTC; of one outside the years 1 to 9999, such as of milliseconds
    in place of seconds, what it has: a text that is no time, and shows in a refusal."""
    try:
        moment = _FIRST + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        return f"{message.seconds} s since 1970"
    return moment.isoformat() + "Z"


def _duration(message: Any, left: list[int]) -> float:
    seconds: float = message.seconds + message.nanos / 1e9
    return seconds


def _struct(message: Any, left: list[int]) -> Any:
    fields = _counted(message.fields, left)
    return {name: _json_value(fields[name], left) for name in fields}


def _list(message: Any, left: list[int]) -> Any:
    values = _counted(message.values, left, MESSAGE_VALUES)
    return [_json_value(value, left) for value in values]


def _json_value(message: Any, left: list[int]) -> Any:
    kind = message.WhichOneof("kind")
    if kind == "struct_value":
        return _struct(message.struct_value, left)
    if kind == "list_value":
        return _list(message.list_value, left)
    if kind == "number_value":
        # It has doubles only: an id of 12345 was written as an integer, and is one in JSON.
        number = finite(message.number_value)
        is_whole = number is not None and number.is_integer() and abs(number) < _EXACT
        return int(message.number_value) if is_whole else number
    return getattr(message, kind) if kind in ("string_value", "bool_value") else None


_KNOWN: Final[dict[str, Converter]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.Struct": _struct,
    "google.protobuf.ListValue": _list,
    "google.protobuf.Value": _json_value,
}
"""Messages of Google's own that have a value of their own."""


MOST_BYTES: Final = 16 << 20
"""A descriptor set has at most so many bytes."""
_MAIN_NAME: Final = "schema.proto"
_OF_GOOGLE: Final = "google/protobuf/"


class Pool:
    """The files of one schema, of a registry's answer or of a file, and of what they import.

    They are added as they are: Redpanda leaves out the kind of a field whose type has a name, which
    the library resolves.
    """

    def __init__(self) -> None:
        self._pool = library(PROTOBUF, "descriptor_pool").DescriptorPool()
        self._files: dict[str, Any] = {}

    def add(self, file: Any) -> None:
        """Add a FileDescriptorProto after what it imports. Raises UnreadableSchema."""
        if file.name in self._files:
            return
        for name in file.dependency:
            if name not in self._files:
                self.add(_built_in_file(name))
        try:
            self._pool.AddSerializedFile(file.SerializeToString())
            self._pool.FindFileByName(file.name)
        except Exception as error:
            # A TypeError or KeyError of the library, in its own words.
            words = " ".join(str(error).split())
            raise UnreadableSchema(f"is no Protobuf schema: {words[:300]}") from None
        self._files[file.name] = file

    def names(self, file_name: str | None = None) -> list[str]:
        """Return the full names of all messages of a file, nested ones too; without a file: of all
        files but Google's own."""
        files = [
            file
            for name, file in self._files.items()
            if (name == file_name if file_name is not None else not name.startswith(_OF_GOOGLE))
        ]
        return [name for file in files for name in _full_names(file.package, file.message_type)]

    def file_of(self, full_name: str) -> Any:
        """Return the FileDescriptorProto that declares a message. Raises KeyError."""
        return self._files[self.descriptor(full_name).file.name]

    def descriptor(self, full_name: str) -> Any:
        """Return the descriptor of a message. Raises KeyError."""
        return self._pool.FindMessageTypeByName(full_name)


def pool_of(text: SchemaText) -> tuple[Pool, Any]:
    """Return the pool of a schema with its references, and its own file. Raises
    UnreadableSchema."""
    pool = Pool()
    file = _with_references(text, "", pool, set())
    return pool, file


def pool_of_set(data: bytes) -> Pool:
    """Return the pool of a serialized FileDescriptorSet, of which the order of files is free.
    Raises UnreadableSchema."""
    try:
        found = library(PROTOBUF, "descriptor_pb2").FileDescriptorSet.FromString(data)
    except library(PROTOBUF, "message").DecodeError:
        raise UnreadableSchema("is no FileDescriptorSet") from None
    if not found.file:
        raise UnreadableSchema("is a FileDescriptorSet without files")
    pool = Pool()
    for file in _in_order(found.file):
        pool.add(file)
    return pool


def _with_references(text: SchemaText, name: str, pool: Pool, inside: set[str]) -> Any:
    try:
        data = base64.b64decode(text.text, validate=True)
        file = library(PROTOBUF, "descriptor_pb2").FileDescriptorProto.FromString(data)
    except (ValueError, binascii.Error):
        raise UnreadableSchema("is no base64 of a FileDescriptorProto") from None
    except library(PROTOBUF, "message").DecodeError:
        raise UnreadableSchema("is no FileDescriptorProto") from None
    if name:
        file.name = name  # what others import it by, whatever it calls itself
    elif not file.name:
        file.name = _MAIN_NAME
    for reference, needed in text.references:
        if reference not in inside:
            inside.add(reference)
            _with_references(needed, reference, pool, inside)
    pool.add(file)
    return file


_DECIMAL: Final = (("value", BYTES), ("precision", UINT32), ("scale", INT32))


def _built_in_file(name: str) -> Any:
    """A file that registries and sets may leave out: one of Google's own, or one that Confluent's
    registry has built in."""
    file = library(PROTOBUF, "descriptor_pb2").FileDescriptorProto()
    if name.startswith("confluent/"):
        file.name, file.syntax = name, "proto3"
    if name == "confluent/meta.proto":
        return file  # options only: what they say of a field, nobody reads
    if name == "confluent/type/decimal.proto":
        file.package = "confluent.type"
        decimal = file.message_type.add(name="Decimal")
        for number, (field, kind) in enumerate(_DECIMAL, 1):
            decimal.field.add(name=field, number=number, type=kind, label=1)
        return file
    if name.startswith(_OF_GOOGLE) and name.endswith(".proto"):
        stem = name.removeprefix(_OF_GOOGLE).removesuffix(".proto")
        if stem.isidentifier():
            try:
                library(PROTOBUF, f"{stem}_pb2").DESCRIPTOR.CopyToProto(file)
                return file
            except UnreadableSchema:
                pass
    raise UnreadableSchema(
        f"imports {name}, which is not given: give the source descriptor_set with it, from protoc"
        " --descriptor_set_out --include_imports or buf build"
    )


def _in_order(files: Iterable[Any]) -> Iterator[Any]:
    """The files of a set, each after what it imports."""
    waiting = {file.name: file for file in files}

    def after(file: Any) -> Iterator[Any]:
        for name in file.dependency:
            if name in waiting:
                yield from after(waiting.pop(name))
        yield file

    while waiting:
        yield from after(waiting.pop(next(iter(waiting))))


def _full_names(prefix: str, messages: Iterable[Any]) -> Iterator[str]:
    for message in messages:
        name = f"{prefix}.{message.name}" if prefix else message.name
        yield name
        yield from _full_names(name, message.nested_type)
