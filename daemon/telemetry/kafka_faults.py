"""The one table of faults of the input topics, and what an operator does about each. Pure.

Each fault has a counter, and its advice is in the log line that reports it.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

KafkaFault: TypeAlias = Literal[
    "unreachable",
    "tls",
    "login",
    "topic_missing",
    "not_permitted",
    "partly_assigned",
    "corrupt_batch",
    "unknown_codec",
    "unreadable",
    "aborted",
    "records_gone",
    "log_shorter",
    "log_replaced",
    "stuck",
    "other_redis",
    "unsent",
]
NoteFault: TypeAlias = Callable[[KafkaFault], None]

_SKIP: Final = (
    "If it stays unreadable, delete the records up to the end of the bad batch"
    " (kafka-delete-records with the offset after it). What is left out is counted as a gap,"
    " and reading continues."
)

_ACCEPT: Final = (
    "If the log that is there now is the right one, `relevanced lane accept-new-log TOPIC` lets the"
    " lane begin it from its start."
)

ADVICE: Final[Mapping[KafkaFault, str]] = {
    "unreachable": "Reading continues by itself when the brokers answer: check them,"
    " kafka.bootstrap_servers and the network between.",
    "tls": "Correct the setting that is named and restart, or correct the listener of the broker.",
    "login": "Correct what the reason names: files are read again by themselves, other settings at"
    " a restart. Or let the broker take the login, and reading continues.",
    "topic_missing": "Create the topic, or correct kafka.topics; the daemon notices by itself.",
    "not_permitted": "Allow this user READ and DESCRIBE on the topics, and READ on the consumer"
    " group; reading continues by itself.",
    "partly_assigned": "Give all input topics the same number of partitions, or add"
    ' lanes = "one" to [kafka].',
    "corrupt_batch": "A disk or a network damaged it; reading of other partitions"
    f" continues. {_SKIP}",
    "unknown_codec": "Let producers compress with gzip, snappy, lz4, zstd or not at all;"
    f" reading of other partitions continues. {_SKIP}",
    "unreadable": f"Reading of other partitions continues, and this one is tried again. {_SKIP}",
    "aborted": "A producer gave up a transaction: its records never count, and reading continues."
    " If it happens often, check what writes to this topic; only kafka.isolation_level ="
    ' "read_uncommitted" would count them.',
    "records_gone": "Kafka deleted them before they were read: a longer retention.ms, or more"
    " workers, prevent that from happening again.",
    "log_shorter": f"The log lost its end: restore it, and the lane goes on by itself. {_ACCEPT}",
    "log_replaced": f"This is not the log that was read. {_ACCEPT}",
    "stuck": "The client is replaced. If that happens often, check the brokers for one that hangs.",
    "unsent": "Sending continues by itself: check the brokers, min.insync.replicas, and that this"
    " user may write to the topic of the stage, read the input topics, and use the group.",
    "other_redis": "Correct redis.url, or kafka.group_id: this process stays out of the group, and"
    " those in it go on. Where its Redis has taken the place of the other one, stop what is left of"
    " that, and let it have the group: `relevanced lane take-group --config FILE`.",
}


def ignore_fault(_: KafkaFault) -> None:
    """Count nothing: the default of callers that have no telemetry."""
