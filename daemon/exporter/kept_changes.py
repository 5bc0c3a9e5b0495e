"""The falls that an exporter knows, as bytes: what was said stays said when another one follows."""

import msgspec
import structlog

from ..judging.ledger import Fall

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
