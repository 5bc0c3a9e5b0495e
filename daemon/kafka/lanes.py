"""The rules of the Kafka door: which lanes are whole, where reading goes on, who is to blame, when
to begin anew.

Pure: no client, no clock. A lane is partition number p of every input topic; a place is one of its
topic-partitions, as (topic, partition).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from ..worker.source import OffsetBeyondEnd

Place: TypeAlias = tuple[str, int]

FRESH_MS: Final = 5_000
"""A lane is caught up while the end of its log was seen so recently."""
FIRST_RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 60.0


class HasOffset(Protocol):
    """What the rules need of a record."""

    @property
    def offset(self) -> int:
        """Its place in the log of its topic-partition."""


R = TypeVar("R", bound=HasOffset)


def split_lanes(
    assigned: Iterable[Place], topics: Collection[str]
) -> tuple[frozenset[int], dict[int, list[str]]]:
    """The lanes assigned whole, and those assigned in part, with the topics that they lack."""
    held: dict[int, set[str]] = {}
    for topic, partition in assigned:
        held.setdefault(partition, set()).add(topic)
    missing = {lane: sorted(set(topics) - names) for lane, names in held.items()}
    whole = frozenset(lane for lane, names in missing.items() if not names)
    return whole, {lane: names for lane, names in sorted(missing.items()) if names}


def start_of_reading(place: Place, stored: int, log_start: int, log_end: int) -> tuple[int, int]:
    """Where to go on in a log that holds [log_start, log_end), and how many records were lost
    before that.

    1. Stored offset inside, or at the end: there. 2. Before the start: the records between are
    gone. 3. Beyond the end: this is not the log that was read; raises OffsetBeyondEnd.
    """
    if stored > log_end:
        raise OffsetBeyondEnd(*place, stored, log_end)
    start = max(stored, log_start)
    return start, start - stored


def not_yet_taken(records: Sequence[R], expected: int) -> Sequence[R]:
    """The records from the expected offset on.

    Lower ones were taken before. A first one that is higher is no loss: the log was asked for the
    expected offset, and answers with the next one that it holds (compaction, transaction markers
    and aborted transactions leave holes).
    """
    if not records or records[0].offset >= expected:
        return records
    return [record for record in records if record.offset >= expected]


def is_at_end(next_offset: int, end: int | None, seen_ms: int | None, now_ms: int) -> bool:
    """Whether everything up to the log's end, as it was less than FRESH_MS ago, has been taken."""
    if end is None or seen_ms is None:
        return False
    return next_offset >= end and now_ms - seen_ms <= FRESH_MS


def is_stuck(now_s: float, last_sign_s: float, session_timeout_s: float) -> bool:
    """Whether a consumer without a sign of life is better replaced.

    Two sessions: longer than any rebalance takes, and by then the lanes belong to others anyway.
    """
    return now_s - last_sign_s > 2 * session_timeout_s


class Silence:
    """Which places get no answer to their fetches while others do."""

    def __init__(self) -> None:
        self._since: dict[Place, tuple[int | None, float]] = {}
        self._answered_s = -math.inf
        """When an answer to any of them was last seen."""

    def heard(
        self, fetched_ms: Mapping[Place, int | None], now_s: float, longest_s: float
    ) -> list[Place]:
        """Those that had no answer for longer than `longest_s`, by what is known now of the last
        answer to each place that is fetched. None where no place had one in the last half of that
        time: that is the cluster."""
        before = self._since
        if any(place in before and before[place][0] != fetched_ms[place] for place in fetched_ms):
            self._answered_s = now_s
        self._since = {
            place: known if known[0] == answer else (answer, now_s)
            for place, answer in fetched_ms.items()
            for known in [before.get(place, (answer, now_s))]
        }
        silent = [p for p, (_, since_s) in self._since.items() if now_s - since_s > longest_s]
        return silent if now_s - self._answered_s <= longest_s / 2 else []


