"""What a lane takes of the topic of the stage that divides events among lanes. Pure.

The stage sends at least once: what it sends may come again, from a run that began anew, or from an
old one that has not ended yet. Each message names the one before it of its source, so a lane takes
each once, and in the order of the source:

    not beyond the last that was taken          ─▶ repeat: dropped
    beyond it, but the one before it is too     ─▶ early: dropped, both come again
    else                                        ─▶ taken

Where the log has lost messages, nobody sends them again: the next one of a source is then taken
whatever it names.

The offsets of a topic that was created again begin anew: its messages would be repeats. So marks
tell the id of the topic, and a lane that took another one stops.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..errors import SourceReplaced
from ..events import AT_END, NOTHING, Mark, Of, Place
from .log_names import log_name

TAKEN: Final = "taken"
REPEAT: Final = "repeat"
EARLY: Final = "early"
WAY_OUT: Final = "Set [rekey] topic to a new name: all is then read again, under a new namespace."
"""What helps where a stage, or what it sends, does not fit to what lanes have taken."""


UNKNOWN: Final = ""
"""Stands for all sources of which nothing was taken, until a mark has named them."""


def verdict(last: Place, of: Of) -> str:
    """What becomes of a message, by the last that was taken of its source."""
    if of.place <= last:
        return REPEAT
    return EARLY if of.prev > last else TAKEN


class Taken(msgspec.Struct):
    """What a lane has taken; stored with it."""

    last: dict[str, Place] = {}
    """Log → the last message of it."""
    after_gap: set[str] = set()
    """The logs of which the next message may name any."""
    lives: dict[str, str] = {}
    """Topic → the id under which its events were taken."""


def lost_records(last: Place, mark: Mark) -> int:
    """How many records of a source were deleted before they were read, by a mark that is taken
    after this message. Those before it were read or told by a run that was not committed."""
    if mark.lost_from is None:
        return 0
    return max(mark.of.offset - max(mark.lost_from, last[0] + (last[1] >= 0)), 0)


@dataclass
class Chain:
    """The last message that was taken of each source."""

    taken: Taken = field(default_factory=Taken)
    end_ms: dict[str, int] = field(default_factory=dict)
    """Log → when it was last seen at its end: all that it had then was taken."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Messages by verdict since this was last reported: how the process works, and no part of the
    lane's counts."""

    def takes(self, of: Of) -> bool:
        """Whether a message counts; notes that it was taken. Nothing follows an end mark, which
        may come any number of times, or never."""
        log, taken = log_name(of.topic, of.partition), self.taken
        found = verdict(taken.last.get(log, NOTHING), of)
        entry = log if log in taken.last or UNKNOWN not in taken.after_gap else UNKNOWN
        if found == TAKEN:
            taken.after_gap.discard(log)  # nothing is missing up to here
        elif found == EARLY and entry in taken.after_gap:
            found = TAKEN
        self.outcomes[found] += 1
        if found == TAKEN and of.number != AT_END:
            taken.last[log] = of.place
            taken.after_gap.discard(log)
        return found == TAKEN

    def know_all(self, logs: Iterable[str]) -> None:
        """Note all logs that there are. What comes later has nothing that was lost before."""
        if UNKNOWN in self.taken.after_gap:
            self.taken.after_gap |= set(logs) - self.taken.last.keys()
            self.taken.after_gap.discard(UNKNOWN)

    def require_same_life(self, topic: str, life: str) -> None:
        """Note the id of a topic. Raises SourceReplaced where another one was taken."""
        known = self.taken.lives.setdefault(topic, life) if life else life
        if known != life:
            raise SourceReplaced(
                f"topic {topic} was deleted and created again: its id was {known} and is {life}."
                f" {WAY_OUT}"
            )

    def last_of(self, of: Of) -> Place:
        """The place of the last message that was taken of the same source."""
        return self.taken.last.get(log_name(of.topic, of.partition), NOTHING)

    def note_gap(self) -> None:
        """Note that messages are lost: who has sent them does not send them again."""
        self.taken.after_gap = {UNKNOWN, *self.taken.last}
        self.end_ms.clear()

    def complete_ms(self, logs: Iterable[str]) -> int | None:
        """Up to which instant all that these logs had was taken; None where one of them was not
        seen at its end."""
        seen = [self.end_ms.get(log) for log in logs]
        known = [at_ms for at_ms in seen if at_ms is not None]
        return min(known) if known and len(known) == len(seen) else None
