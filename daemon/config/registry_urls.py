"""The addresses of a schema registry: one URL, or several separated by commas. Pure."""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from .kinds import masked_url
from .masking import MASK

_URL: Final = (
    r"https?://([^\s/@,]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@,:\[\]?#]+)(:\d{1,5})?(/[^\s@,?#]*)?"
)
_SEPARATOR: Final = r"\s*,\s*"


def pattern_of_urls() -> str:
    """The pattern of such a text."""
    return rf"{_URL}({_SEPARATOR}{_URL})*"


def urls_of(text: str) -> tuple[str, ...]:
    """The URLs, without a slash at their ends and without logins."""
    return tuple(_without_login(url).rstrip("/") for url in _split(text))


def login_of(text: str) -> tuple[str, str] | None:
    """User name and password of the first URL that has them."""
    for url in _split(text):
        parts = urlsplit(url)
        if parts.username is not None:
            return unquote(parts.username), unquote(parts.password or "")
    return None


def masked_urls(text: str) -> str:
    """The URLs with their passwords masked. What is no list of URLs is masked whole: a password
    with a comma that is not escaped would show in part."""
    if not re.fullmatch(pattern_of_urls(), text):
        return MASK
    return ",".join(masked_url(url) for url in _split(text))


def _split(text: str) -> list[str]:
    return re.split(_SEPARATOR, text.strip())


def _without_login(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
