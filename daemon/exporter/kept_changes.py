"""What an exporter knows, as bytes, for the next one: the falls, so that what was said stays said,
and the selection of its counters."""

import msgspec
import structlog

from ..judging.ledger import Fall
from .counters import PreviousSelection

log = structlog.get_logger(__name__)


def packed(falls: tuple[Fall, ...]) -> bytes:
    """The falls as JSON."""
    return msgspec.json.encode(falls)


def restored(stored: bytes | None) -> tuple[Fall, ...]:
    """The stored falls; none where there are none that can be read: the hours tell again what
    lasts."""
    if stored is None:
        return ()
    try:
        return msgspec.json.decode(stored, type=tuple[Fall, ...])
    except msgspec.DecodeError as error:
        log.warning("the stored changes cannot be read", reason=str(error))
        return ()


def restored_selection(stored: bytes | None) -> PreviousSelection:
    """The stored selection; an empty one where there is none that can be read."""
    if stored is None:
        return PreviousSelection()
    try:
        return msgspec.json.decode(stored, type=PreviousSelection)
    except msgspec.DecodeError as error:
        log.warning("the stored selection of counters cannot be read", reason=str(error))
        return PreviousSelection()
