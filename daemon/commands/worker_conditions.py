"""What the readiness of a worker depends on, in words, and the topics that it cannot read."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import structlog

from ..backoff import stopped_within
from ..config import ONE, REKEY
from ..errors import SchemaNotThere
from ..exporter import Condition
from ..lane import Lane
from ..queries import UNICODE_VERSION
from ..recompute.unjoined import LEAST, Unjoined
from ..worker import (
    MUCH_OF_A_CORE,
    Ownership,
    Worker,
    silence_text,
    silent_topics,
    unread_reasons,
    waited_for_text,
)

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 5.0
LOOKS: Final = 3
"""So often in a row the same topics must be unreadable: the first records may be old ones."""

Unreadable: TypeAlias = tuple[tuple[str, ...], str]
"""(topics, what to say of them)."""


class Warnings:
    """Which topics were said to be unreadable."""

    def __init__(self) -> None:
        self._seen: tuple[str, ...] = ()
        self._looks = 0

    def due(self, topics: tuple[str, ...]) -> bool:
        """Note what a look found; returns whether it is to be said now: once, as long as the same
        topics are unreadable."""
        self._looks = self._looks + 1 if topics == self._seen else 1
        self._seen = topics
        return bool(topics) and self._looks == LOOKS


FEW: Final = 100
LEAST_WRONG: Final = 0.5
"""From this share of the feedback on, something is wrong with all of it."""


class FeedbackWatch(Protocol):
    """Looks at what becomes of feedback again and again."""

    @property
    def text(self) -> str:
        """What readiness says; empty while nothing is wrong."""

    def look(self, lanes: Sequence[Lane], now_s: float) -> bool:
        """Whether what is said begins now."""


class OutcomeWatch:
    """Says whether much of the feedback has an outcome that it should not have, from each 100
    pieces or more of some outcomes. `words` makes a sentence of (how many have it, how many)."""

    def __init__(
        self, among: tuple[str, ...], wrong: str, words: Callable[[int, int], str]
    ) -> None:
        self.text = ""
        """What readiness says; empty while little has it."""
        self._among, self._wrong, self._words = among, wrong, words
        self._before = (0, 0)

    def look(self, lanes: Sequence[Lane], now_s: float = 0.0) -> bool:
        """Compare the counts of lanes with those before, whenever that was."""
        outcomes = Counter[str]()
        for lane in lanes:
            outcomes.update(lane.counts.get("feedback_outcomes", {}))
        now = sum(outcomes[outcome] for outcome in self._among), outcomes[self._wrong]
        more, wrong = now[0] - self._before[0], now[1] - self._before[1]
        if 0 <= more < FEW and wrong >= 0:
            return False
        self._before, said = now, bool(self.text)
        if more >= FEW and wrong >= 0:
            self.text = self._words(wrong, more) if wrong >= LEAST_WRONG * more else ""
        return bool(self.text) and not said


def rank_watch() -> OutcomeWatch:
    """That of feedback which states another rank than that of its item."""
    return OutcomeWatch(("joined",), "rank_mismatch", _ranks_text)


def visitor_watch() -> OutcomeWatch:
    """That of feedback whose visitor has no impression in its lane, where last touch looks for
    one."""
    return OutcomeWatch(("joined_last_touch", "unjoined"), "unknown_visitor", _visitors_text)


def _visitors_text(unknown: int, asked: int) -> str:
    return (
        f"of {unknown:,} of the last {asked:,} pieces of feedback that last touch should join, the"
        " visitor has no impression in the same lane: both topics must be keyed by the visitor (or"
        f' [kafka] have lanes = "{ONE}"), and name visitors alike (relevanced doctor tells it)'
    )


def _ranks_text(wrong: int, joined: int) -> str:
    return (
        f"{wrong:,} of the last {joined:,} pieces of feedback that joined state another rank than"
        " that of their item: rank_base is not what the producer counts from (relevanced doctor"
        " tells it), or lists are logged in another order than shown"
    )


JOINS_WITHIN_S: Final = 300.0
"""Of feedback that comes for so long some joins, where ids are those of impressions."""


class JoinWatch:
    """Says why no feedback joins, once none has for JOINS_WITHIN_S though some came: by counts."""

    def __init__(self) -> None:
        self.text = ""
        """What readiness says; empty while feedback joins."""
        self._before = Counter[str]()
        self._since_s: float | None = None

    def look(self, lanes: Sequence[Lane], now_s: float) -> bool:
        """Compare the counts of lanes with those when feedback last joined; returns whether what is
        said begins. Lanes that are judged need no feedback."""
        outcomes = Counter[str]()
        for lane in lanes:
            outcomes.update(lane.counts["feedback_outcomes"])
        is_judged = any(lane.judged is not None for lane in lanes)
        found = Unjoined.of(lanes, {}, self._before) if lanes and not is_judged else None
        if found is None or found.joined or min(found.outcomes.values(), default=0) < 0:
            self.text, self._before, self._since_s = "", outcomes, now_s
            return False
        self._since_s = now_s if self._since_s is None else self._since_s
        if found.missed < LEAST or now_s - self._since_s < JOINS_WITHIN_S:
            return False
        # Readiness and the log show no values of records: ids may lead to a person.
        said, self.text = self.text, found.text(values=False)
        if self.text != found.text():
            self.text += " relevanced doctor --show-values has examples."
        return not said


CORE_OVER_S: Final = 60.0


class CoreWatch:
    """Says whether this process uses nearly all of the one core that a lane can use."""

    def __init__(self) -> None:
        self.text = ""
        """What readiness says; empty while there is room."""
        self._looks = deque[tuple[float, float]]()

    def look(self, now_s: float, cpu_s: float) -> None:
        """Note how much time of processors the process has used up to now."""
        self._looks.append((now_s, cpu_s))
        while len(self._looks) > 1 and self._looks[1][0] <= now_s - CORE_OVER_S:
            self._looks.popleft()
        since_s, before_s = self._looks[0]
        share = (cpu_s - before_s) / max(now_s - since_s, CORE_OVER_S)
        self.text = (
            f"this process uses {share:.0%} of a core, and more than one do not share a lane of all"
            f' partitions: give it a faster core, or set lanes = "{REKEY}" in [kafka]'
            if share >= MUCH_OF_A_CORE
            else ""
        )


async def warn_of_records(
    unreadable: Callable[[], Unreadable],
    outcomes: Callable[[], Sequence[str]],
    stop: asyncio.Event,
) -> None:
    """Look until the process is to stop: at topics without an event, and at what most feedback
    comes to."""
    warnings = Warnings()
    while not await stopped_within(stop, LOOK_EVERY_S):
        for words in outcomes():
            log.warning("most feedback is wrong", reason=words)
        topics, text = unreadable()
        if warnings.due(topics):
            log.warning("topics cannot be read", reason=text)


def worker_conditions(
    worker: Worker,
    ownership: Ownership,
    missing: str,
    brokers: Sequence[str],
    outcomes: Mapping[str, str],
) -> list[Condition]:
    """The conditions of a worker that has begun. `missing`: what a lost Redis could not be filled
    with again; `outcomes`: what is wrong with most feedback, by the condition's name."""
    waiting_for = dict(worker.waiting_for)
    new_ids = waiting_for.pop(SchemaNotThere.TEXT, "")
    unanswered = "; ".join(f"{server}: {why}" for server, why in sorted(waiting_for.items()))
    not_open = "; ".join(f"lane {lane}: {why}" for lane, why in sorted(ownership.not_open.items()))
    ahead = "; ".join(
        f"{partition}: its events are {ahead_s:.0f} s ahead of this machine's clock"
        for partition, ahead_s in sorted(worker.ahead_of_clock.items())
    )
    # Dated files that cannot be read, or were refused by lanes, by what lanes need them for.
    files = worker.files.stated(time.time_ns() // 1_000_000)
    return [
        Condition("memory", not worker.memory.reason, worker.memory.reason),
        Condition("answers", not unanswered, unanswered),
        Condition("lanes_open", not not_open, not_open),
        Condition("clocks", not ahead, ahead),
        # These are stated, though the process does what it can.
        Condition("events", True, _silence(ownership, brokers)),
        Condition("partitions", True, _waited_for(ownership)),
        Condition("keys", True, worker.misplaced.text),
        *(Condition(name, True, text) for name, text in outcomes.items()),
        Condition("schemas", True, f"{SchemaNotThere.TEXT}: {new_ids}" if new_ids else ""),
        Condition("history", True, missing),
        Condition("queries", True, _other_unicode(ownership)),
        *(Condition(name, True, text) for name, text in files.items()),
    ]


def _waited_for(ownership: Ownership) -> str:
    lanes = (owned.claimed.lane for owned in ownership.lanes.values())
    return "; ".join(filter(None, map(waited_for_text, lanes)))


def _other_unicode(ownership: Ownership) -> str:
    """Which lanes decided under another version of Unicode which texts are one query. It differs
    only in characters that the older one does not know."""
    lanes = [owned.claimed.lane for owned in ownership.lanes.values()]
    found = sorted(
        (lane.number, lane.queries.unicode)
        for lane in lanes
        if lane.queries is not None and lane.queries.unicode not in ("", UNICODE_VERSION)
    )
    return "; ".join(
        f"lane {number}: queries before this process have keys by Unicode {before}, those of it by"
        f" {UNICODE_VERSION}"
        for number, before in found
    )


def unreadable_topics(ownership: Ownership, brokers: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """(topics without one event, though records were read that are none, what to say of them)."""
    lanes = [owned.claimed.lane for owned in ownership.lanes.values()]
    topics = silent_topics([lane.watermarks for lane in lanes])
    reasons = unread_reasons([lane.counts for lane in lanes], topics) if topics else {}
    return (topics, silence_text(topics, len(lanes), reasons, brokers)) if reasons else ((), "")


def _silence(ownership: Ownership, brokers: Sequence[str]) -> str:
    topics, text = unreadable_topics(ownership, brokers)
    if topics:
        return text
    lanes = [owned.claimed.lane for owned in ownership.lanes.values()]
    return silence_text(silent_topics([lane.watermarks for lane in lanes]), len(lanes))
