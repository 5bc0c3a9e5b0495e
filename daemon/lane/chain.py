"""What a lane takes of the topic of the stage that divides events among lanes. Pure.

The stage sends at least once: what it sends may come again, from a run that began anew, or from an
old one that has not ended yet. Each message names the one before it of its source, so a lane takes
each once, and in the order of the source:

    not beyond the last that was taken          ─▶ repeat: dropped
    beyond it, but the one before it is too     ─▶ early: dropped, both come again
    else                                        ─▶ taken

A send that fails ends its run, and the next one begins where all was acknowledged: so what an early
message waits for comes again, and the early one after it.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ..events import IDLE, NOTHING, Of, Place
from .log_names import log_name

TAKEN: Final = "taken"
REPEAT: Final = "repeat"
EARLY: Final = "early"


def verdict(last: Place, of: Of) -> str:
    """What becomes of a message, by the last that was taken of its source."""
    if of.place <= last:
        return REPEAT
    return EARLY if of.prev > last else TAKEN


@dataclass
class Chain:
    """The last message that was taken of each source."""

    last: dict[str, Place] = field(default_factory=dict)
    """By log."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Messages by verdict since this was last reported: how the process works, and no part of the
    lane's counts."""

    def takes(self, of: Of) -> bool:
        """Whether a message counts; notes that it was taken. Nothing follows an idle mark, which
        may come any number of times, or never."""
        log = log_name(of.topic, of.partition)
        found = verdict(self.last.get(log, NOTHING), of)
        self.outcomes[found] += 1
        if found == TAKEN and of.number != IDLE:
            self.last[log] = of.place
        return found == TAKEN
