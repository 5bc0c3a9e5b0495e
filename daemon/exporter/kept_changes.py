"""What an exporter knows, as bytes, for the next one: the falls, so that what was said stays said,
and the selection of its counters."""

import msgspec
import structlog

from ..judging.ledger import Fall
from .counters import PreviousSelection

log = structlog.get_logger(__name__)


class _Kept(msgspec.Struct, frozen=True):
    """The falls where some are of judged scores: a version that does not know these reads none."""

    falls: tuple[Fall, ...]


def packed(falls: tuple[Fall, ...]) -> bytes:
    """The falls as JSON."""
    is_judged = any(fall.graded is not None for fall in falls)
    return msgspec.json.encode(_Kept(falls) if is_judged else falls)


def restored(stored: bytes | None) -> tuple[Fall, ...]:
    """The stored falls; none where there are none that can be read: the hours tell again what
    lasts."""
    if stored is None:
        return ()
    try:
        kept = msgspec.json.decode(stored, type=tuple[Fall, ...] | _Kept)
        return kept.falls if isinstance(kept, _Kept) else kept
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
