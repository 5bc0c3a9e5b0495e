"""The functions of expressions: those of the JMESPath standard, and eleven more about the record.
Pure.

    header(name) key() kafka_time() topic() message() root() ce(name)
    parse_json(text) split(text, separator) zip(a, b…) regex(text, pattern)

A function applied to null gives null; applied to another wrong type, it refuses the event. All work
that a record causes is counted, and a record that causes too much is refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

import jmespath.exceptions
import msgspec
from jmespath.functions import Functions, signature
from jmespath.visitor import Options, TreeInterpreter

from ..events import InvalidField, decoded

MATCHED_CHARACTERS: Final = 1024
"""So much of a text is searched: the longest text that a lone repeat has to try."""
STEPS: Final = 100_000
STEPS_PER_BYTE: Final = 2
"""A record may cause so many steps, and so many more for each of its bytes. Mappings take one step
for a few bytes, unless an expression goes through the whole record for each part of it."""
CHARACTERS_PER_STEP: Final = 16
_JSON: Final = msgspec.json.Decoder()
_Headers = Sequence[tuple[str, bytes]]


class TooMuchWork(Exception):
    """A record causes more work than is allowed for its size."""


@dataclass(frozen=True)
class Surroundings:
    """What expressions can ask about the record that an event stands in."""

    root: object
    """The decoded record."""
    topic: str = ""
    key: bytes | None = None
    headers: _Headers = ()
    time_ms: int | None = None
    """The time that the log gave the record; None if it gave none."""
    attributes: Mapping[str, object] = field(default_factory=dict)
    """Of a CloudEvent: its attributes."""
    message: str | None = None
    """Of Protobuf: the full name of the message; of Avro: that of the record."""
    lacks_queries: bool = False
    """Whether the record was read without what only queries read, as something there is broken."""


def text_of(value: bytes | None) -> str | None:
    """Return bytes as text; None where they are none, or no UTF-8."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def header(headers: _Headers, name: str) -> str | None:
    """Return the first header of this name, in upper or lower case; None where it is empty."""
    wanted = name.lower()
    return next((text_of(value) or None for key, value in headers if key.lower() == wanted), None)


class RecordFunctions(Functions):  # type: ignore[misc]  # the library ships no types
    """The functions, about one record."""

    FUNCTION_TABLE: dict[str, Any]

    def __init__(self, around: Surroundings, size: int = 0) -> None:
        self._around = around
        self._steps_left = STEPS + STEPS_PER_BYTE * size

    def spend(self, steps: int) -> None:
        """Count work. Raises TooMuchWork."""
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooMuchWork

    def call_function(self, function_name: str, resolved_args: list[Any]) -> Any:
        """Call a function; one that does not take null gives null for it."""
        try:
            result = super().call_function(function_name, resolved_args)
        except jmespath.exceptions.JMESPathTypeError as error:
            if error.actual_type == "null":
                return None
            raise
        self.spend(sum(map(_weight, resolved_args)) + _weight(result))
        return result

    @signature({"types": ["string"]})  # type: ignore[untyped-decorator, unused-ignore]
    def _func_header(self, name: str) -> str | None:
        return header(self._around.headers, name)

    @signature()  # type: ignore[untyped-decorator, unused-ignore]
    def _func_key(self) -> str | None:
        return text_of(self._around.key)

    @signature()  # type: ignore[untyped-decorator, unused-ignore]
    def _func_kafka_time(self) -> int | None:
        return self._around.time_ms

    @signature()  # type: ignore[untyped-decorator, unused-ignore]
    def _func_topic(self) -> str:
        return self._around.topic

    @signature()  # type: ignore[untyped-decorator, unused-ignore]
    def _func_message(self) -> str | None:
        return self._around.message

    @signature()  # type: ignore[untyped-decorator, unused-ignore]
    def _func_root(self) -> object:
        return self._around.root

    @signature({"types": ["string"]})  # type: ignore[untyped-decorator, unused-ignore]
    def _func_ce(self, name: str) -> object:
        return self._around.attributes.get(name.lower())

    @signature({"types": ["string"]})  # type: ignore[untyped-decorator, unused-ignore]
    def _func_parse_json(self, text: str) -> object:
        try:
            found: object = decoded("parse_json()", text.encode(), _JSON, "not_json")
        except InvalidField:
            self.spend(_weight(text))  # it was read as well
            raise
        return found

    @signature(  # type: ignore[untyped-decorator, unused-ignore]
        {"types": ["string"]}, {"types": ["string"]}
    )
    def _func_split(self, text: str, separator: str) -> list[str]:
        if not separator:
            raise InvalidField("wrong_type", "split(): the separator must not be empty")
        return text.split(separator) if text else []

    @signature(  # type: ignore[untyped-decorator, unused-ignore]
        {"types": ["array", "null"], "variadic": True}
    )
    def _func_zip(self, *arrays: list[object] | None) -> list[list[object]] | None:
        lists = [array or [] for array in arrays]
        if any(type(array) is not list for array in lists):
            raise InvalidField("wrong_type", "zip(): needs arrays")
        if all(array is None for array in arrays):
            return None
        self.spend(len(lists) * max(map(len, lists)))
        return [list(together) for together in zip_longest(*lists)]

    @signature(  # type: ignore[untyped-decorator, unused-ignore]
        {"types": ["string", "null"]}, {"types": ["string"]}
    )
    def _func_regex(self, text: str | None, pattern: str) -> bool:
        if text is None:
            return False
        return re.search(pattern, text[:MATCHED_CHARACTERS]) is not None


class Interpreter(TreeInterpreter):  # type: ignore[misc]  # the library ships no types
    """Evaluates expressions about one record, and counts each step."""

    def __init__(self, around: Surroundings, size: int) -> None:
        self._counted = RecordFunctions(around, size)
        super().__init__(Options(custom_functions=self._counted))

    def visit(self, node: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Evaluate one node. Raises TooMuchWork."""
        self._counted.spend(1)
        return super().visit(node, *args, **kwargs)

    def visit_comparator(self, node: dict[str, Any], value: Any) -> Any:
        """Compare; a text and a number are in no order, which is null."""
        try:
            return super().visit_comparator(node, value)
        except TypeError:
            return None

    def visit_flatten(self, node: dict[str, Any], value: Any) -> Any:
        """Flatten an array; its elements are counted."""
        flat = super().visit_flatten(node, value)
        self._counted.spend(_weight(flat))
        return flat

    def visit_slice(self, node: dict[str, Any], value: Any) -> Any:
        """Cut an array; its elements are counted."""
        part = super().visit_slice(node, value)
        self._counted.spend(_weight(part))
        return part


def _weight(value: object) -> int:
    """The work to make a value, in steps."""
    if isinstance(value, str):
        return len(value) // CHARACTERS_PER_STEP
    return len(value) if isinstance(value, (list, dict)) else 0
