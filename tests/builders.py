"""Small plans, events by short arguments, and lanes that are fed one event at a time."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from relevanced.daemon.attribution import join_rules
from relevanced.daemon.events import Decoded, Feedback, Impression, LogRecord
from relevanced.daemon.lane import CONFIRMED_OVER_MS, MOST_NEAR, Lane, new_lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import (
    ClaimedLane,
    Commit,
    InForce,
    Layouts,
    confirm,
    plan_commit,
    rebuild,
)
from relevanced.daemon.timing import timing
from relevanced.daemon.worker import batch
from relevanced.metrics import parse
from tests.fakes import MemoryLane
from tests.replica import Row, row_dicts, rows_of

START_MS: Final = 1_795_176_000_000
"""A multiple of every pane below. The times of events are given in milliseconds after it."""
BASE_MS: Final = 10_000
ATTRIBUTION_MS: Final = 60_000
LATENESS_MS: Final = 5_000
SETTLE_MS: Final = ATTRIBUTION_MS + LATENESS_MS
TOPIC: Final = "events"

PLAN: Final = Plan(
    timing=timing([("5m", 300), ("1h", 3600)], attribution_s=60, lateness_s=5),
    metrics=(parse("P@2"), parse("RR"), parse("nDCG@5", max_grade=3)),
    groupings=(("country",),),
    grades={"click": 1.0, "cart": 2.0, "purchase": 3.0},
    max_segments=1,
    depth=5,
)


def plan_with(**changes: Any) -> Plan:
    return replace(PLAN, **changes)


def lane_of(*topics: str, plan: Plan = PLAN) -> Lane:
    """A lane that has seen nothing, of one topic unless they are named."""
    names = topics or (TOPIC,)
    return new_lane(0, plan, dict.fromkeys(names, 0), names)


# Events


def shown(
    at_ms: int, items: str = "a b c", *, of: str = "q", first_rank: int = 1, **more: Any
) -> Impression:
    """An impression; `items` are split at blanks."""
    return Impression(of, START_MS + at_ms, tuple(items.split()), first_rank=first_rank, **more)


def clicked(
    at_ms: int,
    item: str | None = None,
    *,
    rank: int | None = None,
    of: str = "q",
    kind: str = "click",
) -> Feedback:
    return Feedback(of, START_MS + at_ms, kind=kind, item=item, rank=rank)


def judged(
    at_ms: int, item: str, grade: float, *, of: str = "q", kind: str | None = None
) -> Feedback:
    return Feedback(of, START_MS + at_ms, kind=kind, item=item, grade=grade)


def passing(at_ms: int) -> Feedback:
    """Feedback of a kind without a grade: it only moves the watermark, by JUMP_MS at most."""
    return Feedback("passing", START_MS + at_ms, kind="hover", item="a")


def leaping(at_ms: int) -> list[Feedback]:
    """Such feedback that together moves the watermark to this instant, however far."""
    ids = [f"leap {n}" for n in range(MOST_NEAR // 2 - 1)]
    others = [msgspec.structs.replace(passing(at_ms), impression_id=id_) for id_ in ids]
    return [*others, passing(at_ms + CONFIRMED_OVER_MS)]


# What they change


def feed(lane: Lane, *events: Decoded, topic: str = TOPIC) -> list[str]:
    """Apply events one by one; returns the outcomes of each, or `waits`."""
    outcomes = []
    for event in events:
        before = _outcomes(lane)
        join_rules.apply(lane, topic, [event])
        outcomes.append(" ".join(sorted((_outcomes(lane) - before).elements())) or "waits")
    return outcomes


def _outcomes(lane: Lane) -> Counter[str]:
    return lane.counts["impression_outcomes"] + lane.counts["feedback_outcomes"]


def settled(lane: Lane, *events: Decoded, topic: str = TOPIC) -> list[str]:
    """Apply events as one batch, as far as rows and totals; returns the outcomes of each."""
    lane.start_batch()
    outcomes = feed(lane, *events, topic=topic)
    batch.advance(lane)
    return outcomes


def gains(lane: Lane, of: str = "q") -> list[float | None]:
    """The gain of each rank of the id's newest impression; None where there is no feedback."""
    slot = lane.open.slots_of(of)[-1]
    length, cells = lane.states[lane.open.states[lane.open.index_of(slot)]]
    return [dict(cells).get(rank0) for rank0 in range(length)]


def items(lane: Lane, of: str = "q") -> list[str | None]:
    return lane.open.list_of(lane.open.slots_of(of)[-1])


def row(lane: Lane, at_ms: int, *, window_s: int = 300, segment: str = "all") -> Row:
    """The row of the pane that starts then; empty where all of it is 0."""
    grouping = "all" if segment == "all" else "country"
    return rows_of(lane).get((window_s, (START_MS + at_ms) // 1000, grouping, segment), {})


def totals(lane: Lane, segment: str = "all") -> Row:
    grouping = "all" if segment == "all" else "country"
    return row_dicts(lane.totals.pages, lane.segments.names, lane.plan).get((grouping, segment), {})


# Records and the store


def record(value: Any, *, offset: int = 0, topic: str = TOPIC, timestamp: int = -1) -> LogRecord:
    """A log record of these bytes, or of this value as JSON."""
    data = value if isinstance(value, bytes | None) else msgspec.json.encode(value)
    return SimpleNamespace(
        topic=topic,
        partition=0,
        offset=offset,
        timestamp=timestamp,
        key=b"k",
        value=data,
        headers=(),
    )


def claimed(
    store: MemoryLane, token: str = "t1", *, plan: Plan = PLAN, topic: str = TOPIC
) -> ClaimedLane:
    """The lane as it is in the store, for a new owner."""
    head = store.claim(token, msgspec.json.encode({topic: 0}))
    return rebuild(0, Layouts(InForce(plan)), [topic], head, store.names, store.load(head))


def commit(store: MemoryLane, held: ClaimedLane, *events: Decoded) -> Commit:
    """Feed events as one batch and make it durable."""
    settled(held.lane, *events)
    planned = plan_commit(held)
    assert store.commit(planned) == "applied"
    confirm(held, planned)
    return planned
