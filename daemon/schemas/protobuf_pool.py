"""Protobuf descriptors, of a registry's answers or of a file, in a pool of their own. Pure.

They are added as they are: Redpanda leaves out the kind of a field whose type has a name, which the
library resolves.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .libraries import library
from .types import PROTOBUF, SchemaText, UnreadableSchema

MOST_BYTES: Final = 16 << 20
"""A descriptor set has at most so many bytes."""
_MAIN_NAME: Final = "schema.proto"
_OF_GOOGLE: Final = "google/protobuf/"


class Pool:
    """The files of one schema and of what they import."""

    def __init__(self) -> None:
        self._pool = library(PROTOBUF, "descriptor_pool").DescriptorPool()
        self._files: dict[str, Any] = {}

    def add(self, file: Any) -> None:
        """Add a FileDescriptorProto after what it imports. Raises UnreadableSchema."""
        if file.name in self._files:
            return
        for name in file.dependency:
            if name not in self._files:
                self.add(_of_google(name))
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
    file = _file(text.text)
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


def _file(text: str) -> Any:
    try:
        data = base64.b64decode(text, validate=True)
        return library(PROTOBUF, "descriptor_pb2").FileDescriptorProto.FromString(data)
    except (ValueError, binascii.Error):
        raise UnreadableSchema("is no base64 of a FileDescriptorProto") from None
    except library(PROTOBUF, "message").DecodeError:
        raise UnreadableSchema("is no FileDescriptorProto") from None


def _of_google(name: str) -> Any:
    """A file of Google's own, which registries and sets may leave out."""
    file = library(PROTOBUF, "descriptor_pb2").FileDescriptorProto()
    if name.startswith(_OF_GOOGLE) and name.endswith(".proto"):
        stem = name.removeprefix(_OF_GOOGLE).removesuffix(".proto")
        if stem.isidentifier():
            try:
                library(PROTOBUF, f"{stem}_pb2").DESCRIPTOR.CopyToProto(file)
                return file
            except UnreadableSchema:
                pass
    raise UnreadableSchema(f"imports {name}, which is not given")


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
