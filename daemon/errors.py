"""Errors of other systems, by what the caller does about them. Pure."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

Trouble: TypeAlias = Literal[
    "connection", "tls", "login", "permission", "full", "read-only", "other"
]
"""What is wrong with a server, by who mends it."""


class Unavailable(Exception):
    """A server, Kafka or Redis, does not answer in time or cannot do its work now: wait with jitter
    and try again. Nothing is lost. The text says which server and why."""

    trouble: Trouble = "other"


class Lost(Exception):
    """The caller is not the writer of the lane any more: drop the lane's memory and claim it
    again."""


class Damaged(Exception):
    """A part of a lane's state is missing or was not written by this version: this process cannot
    repair it."""


class SourceReplaced(Damaged):
    """A lane that took events of one topic gets those of another one of the same name. The text
    says the way out."""


class RecordRefused(Exception):
    """A topic will never accept this record as it is: it is too large, for instance."""


class StartError(Exception):
    """The process cannot start as configured; the text states what to change."""


class OtherRedis(Exception):
    """The consumer group belongs to another Redis than that of this process: leave it, and join
    only once that has changed."""


class RegistryUnavailable(Unavailable):
    """No address of the schema registry gives an answer. The text says which and how (`registry
    https://sr:8081 does not answer`)."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason
        """What the network said."""


class SchemaNotThere(RegistryUnavailable):
    """Every address of the registry says that it has no such schema, which one that lags says of a
    new schema too: ask again."""

    TEXT: Final = "the registry has no such schema"

    def __init__(self, reason: str) -> None:
        super().__init__(self.TEXT, reason)


class ConfigError(Exception):
    """The configuration cannot be used. `faults`: one text each, `section.key=value: rule`."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = list(faults)
