"""The formats that `preset` names: `presets.toml`, tables of the grammar and nothing else."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from ..events.decoder import FORMATS

LIKE: Final = "like"
"""In presets only: the preset whose table is read first."""


@lru_cache(maxsize=1)
def presets() -> Mapping[str, Mapping[str, Any]]:
    """Preset → its table."""
    given = tomllib.loads((files(__package__) / "presets.toml").read_text(encoding="utf-8"))
    return {name: _with_like(table, given) for name, table in given.items()}


def _with_like(table: Mapping[str, Any], given: Mapping[str, Any]) -> Mapping[str, Any]:
    if LIKE not in table:
        return table
    own = {key: value for key, value in table.items() if key != LIKE}
    return {**given[table[LIKE]], **own}


NAMES: Final = (*FORMATS, *presets())
"""What `preset` may be: a preset, or an event format, whose reader then takes the records."""
