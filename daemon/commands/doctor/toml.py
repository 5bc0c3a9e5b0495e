"""How a proposed configuration is written. Pure."""

from typing import Any

import msgspec


def toml(value: Any) -> str:
    """A text or a list of texts as TOML."""
    return msgspec.json.encode(value).decode()


def literal(text: str) -> str:
    """A text as a literal of JMESPath."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
