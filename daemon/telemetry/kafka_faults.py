"""The one table of faults of the input topics, and what a person does about each. Pure.

Each fault has a counter, and its advice is in the log line that reports it.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

KafkaFault: TypeAlias = Literal[
    "unreachable",
    "topic_missing",
    "not_permitted",
    "partly_assigned",
    "corrupt_batch",
    "unknown_codec",
    "unreadable",
    "aborted",
    "records_gone",
    "log_shorter",
    "stuck",
]
NoteFault: TypeAlias = Callable[[KafkaFault], None]

_SKIP: Final = (
    "If it stays, let the log begin behind it: kafka-delete-records with the offset after the bad"
    " batch. What is left out is counted as a gap, and reading goes on."
)

ADVICE: Final[Mapping[KafkaFault, str]] = {
    "unreachable": "Reading goes on by itself when the brokers answer: look at them, at"
    " kafka.bootstrap_servers and at the network between.",
    "topic_missing": "Create the topic, or correct kafka.topics; it is found by itself.",
    "not_permitted": "Allow this user READ and DESCRIBE on the topics, and READ on the consumer"
    " group; reading goes on by itself.",
    "partly_assigned": "Give all input topics the same number of partitions.",
    "corrupt_batch": f"A disk or a network damaged it; other partitions are read on. {_SKIP}",
    "unknown_codec": "Let producers compress with gzip, snappy, lz4, zstd or not at all; other"
    f" partitions are read on. {_SKIP}",
    "unreadable": f"Other partitions are read on, and this one is tried again. {_SKIP}",
    "aborted": "A producer gave up a transaction: its records never count, and reading goes on. If"
    " it happens often, look at what writes this topic; only kafka.isolation_level ="
    ' "read_uncommitted" would count them.',
    "records_gone": "Kafka deleted them before they were read: a longer retention.ms, or more"
    " workers, keep that from happening again.",
    "log_shorter": "The log is not the one that was read, or lost its end: put the topic back, or"
    " begin anew with another redis.namespace.",
    "stuck": "The client is replaced. If that happens often, look for brokers that hang.",
}


def ignore_fault(_: KafkaFault) -> None:
    """Count nothing: the default of callers that have no telemetry."""
