"""What the readiness of a worker depends on, in words."""

import time
from collections.abc import Sequence

from ..exporter.published import Condition
from ..queries.keys import UNICODE_VERSION
from ..worker.ownership import Ownership
from ..worker.silence import silence_text, silent_topics, unread
from ..worker.worker import Worker


def worker_conditions(
    worker: Worker, ownership: Ownership, missing: str, brokers: Sequence[str]
) -> list[Condition]:
    """The conditions of a worker that has begun. `missing`: what a lost Redis could not be filled
    with again."""
    unanswered = "; ".join(f"{server}: {why}" for server, why in sorted(worker.waiting_for.items()))
    not_open = "; ".join(f"lane {lane}: {why}" for lane, why in sorted(ownership.not_open.items()))
    ahead = "; ".join(
        f"{partition}: its events are {ahead_s:.0f} s ahead of this machine's clock"
        for partition, ahead_s in sorted(worker.ahead_of_clock.items())
    )
    return [
        Condition("memory", not worker.memory.reason, worker.memory.reason),
        Condition("answers", not unanswered, unanswered),
        Condition("lanes_open", not not_open, not_open),
        Condition("clocks", not ahead, ahead),
        # These are stated, though the process does what it can.
        Condition("events", True, _silence(ownership, brokers)),
        Condition("history", True, missing),
        Condition("queries", True, _other_unicode(ownership)),
        *_files(worker),
    ]


def _files(worker: Worker) -> list[Condition]:
    """Dated files that cannot be read, or were refused by lanes, by what lanes need them for."""
    stated = worker.files.stated(time.time_ns() // 1_000_000)
    return [Condition(name, True, text) for name, text in stated.items()]


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


def unreadable(ownership: Ownership, brokers: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """(topics without one event, though records were read that are none, what to say of them)."""
    lanes = [owned.claimed.lane for owned in ownership.lanes.values()]
    topics = silent_topics([lane.watermarks for lane in lanes])
    reasons = unread([lane.counts for lane in lanes], topics) if topics else {}
    return (topics, silence_text(topics, len(lanes), reasons, brokers)) if reasons else ((), "")


def _silence(ownership: Ownership, brokers: Sequence[str]) -> str:
    """Which topics have not had one event."""
    topics, text = unreadable(ownership, brokers)
    if topics:
        return text
    lanes = [owned.claimed.lane for owned in ownership.lanes.values()]
    return silence_text(silent_topics([lane.watermarks for lane in lanes]), len(lanes))
