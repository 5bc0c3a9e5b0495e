"""What the stage of `lanes = "rekey"` writes to its own topic, and lanes read. Pure.

    {"type":"feedback","impression_id":"q1",…,"of":["clicks",3,4711,0,1795176005000,[4709,0]]}
    {"type":"mark","of":["clicks",3,4711,1,1795176005000,[4711,0]],"sources":{"clicks":6},…}

`of` says where it stood in its source: topic, partition, offset, and its number in that record; the
watermark of the source that it met; and the offset and number of what the stage sent from this
source to this partition before.
"""

from typing import Final, TypeAlias

import msgspec

from .event_types import Event
from .native import native_text

Place: TypeAlias = tuple[int, int]
"""(offset, number in its record) of something in a source. Places are sent in ascending order."""
NOTHING: Final[Place] = (-1, -1)
"""Before the first: a run of the stage has sent nothing yet."""
COUNTED: Final = -2
"""The number of a mark that stands before the events of a record."""
AT_END: Final = -1
"""The number of an end mark, at the next offset: before all events that this record will bring, and
behind what was told of those before it."""


class Of(msgspec.Struct, array_like=True, frozen=True):
    """Where it stood, and what it met. The order of the fields is the format."""

    topic: str
    partition: int
    offset: int
    number: int
    met_ms: int | None
    """The watermark of the source just before it, of a mark just after it; None before the first
    event of the source."""
    prev: Place

    @property
    def place(self) -> Place:
        """Its place in its source."""
        return self.offset, self.number


class Mark(msgspec.Struct, tag_field="type", tag="mark", frozen=True, omit_defaults=True):
    """How far a source is."""

    of: Of
    sources: dict[str, int]
    """Topic → partitions: all sources that there are."""
    clock_ms: int | None = None
    """Of an end mark: when the source was seen at its end."""
    is_idle: bool = False
    """Of an end mark: whether it got no record for so long that none is waited for."""
    rejected: dict[str, int] = {}
    """By reason: what the stage refused since the last mark that counts."""
    skipped: dict[str, int] = {}
    """By reason: what a mapping left out since then."""
    lost_from: int | None = None
    """From this offset up to that of the mark, records were deleted before they were read."""
    life: str = ""
    """The id of the source's topic; "" in a cluster without ids."""


class _Sent(msgspec.Struct, frozen=True):
    type: str
    of: Of


_encode: Final = msgspec.json.Encoder().encode
_decode_sent: Final = msgspec.json.Decoder(_Sent).decode
_decode_mark: Final = msgspec.json.Decoder(Mark).decode


def event_text(event: Event, of: Of) -> bytes:
    """Return an event as it is sent: a native one that says where it stood."""
    return b'%b,"of":%b}' % (native_text(event)[:-1], _encode(of))


def mark_text(mark: Mark) -> bytes:
    """Return a mark as it is sent."""
    return _encode(mark)


def read_sent(value: bytes | None) -> Of | Mark:
    """Return the mark in a record of the stage's topic, or where its event stood. Raises ValueError
    for what no stage has written."""
    sent = _decode_sent(value or b"")
    return _decode_mark(value or b"") if sent.type == "mark" else sent.of
