"""Mappings and records for the tests of the room."""

from typing import Any

import msgspec

from relevanced.daemon.config import applied_sources, load
from relevanced.daemon.events import Decoded, Limits
from relevanced.daemon.mapping import Mapper, mapper

LIMITS = Limits(depth=100, max_grade=10.0)
AT = "2026-11-20T12:00:00Z"
AT_MS = 1795176000000
OWN = """
[sources.impression]
where = "type == 'shown'"
id = "id"
time = "at"
items = "items"
"""
CLICKS = """
[sources.feedback]
where = "type == 'click'"
id = "id"
time = "at"
kind = "what"
item = "item"
rank = "rank"
"""


def mapper_of(text: str, limits: Limits = LIMITS) -> Mapper:
    """The mapper of the first source of a configuration; `text` is without its header."""
    config = load(f'[[sources]]\ntopic = "t"\n{text}', {}, "test.toml")
    return mapper(applied_sources(config.sources)[0], limits)


def json(value: Any) -> bytes:
    """The value as a record has it."""
    return msgspec.json.encode(value)


def events_of(text: str, value: Any, **around: Any) -> list[Decoded]:
    """What a record comes to."""
    return mapper_of(text).events(json(value), **around)


def shown(**fields: Any) -> dict[str, Any]:
    """A record of the mapping OWN."""
    return {"type": "shown", "id": "q1", "at": AT, "items": ["a", "b"], **fields}


def clicked(**fields: Any) -> dict[str, Any]:
    """A record of the mapping CLICKS."""
    return {"type": "click", "id": "q1", "at": AT, "what": "click", "item": "a", **fields}
