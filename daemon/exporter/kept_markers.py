"""The markers of a namespace as an exporter knows them, read again when they changed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
import structlog

from ..judging.markers import MOST_MARKERS, Marker, expired, ordered

log = structlog.get_logger(__name__)


class StoredMarkers(Protocol):
    """What is read at once."""

    @property
    def tag(self) -> bytes:
        """Differs after every change."""

    @property
    def markers(self) -> Sequence[bytes]:
        """One after the other, in no order."""


class MarkerStore(Protocol):
    """Where the markers are stored. All methods raise Unavailable."""

    async def tag(self) -> bytes | None:
        """The tag of the state; None where there never were markers, or they are lost."""

    async def read(self) -> StoredMarkers | None:
        """All of them; None as for `tag`."""

    async def add(self, name: str, marker: bytes, most: int) -> bytes | bool:
        """Store one: True; False where there are `most`; the stored one of this name if any."""

    async def remove(self, names: Iterable[str]) -> int:
        """Remove the markers of these names."""

    async def put_back(self, markers: Mapping[str, bytes]) -> bool:
        """Store these, unless there are markers."""


def packed(marker: Marker) -> bytes:
    """The marker as JSON."""
    return msgspec.json.encode(marker)


def unpacked(stored: Iterable[bytes]) -> tuple[Marker, ...]:
    """The markers of their bytes, by time. One that cannot be read, such as one of a later
    version, is left out and said."""
    found = []
    for each in stored:
        try:
            found.append(msgspec.json.decode(each, type=Marker))
        except msgspec.DecodeError as error:
            log.warning("a stored marker cannot be read", reason=str(error))
    return ordered(found)


class KeptMarkers:
    """The markers of one namespace, for one exporter."""

    def __init__(self, store: MarkerStore, keep_ms: int) -> None:
        self.known: tuple[Marker, ...] = ()
        self._store = store
        self._keep_ms = keep_ms
        self._tag: bytes | None = None

    async def refresh(self, now_ms: int, leads: bool) -> tuple[Marker, ...]:
        """Read what changed, and return all. The exporter that leads removes those that are too
        old, and puts back what Redis lost. Raises Unavailable."""
        tag = await self._store.tag()
        if tag is None and self._tag is not None:
            await self._lost(leads)
        elif tag != self._tag:
            await self._read()
        old = expired(self.known, now_ms, self._keep_ms)
        if old and leads:
            await self._store.remove(old)
        return tuple(marker for marker in self.known if marker.id not in old)

    async def store(self, markers: Iterable[Marker]) -> None:
        """Store markers that the exporter found itself. Raises Unavailable."""
        for marker in markers:
            if await self._store.add(marker.id, packed(marker), MOST_MARKERS) is True:
                log.info("a new version was seen", version=marker.text)

    async def _read(self) -> None:
        stored = await self._store.read()
        if stored is not None:
            self._tag, self.known = stored.tag, unpacked(stored.markers)

    async def _lost(self, leads: bool) -> None:
        if leads:
            log.warning("Redis lost the markers: they are stored again", markers=len(self.known))
            await self._store.put_back({marker.id: packed(marker) for marker in self.known})
            await self._read()
