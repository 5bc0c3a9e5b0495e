"""The version of what is stored, and the names that it gives to namespace and consumer group.

A namespace contains one encoding only: a process that reads other bytes than it would write starts
a fresh namespace from the log beside the old one, which its own exporter serves as long as that
runs. No reader has to know two encodings.
"""

import hashlib
import json
from typing import Final

from ..config import Config, join_values

SCHEMA_VERSION: Final = 1
"""Of every stored byte: the fields of heads and `WriterState` (`head`), the names of keys (`keys`),
pages and integers (`keys`), blocks (`open_blocks`), experiments (`experiments`), admitted values.

A field with a default that is added at the end of an `array_like` struct reads older bytes as well
and needs no new version. Every other change does."""
HASH_DIGITS: Final = 8


def namespace_hash(config: Config) -> str:
    """Return 8 hexadecimal digits of everything that the join depends on, and of nothing else:
    the settings that `join_values` lists, and the version. The group of a stage is part of it: how
    far it sent stands there, and no two groups may send to one topic."""
    values = {"schema": SCHEMA_VERSION, **join_values(config)}
    if config.is_rekeyed:
        values["kafka.group_id"] = config.kafka.group_id
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:HASH_DIGITS]


def namespace(config: Config) -> str:
    """Return the first part of every Redis key of this configuration."""
    return f"{config.redis.namespace}-{namespace_hash(config)}"


def lane_topics(config: Config) -> tuple[str, ...]:
    """Return the topics that lanes read: the input topics, or that of the stage, which carries the
    hash."""
    if config.is_rekeyed:
        return (f"{config.rekey.topic}-{namespace_hash(config)}",)
    return config.kafka.topics


def consumer_group(config: Config) -> str:
    """Return the Kafka consumer group of this configuration. It carries the hash too: the offsets
    of a group belong to what is stored."""
    return f"{config.kafka.group_id}-{namespace_hash(config)}"


def stage_group(config: Config) -> str:
    """Return the consumer group of the stage that divides events among lanes."""
    return f"{config.kafka.group_id}-rekey-{namespace_hash(config)}"
