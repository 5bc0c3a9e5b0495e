"""The namespace in which version 5 of the schema stored the same configuration. Pure.

There, everything that shapes rows named the namespace. Its hourly rows have the bytes of today, and
the columns of the configuration, so that they can be taken over (`commands/backfill/former.py`).
"""

import hashlib
import json
from typing import Final

from ..config import derive, propensities
from ..config.fingerprint import join_values, layout_values
from ..config.settings import Config
from .schema import HASH_DIGITS

VERSION: Final = 5
_NAMED: Final = ("history.days", "metrics.relevant_from", "segments.groupings", "windows")
"""Keys beside those of the join that named a namespace, with the values of today."""


def former_namespace(config: Config) -> str:
    """Return the first part of every Redis key of this configuration, as version 5 named it."""
    values, layout = join_values(config), layout_values(config)
    del values["attribution.pane"]
    values |= {key: layout[key] for key in _NAMED}
    values |= {
        "schema": VERSION,
        "metrics.names": [metric.name for metric in config.parsed_metrics],
        "segments.max_segments": config.segments.max_segments,
    }
    if config.propensities is not None:
        values[propensities.SECTION] = layout[propensities.SECTION]
    if config.derive:
        # It derived nothing: what it has under this name is something else.
        values[derive.SECTION] = layout[derive.SECTION]
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]
    return f"{config.redis.namespace}-{digest}"
