"""What a value looks like in messages: without the logins that may stand in it. Pure."""

import re
from typing import Final

MASK: Final = "***"
_PASSWORD: Final = re.compile(r":(?!//).*@", re.DOTALL)
_TOKEN: Final = re.compile(r"(?<=://)[^:]*@")


def masked(value: object) -> object:
    """The value, where `user:password@` and `scheme://token@` in its texts are masked.

    A login is pasted into wrong settings, too. It ends at the last `@`, which a password may
    contain: rather too much is masked.
    """
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, dict):
        return {masked(key): masked(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner) for inner in value]
    return value


def masked_text(text: str) -> str:
    """The text without the logins in it."""
    return _TOKEN.sub(f"{MASK}@", _PASSWORD.sub(f":{MASK}@", text))
