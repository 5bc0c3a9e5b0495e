"""Tokens for logins: asked for when they are needed, one request at a time, and again after 80 % of
their life. While the issuer does not answer, the token that there is serves as long as it lives."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

import structlog

from ..backoff import pause_s
from ..errors import Unavailable
from .tokens import Token, TokenCache

PATIENCE_S: Final = 5.0
"""So long a login waits for a new token while the old one still serves."""

NoteToken: TypeAlias = Callable[[Literal["ok", "failed"], float | None], None]
"""Takes what became of a request for a token, and how many seconds a new one lives."""

logger = structlog.get_logger(__name__)


def ignore_token(_: str, __: float | None) -> None:
    """Count nothing: the default of callers that have no telemetry."""


class TokenSource:
    """The tokens of one login. It is a Credential."""

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Token]],
        settings: str = "",
        clock: Callable[[], float] = time.monotonic,
        note: NoteToken = ignore_token,
    ) -> None:
        """`fetch` raises Unavailable; `settings` are what to look at where a token is refused."""
        self.settings = settings
        self._fetch = fetch
        self._clock = clock
        self._note = note
        self._cache = TokenCache()
        self._renewing: asyncio.Task[Unavailable | None] | None = None
        self._failures = 0
        self._next_try_s = 0.0

    async def secret(self) -> str:
        """Return a token that lives. Raises Unavailable."""
        now_s = self._clock()
        usable = self._cache.usable(now_s)
        if not self._cache.is_due(now_s) or (usable and now_s < self._next_try_s):
            assert usable is not None
            return usable
        renewing = self._begin()
        await asyncio.wait({renewing}, timeout=PATIENCE_S if usable else None)
        usable = self._cache.usable(self._clock())
        if usable is None:
            raise renewing.result() or Unavailable("a token has ended before it was used")
        return usable

    def is_outdated(self, used: str) -> bool:
        """Return whether there is another token than this by now, and begin to ask for one where
        it is time to."""
        now_s = self._clock()
        if self._cache.is_due(now_s) and now_s >= self._next_try_s:
            self._begin()
        return self._cache.usable(now_s) not in (None, used)

    def _begin(self) -> "asyncio.Task[Unavailable | None]":
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
        return self._renewing

    def refused(self, used: str) -> bool:
        """Note that a server refused a token; returns whether another one is worth a try."""
        return self._cache.refuse(used, self._clock())

    async def _renew(self) -> Unavailable | None:
        asked_s = self._clock()
        try:
            token = await self._fetch()
        except Unavailable as error:
            self._note("failed", None)
            if self._failures == 0 and self._cache.usable(self._clock()) is not None:
                logger.warning("the token cannot be renewed yet", reason=str(error))
            self._failures += 1
            self._next_try_s = self._clock() + pause_s(self._failures, random.random())
            return error
        self._cache.keep(token, asked_s)
        self._note("ok", token.lifetime_s - (self._clock() - asked_s))
        self._failures = 0
        return None
