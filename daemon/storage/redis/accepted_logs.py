"""Which other logs lanes may begin: permissions of an operator, stored beside the lanes.

The hash `NAMESPACE:accepted` has "LANE TOPIC" → [topic id, stored offset at which it stopped].
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ..log_marks import AcceptedLog
from .client import Client, answered

ACCEPTED_LOGS: Final = "accepted"


class AcceptedLogs:
    """Those of one namespace. Methods raise Unavailable while the server does not answer."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._key = f"{namespace}:{ACCEPTED_LOGS}"

    async def of(self, lane: int, topic: str) -> AcceptedLog | None:
        """Return the log of a topic that this lane may begin; None where there is none."""
        stored: Any = await answered(self._client, self._client.hget(self._key, f"{lane} {topic}"))
        return None if stored is None else msgspec.json.decode(stored, type=AcceptedLog)

    async def accept(self, topic: str, logs: Mapping[int, AcceptedLog]) -> None:
        """Let these lanes begin other logs of a topic. What was accepted before for a lane is
        replaced."""
        fields: Any = {f"{lane} {topic}": msgspec.json.encode(log) for lane, log in logs.items()}
        await answered(self._client, self._client.hset(self._key, mapping=fields))
