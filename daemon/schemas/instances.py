"""Reads the records of one topic into instances, for what is compiled. Pure."""

from collections.abc import Hashable, Sequence
from typing import Any, Final

from .bodies import MOST_READERS, Bodies
from .frames import AUTO, CONFLUENT, HEADER, MAGIC, NONE, Headers, frame_of
from .typed import Reader, Typed, Unfit
from .types import PROTOBUF

_AVRO_HEAD: Final = 5
_LEAST_BYTES: Final = _AVRO_HEAD + 2
"""Shorter records are looked at one by one."""
_FIRST_MESSAGE: Final = 0
_ONE_INDEX: Final = 2


class BodyInstances:
    """Reads the bodies of one topic. The usual frame, an id before the body, is recognised by bytes
    that were read before."""

    def __init__(self, bodies: Bodies, typed: Typed, listed: Typed | None) -> None:
        """`typed`: what is wanted of a record; `listed`: of an element of a record that is a list;
        None where none may be."""
        self._bodies, self._typed, self._listed = bodies, typed, listed
        framing = bodies.framing
        self._by_head = framing.name in (AUTO, CONFLUENT)
        self._is_protobuf = framing.codec == PROTOBUF
        self._is_bare = framing.name == NONE
        self._readers: dict[Hashable, Reader] = {}

    def of(self, value: bytes, headers: Headers = ()) -> Any:
        """Return the instance of a record. Raises a ValueError where another reader must say what
        it comes to."""
        if self._by_head and (not headers or all(name != HEADER for name, _ in headers)):
            length = self._head_bytes(value)
            if length:
                return self._by_first_bytes(value, length).one(value, length)
        frame = frame_of(self._bodies.framing, value, headers)
        if len(frame.body) > len(value):
            raise Unfit  # unpacked: work is bounded by the bytes of the record
        return self._reader(value, headers).one(frame.body, 0)

    def of_all(self, values: Sequence[bytes], headers: Sequence[Headers]) -> list[Any]:
        """Return the instance of each record. What begins a record is looked up once where they
        all begin alike. Raises what `of` raises of one of them."""
        in_headers = any(name == HEADER for one in headers if one for name, _ in one)
        if self._by_head and values and not in_headers:
            length = self._head_bytes(values[0])
            head = values[0][:length]
            alike = length and all([value.startswith(head) for value in values])
            if alike and min(map(len, values)) >= _LEAST_BYTES:
                return self._by_first_bytes(values[0], length).several(values, length)
        return list(map(self.of, values, headers))

    def _by_first_bytes(self, value: bytes, length: int) -> Reader:
        """What reads the records that begin with so many bytes of this one."""
        head = value[:length]
        read = self._readers.get(head)
        if read is None:
            read = self._reader(value, ())
            self._keep(head, read)
        return read

    def _head_bytes(self, value: bytes) -> int:
        """How many bytes are before the body; 0 for another frame."""
        if len(value) < _LEAST_BYTES or value[0] != MAGIC:
            return 0
        if not self._is_protobuf:
            return _AVRO_HEAD
        if value[_AVRO_HEAD] == _FIRST_MESSAGE:
            return _AVRO_HEAD + 1
        is_short = value[_AVRO_HEAD] == _ONE_INDEX and value[_AVRO_HEAD + 1] < 0x80
        return _AVRO_HEAD + 2 if is_short else 0

    def _reader(self, value: bytes, headers: Headers) -> Reader:
        frame = frame_of(self._bodies.framing, value, headers)
        named = None if self._bodies.has_own else (frame.schema, frame.message)
        read = self._readers.get(named)
        if read is None:
            schema = self._bodies.schema_of(frame)
            message = None if self._bodies.has_own else frame.message
            read = schema.instances(message, self._typed, self._listed)
            self._keep(named, read)
        return read

    def _keep(self, key: Hashable, read: Reader) -> None:
        if len(self._readers) >= MOST_READERS:
            self._readers.clear()
        self._readers[key] = read
