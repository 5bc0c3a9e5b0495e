"""Acknowledgements of open changes as the API takes them. Pure.

Somebody says that a change is known, and until when. It stays what it is: as open, as red and as
loud. An acknowledgement is a marker of the change, so it is stored, kept and lost as markers are.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from ...changes import HOUR_MS, Marker
from ...events import timestamp_text
from .parameters import BadRequest, object_of, quoted, refuse_unknown, text_of, time_of

AHEAD_MS: Final = 7 * 24 * HOUR_MS
"""How far ahead an acknowledgement may end."""
LISTED_IDS: Final = 20
"""Most open changes that an error lists."""
_KEYS: Final = ("text", "until")


class AcknowledgementPosted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An acknowledgement as it is posted."""

    text: str
    until: str
    """RFC 3339, with a zone: after now, and at most 7 days ahead."""


class Withdrawn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The change that is not acknowledged any more."""

    id: str


def acknowledgement(
    body: bytes, change: str, fresh_id: str, now_ms: int, user: str | None
) -> Marker:
    """The marker of a posted body. Raises BadRequest with the value and the rule."""
    fields = object_of(body)
    refuse_unknown("", fields, _KEYS)
    text, until_ms = text_of(fields.get("text")), time_of(fields, "until")
    if until_ms is None or not now_ms < until_ms <= now_ms + AHEAD_MS:
        bounds = f"after {timestamp_text(now_ms)}, up to {timestamp_text(now_ms + AHEAD_MS)}"
        rule = f"must be in the future, at most 7 days ahead: {bounds}"
        raise BadRequest(400, f"until={quoted(fields.get('until'))}: {rule}")
    return Marker(fresh_id, now_ms, "acknowledged", text, until_ms, change=change, by=user)


def not_open(change: str, open_ids: Sequence[str]) -> BadRequest:
    """That there is no such change, and which there are."""
    more = f"; … ({len(open_ids)} in all)" if len(open_ids) > LISTED_IDS else ""
    listed = "; ".join(map(quoted, open_ids[:LISTED_IDS])) + more
    those = f"those that are: {listed}" if open_ids else "none is"
    return BadRequest(404, f"id={quoted(change)}: no such change is open; {those}")
