"""The topic between the stage of `lanes = "rekey"` and its lanes."""

from dataclasses import dataclass

from ..values.kinds import JOIN, integer, setting
from .sections import TOPIC


@dataclass(frozen=True)
class RekeySection:
    """The topic that the stage writes and lanes read."""

    topic: str = setting(
        "relevanced-rekeyed",
        TOPIC,
        "Topic between stage and lanes; a hash is appended.",
        shapes=JOIN,
    )
    partitions: int = setting(
        8, integer(1, 1_000), "Its partitions where the daemon creates it, and lanes."
    )
