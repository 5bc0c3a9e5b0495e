"""How the data of a topic's records is reached: as it is, in CloudEvents, or as JSON in a string.
Pure.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...events.fields import InvalidField
from ...events.types import LogRecord
from ...mapping.envelopes import unwrapped
from ...mapping.tables import CLOUDEVENTS
from ...schemas.bodies import Bodies
from ...schemas.book import SchemaBook
from ...schemas.frames import Framing
from .json_values import MOST_RECORDS, json_value
from .profile import ATTRIBUTE, scalars
from .toml import toml

LEAST_SHARE: Final = 0.9
"""Of the records must be reached in one way for it to be proposed."""
TRIED_RECORDS: Final = 500
BODIES: Final = Bodies(Framing(), SchemaBook())
"""Of records as JSON."""
_NOT_ASKED_FOR: Final = ("specversion", "id", "datacontenttype", "dataschema")
"""Attributes of CloudEvents that say nothing of a search."""


@dataclass(frozen=True)
class Opening:
    """How the data is reached."""

    envelope: str | None = None
    text: str | None = None
    """The path of a string with JSON in it."""

    def lines(self) -> Iterator[str]:
        """The keys as TOML, with a comment on each line."""
        if self.envelope is not None:
            yield f"envelope = {toml(self.envelope)}  # expressions see the data"
        if self.text is not None:
            yield f"each = {toml(f'parse_json({self.text})')}  # JSON in a string"

    def value(self, record: LogRecord) -> Any:
        """The data of a record; None where there is none. An attribute of a CloudEvent is a member
        whose name is the expression that asks for it."""
        if self.envelope is not None:
            return _cloud_data(record)
        value = json_value(record.value)
        return value if self.text is None else _parsed(value, self.text)


def opening_of(records: Sequence[LogRecord]) -> Opening:
    """The way by which nearly all of the first records have an object."""
    tried = records[:TRIED_RECORDS]
    least = LEAST_SHARE * max(len(tried), 1)
    if sum(_cloud_data(record) is not None for record in tried) >= least:
        return Opening(envelope=CLOUDEVENTS)
    texts = Counter(path for record in tried for path in _json_texts(json_value(record.value)))
    # A string in a part of the records is a detail of theirs, not their data.
    path, count = texts.most_common(1)[0] if texts else (None, 0)
    return Opening(text=path) if count >= least else Opening()


def opened(records: Sequence[LogRecord], opening: Opening) -> Iterator[tuple[Any, int]]:
    """(data, time of the record) of those of the first records whose data is an object."""
    read = ((opening.value(record), record.timestamp) for record in records[:MOST_RECORDS])
    return ((value, stamp_ms) for value, stamp_ms in read if isinstance(value, dict))


def _cloud_data(record: LogRecord) -> Any:
    if record.value is None:
        return None
    try:
        around = unwrapped(CLOUDEVENTS, record.value, BODIES, headers=record.headers)
    except InvalidField:
        return None
    if not isinstance(around.root, dict):
        return None
    attributes = {
        ATTRIBUTE.format(name): value
        for name, value in around.attributes.items()
        if name not in _NOT_ASKED_FOR and value is not None
    }
    return attributes | around.root


def _json_texts(value: Any) -> Iterator[str]:
    """The paths of strings that have a JSON object in them."""
    for path, member in scalars(value):
        if isinstance(member, str) and member.startswith("{"):
            if isinstance(json_value(member.encode(errors="replace")), dict):
                yield path


def _parsed(value: Any, path: str) -> Any:
    found = dict(scalars(value)).get(path) if isinstance(value, dict) else None
    return json_value(found.encode(errors="replace")) if isinstance(found, str) else None
