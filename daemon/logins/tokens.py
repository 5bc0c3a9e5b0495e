"""One token of a kind: kept while it lives, renewed before it ends. Pure."""

from dataclasses import dataclass
from typing import Final

RENEWED_AT: Final = 0.8
"""A token is renewed after this part of its life."""
FRESH_S: Final = 5.0
"""A token that is refused in its first seconds is not asked for again at once: the next would be
refused, too."""


@dataclass(frozen=True)
class Token:
    """A token as it was issued."""

    text: str
    lifetime_s: float


class TokenCache:
    """The token that there is. Times are seconds of any clock that never goes back."""

    def __init__(self) -> None:
        self._token: Token | None = None
        self._issued_s = 0.0
        self._is_refused = False

    def keep(self, token: Token, asked_s: float) -> None:
        """Keep a token, asked for at that time: its life began no earlier."""
        self._token, self._issued_s, self._is_refused = token, asked_s, False

    def usable(self, now_s: float) -> str | None:
        """Return the token while it lives and was not refused."""
        token = self._token
        if token is None or self._is_refused or now_s >= self._issued_s + token.lifetime_s:
            return None
        return token.text

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for another one."""
        token = self._token
        is_old = token is not None and now_s >= self._issued_s + RENEWED_AT * token.lifetime_s
        return token is None or self._is_refused or is_old

    def refuse(self, used: str, now_s: float) -> bool:
        """Note that a server refused a token; returns whether another one is worth a try."""
        if self._token is None or self._token.text != used:
            return True
        if now_s - self._issued_s < FRESH_S:
            return False
        self._is_refused = True
        return True
