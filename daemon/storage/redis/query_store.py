"""Tables of queries as readers fetch them: when somebody asks, not with every read of a lane."""

from collections.abc import Sequence
from typing import Any

from ..head import Head, head_of
from .client import Client, answered
from .scan import portions


class QueryStore:
    """The tables of queries of one namespace. Methods raise Unavailable."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def head(self, lane: int) -> Head | None:
        """Return the head of a lane; None where nobody claimed it yet. Raises Damaged."""
        pairs: Any = self._client.hgetall(f"{self._prefix(lane)}head")
        found = await answered(self._client, pairs)
        return head_of({name.decode(): value for name, value in found.items()}) if found else None

    async def values(self, lane: int, keys: Sequence[str]) -> dict[str, bytes | None]:
        """Return the values of these keys of a lane; None for those that are not there."""
        prefix, found = self._prefix(lane), dict[str, bytes | None]()
        for part in portions(keys):
            values: Any = self._client.mget([prefix + key for key in part])
            found |= zip(part, await answered(self._client, values), strict=True)
        return found

    def _prefix(self, lane: int) -> str:
        return f"{{{self._namespace}:{lane}}}:"
