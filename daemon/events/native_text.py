"""Events written in the native format, as `native.reader` reads them. Pure."""

from typing import Final

import msgspec

from .timestamps import timestamp_text
from .types import SECONDS_BELOW, Event, Feedback, Impression


class _Impression(msgspec.Struct, tag_field="type", tag="impression", omit_defaults=True):
    impression_id: str
    timestamp: int | str
    items: tuple[str, ...]
    first_rank: int = 1
    attributes: dict[str, str] = {}
    experiments: dict[str, str] = {}
    grades: dict[str, float] = {}
    user_id: str | None = None
    teams: tuple[str | None, ...] = ()
    by_item: bool = False
    query: str | None = None


class _Feedback(msgspec.Struct, tag_field="type", tag="feedback", omit_defaults=True):
    impression_id: str
    timestamp: int | str
    kind: str | None = None
    item: str | None = None
    rank: int | None = None
    grade: float | None = None


_encode: Final = msgspec.json.Encoder().encode


def native_text(event: Event) -> bytes:
    """Return the event as one line of JSON, from which a reader of the native format with the same
    limits makes the same event. A record of another format may be shorter than this."""
    # A bare number of so few milliseconds would be read as seconds.
    small = event.time_ms < SECONDS_BELOW
    timestamp = timestamp_text(event.time_ms) if small else event.time_ms
    if isinstance(event, Impression):
        return _encode(
            _Impression(
                event.impression_id,
                timestamp,
                event.items,
                event.first_rank,
                event.attributes,
                event.experiments,
                event.grades,
                event.user_id,
                event.teams,
                event.by_item,
                event.query,
            )
        )
    assert isinstance(event, Feedback)
    return _encode(
        _Feedback(event.impression_id, timestamp, event.kind, event.item, event.rank, event.grade)
    )