class LaneBook:
    """Which lanes are ours, which of them are open, and the next offset of each place of the open
    ones.

    `generation` changes with every assignment and revocation: who waited for something compares it
    to see whether what was true before still is.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        self.topics = tuple(topics)
        self.generation = 0
        self.assigned: frozenset[Place] = frozenset()
        self.whole: frozenset[int] = frozenset()
        self.partial: dict[int, list[str]] = {}
        self.next_offset: dict[Place, int] = {}
        self._open: set[int] = set()
        self._lost: set[int] = set()

    def assign(self, places: Iterable[Place]) -> None:
        """A rebalance ended: these are ours, none of them open."""
        self.revoke()
        self.assigned = frozenset(places)
        self.whole, self.partial = split_lanes(self.assigned, self.topics)

    def revoke(self) -> None:
        """Nothing is ours any more."""
        self.generation += 1
        self._lost |= self._open
        self._open.clear()
        self.assigned, self.whole, self.partial = frozenset(), frozenset(), {}
        self.next_offset.clear()

    def open(self, lane: int, offsets: Mapping[str, int]) -> None:
        """Reading of the lane begins at these offsets."""
        self._open.add(lane)
        self.next_offset.update({(topic, lane): offsets[topic] for topic in self.topics})

    def close(self, lane: int, *, lost: bool) -> None:
        """The lane is ours, but not read. `lost`: its holder does not know it yet."""
        if lane in self._open and lost:
            self._lost.add(lane)
        self._open.discard(lane)
        for place in self.places(lane):
            self.next_offset.pop(place, None)

    def places(self, lane: int) -> list[Place]:
        """The topic-partitions of a lane."""
        return [(topic, lane) for topic in self.topics]

    @property
    def open_lanes(self) -> frozenset[int]:
        """The lanes that are read."""
        return frozenset(self._open)

    def to_open(self) -> frozenset[int]:
        """The lanes that are ours and whole, and not read yet."""
        return self.whole - self._open

    def take_lost(self) -> frozenset[int]:
        """The lanes that stopped being read without their holder's doing, since the last call."""
        lost, self._lost = frozenset(self._lost), set()
        return lost


@dataclass(frozen=True)
class Fault:
    """A place that cannot be read: why, and when it is tried again."""

    reason: str
    retry_s: float
    pause_s: float


class Faults:
    """Who is to blame when a fetch fails.

    An error of the client names no topic-partition and costs the records of all that it had
    gathered. So all become *suspects*, which are read one by one, until each has either given what
    it holds or failed alone. Who fails alone is *blamed*: left out, and tried again after growing
    pauses, as a suspect.
    """

    def __init__(self) -> None:
        self.suspects: dict[Place, int] = {}
        self.blamed: dict[Place, Fault] = {}

    def suspect(self, places: Iterable[Place], now_ms: int) -> None:
        """All of these had a part in a failed fetch (those who are blamed had none)."""
        self.suspects.update({place: now_ms for place in places if place not in self.blamed})

    def blame(self, place: Place, reason: str, now_s: float) -> bool:
        """The place failed alone. True where that is news."""
        before = self.blamed.get(place)
        pause_s = min(before.pause_s * 2, LONGEST_RETRY_S) if before else FIRST_RETRY_S
        self.blamed[place] = Fault(reason, now_s + pause_s, pause_s)
        self.suspects.pop(place, None)
        return before is None or before.reason != reason

    def absolve(self, place: Place) -> bool:
        """The place was read without error. True where it had been blamed."""
        self.suspects.pop(place, None)
        return self.blamed.pop(place, None) is not None

    def try_again(self, now_s: float, now_ms: int) -> list[Place]:
        """The blamed whose pause is over; they are suspects now."""
        due = [
            place
            for place, fault in self.blamed.items()
            if fault.retry_s <= now_s and place not in self.suspects
        ]
        self.suspects.update(dict.fromkeys(due, now_ms))
        return due

    def left_out(self) -> set[Place]:
        """The places that are not read for now."""
        return self.blamed.keys() - self.suspects.keys()

    def keep(self, places: Collection[Place]) -> None:
        """Forget all others: they are no longer ours."""
        self.suspects = {place: seen for place, seen in self.suspects.items() if place in places}
        self.blamed = {place: fault for place, fault in self.blamed.items() if place in places}
