"""A configuration as TOML, the namespace it gives, and what a change restarts. Pure."""

import hashlib
import json
from collections.abc import Iterator
from typing import Final

from . import experiments, propensities
from .settings import SETTINGS, Config

SCHEMA_VERSION: Final = 2
"""Of what is stored. A new one starts fresh namespaces."""
HASH_DIGITS: Final = 8


def namespace_hash(config: Config) -> str:
    """8 hexadecimal digits of everything that shapes rows, and of nothing else."""
    shape = {"schema": SCHEMA_VERSION, **_shape(config)}
    if config.propensities is None:
        del shape[propensities.SECTION]  # nothing to hash: as before there were any
    canonical = json.dumps(shape, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]


def namespace(config: Config) -> str:
    """The first part of every Redis key of this configuration."""
    return f"{config.redis.namespace}-{namespace_hash(config)}"


def consumer_group(config: Config) -> str:
    """The Kafka consumer group of this configuration."""
    return f"{config.kafka.group_id}-{namespace_hash(config)}"


def what_differs(old: Config, new: Config) -> list[str]:
    """Keys with another value, in the order of the table; propensities as one."""
    differing = [s.key for s in SETTINGS if s.value(old) != s.value(new)]
    return differing + [propensities.SECTION] * (old.propensities != new.propensities)


def what_restarts(old: Config, new: Config) -> list[str]:
    """Keys whose change starts a fresh namespace from the log."""
    before, after = _shape(old), _shape(new)
    return [key for key in before if before[key] != after[key]]


def describe(config: Config) -> str:
    """The effective configuration as TOML, secrets masked; keys that are not set as comments."""
    return "\n".join(_lines(config)) + "\n"


def _shape(config: Config) -> dict[str, object]:
    """Canonical: spellings and orders that mean the same give the same."""
    shape = {setting.key: setting.value(config) for setting in SETTINGS if setting.restarts}
    by_length = sorted(config.windows, key=lambda window: window[1])
    return shape | {
        "windows": by_length,
        "kafka.topics": sorted(config.kafka.topics),
        "metrics.names": [metric.name for metric in config.parsed_metrics],
        "metrics.max_grade": config.resolved_max_grade,
        propensities.SECTION: propensities.shape(config.propensities),
    }


def _lines(config: Config) -> Iterator[str]:
    section = ""
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            yield ""
            yield f"[{section}]"
        written = setting.written(config)
        yield f"# {setting.name} is not set" if written is None else f"{setting.name} = {written}"
    yield from experiments.written(config.experiments)
    yield from propensities.written(config.propensities)
