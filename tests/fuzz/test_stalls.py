"""No batch keeps the event loop, and so heartbeats and scrapes, from its turn for long."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Final
from unicodedata import combining

import pytest

from relevanced.daemon.config import KafkaSection
from relevanced.daemon.events import Decoder, Limits, decoder
from relevanced.daemon.lane import Lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import Derivation, QueryPlan
from relevanced.daemon.worker import MAX_BATCH_BYTES
from tests.builders import plan_with
from tests.daemon.events.records import FEEDBACK, IMPRESSION, NOON_MS
from tests.fuzz.machine_speed import slowdown
from tests.fuzz.settings import FACTOR
from tests.fuzz.stalls import worked
from tests.fuzz.test_bombs import NATIVE, UBI, numbered
from tests.services.slow_decoder import STALLING, SlowDecoder

RECORD_BYTES: Final = 1_000_000
"""Just below what a record may have by default."""
MAX_STALL_S: Final = 0.3
MAX_BATCH_S: Final = KafkaSection().session_timeout_s / 3
"""A batch that takes longer may cost its owner the lane (`worker/stalls.py`)."""
PLAN: Final = plan_with(groupings=(("country",), ("experiment:ranker-v2",)), depth=100)
LIMITS: Final = Limits(depth=100, max_grade=3.0, attributes=("country",), queries=True)
SEARCH: Final = {**IMPRESSION, "grades": None, "timestamp": NOON_MS}

# Many small records, each with work for the slower readers or the rules.

Records = Callable[[int], Mapping[str, object] | Sequence[object]]
MANY: Final[Mapping[str, Records]] = {
    "a new value in each repeated impression": lambda n: {
        **SEARCH,
        "attributes": {"country": f"c{n}"},
    },
    "a bad record between two": lambda n: {} if n % 2 else {**SEARCH, "impression_id": n},
    "arrays of two": lambda n: [{**FEEDBACK, "rank": n}, {}],
    "many judgements": lambda n: {
        **SEARCH,
        "impression_id": n,
        "items": [f"d{i}" for i in range(100)],
        "grades": {f"d{i}": 1 for i in range(100)},
    },
    "grades of no item": lambda n: {
        **SEARCH,
        "impression_id": n,
        "items": [f"d{i}" for i in range(100)],
        "grades": {f"x{i}": 1 for i in range(1_000)},
    },
    "interleaved lists": lambda n: {**SEARCH, "impression_id": n, "teams": ["a"] * 100},
    "escapes": lambda n: {**SEARCH, "impression_id": "\x01" * 40, "items": ["\x02" * 40] * 50},
    "pages": lambda n: {**SEARCH, "items": [f"p{n}"], "first_rank": 1 + n % 100},
}


def check(title: str, values: Sequence[bytes], format: str = "native", **how: Any) -> None:
    """Up to three times: a core that is shared makes CPU time longer too. What slows down all of a
    trial is measured beside it, and raises the limits."""
    decode = decoder(format, LIMITS)
    trials = (holds(title, values, decode, **how) for _ in range(3))
    assert any(trials), f"{title}: see the times above"


def holds(
    title: str,
    values: Sequence[bytes],
    decode: Decoder,
    plan: Plan = PLAN,
    most_stall_s: float = MAX_STALL_S,
    has_happened: Callable[[Lane], bool] = lambda lane: True,
    allowed_s: Callable[[], float] = lambda: 0.0,
) -> bool:
    """One trial. `allowed_s` does what these records cannot be without, and says how long that
    took: it is not counted."""
    before, allowed = slowdown(), allowed_s()
    done = worked(values, decode, plan)
    assert has_happened(done.lane), f"{title}: has not happened"
    slower = max(before, slowdown())
    batch_s = (done.total_s - max(allowed, allowed_s())) * times_in_a_batch(values)
    print(f"{title}: longest stall {done.stall_s:.3f} s; {batch_s:.2f} s in a full batch;", end=" ")
    print(f"limits {most_stall_s * slower:.2f} s and {MAX_BATCH_S * slower:.1f} s ({slower:.2f} ×)")
    return done.stall_s <= most_stall_s * slower and batch_s <= MAX_BATCH_S * slower


def times_in_a_batch(values: Sequence[bytes]) -> float:
    """How often these records fit into the largest batch of a topic-partition."""
    size = sum(map(len, values))
    return max(1.0, min(MAX_BATCH_BYTES / size, KafkaSection().max_batch_records / len(values)))


@pytest.mark.parametrize(
    ("format", "title"), [("native", title) for title in NATIVE] + [("ubi", title) for title in UBI]
)
def test_large_records_leave_turns_to_others(format: str, title: str) -> None:
    bomb = (NATIVE if format == "native" else UBI)[title](RECORD_BYTES)
    check(title, [bomb] * int(5 * min(FACTOR, 4)), format)


@pytest.mark.parametrize(
    "element", [b"{},", b'{"a":%d},', b'{"type":%d},', b'{"type":"feedback","rank":%d},', b"%d,"]
)
def test_arrays_of_refused_elements_leave_turns_to_others(element: bytes) -> None:
    bomb = (
        numbered(b"[", element, b"0]")
        if b"%d" in element
        else (lambda size: b"[" + element * (size // len(element)) + b"0]")
    )
    small, large = bomb(20_000), bomb(400_000)
    check("large arrays", [large] * 5)
    check("small arrays", [small] * 100)
    check("both", list(islice(cycle([small, large]), 20)))


# Work of one step that grows with what the lane holds, or with the whole batch.

WAITING: Final = 100_000
"""So much feedback waits for one impression."""


def click(number: int, at_ms: int = NOON_MS, **more: object) -> bytes:
    return json.dumps({**FEEDBACK, "timestamp": at_ms, "rank": 1 + number % 3, **more}).encode()


def later(seconds: int) -> list[bytes]:
    """Events that only move the watermark: so many ids confirm one another."""
    at_ms = NOON_MS + 1000 * seconds
    return [click(0, at_ms + 5_000 * n, impression_id=f"other{n}", kind="hover") for n in range(30)]


ENDS: Final[Mapping[str, Callable[[], Sequence[bytes]]]] = {
    "waiting feedback joins": lambda: [
        *(click(n) for n in range(WAITING)),
        json.dumps(SEARCH).encode(),
    ],
    "waiting feedback is bound, and joins a later page": lambda: [
        *(click(n, item="z") for n in range(WAITING)),
        json.dumps(SEARCH).encode(),
        json.dumps({**SEARCH, "first_rank": len(SEARCH["items"]) + 1, "items": ["z"]}).encode(),
    ],
    "waiting feedback expires": lambda: [*(click(n) for n in range(WAITING)), *later(86_400)],
    "impressions settle in one batch": lambda: [
        *(
            json.dumps(
                {**SEARCH, "impression_id": n, "attributes": {"country": f"c{n % 5_000}"}}
            ).encode()
            for n in range(40_000)
        ),
        *later(86_400),
    ],
    "impressions of many panes settle in one batch": lambda: [
        *(
            json.dumps({**SEARCH, "impression_id": n, "timestamp": NOON_MS + 1_000 * n}).encode()
            for n in range(20_000)
        ),
        *later(200_000),
    ],
}


@pytest.mark.parametrize("title", ENDS)
def test_what_a_lane_holds_leaves_turns_to_others(title: str) -> None:
    settles = "settle" in title
    check(
        title,
        ENDS[title](),
        has_happened=lambda lane: not len(lane.open if settles else lane.waiting),
    )


@pytest.mark.parametrize("title", MANY)
def test_many_small_records_leave_turns_to_others(title: str) -> None:
    size = len(json.dumps(MANY[title](0)))
    count = min(6_000, 10_000_000 // size)
    check(title, [json.dumps(MANY[title](number)).encode() for number in range(count)])


# Queries that are hard to normalise, or that take the slowest pattern longest.

SLOW_PATTERN: Final = r"\w*\w*x"
"""Two repeats in a row, each of which may begin and end anywhere: 1 to 2 ms on 128 letters."""
WITH_QUERIES: Final = plan_with(groupings=(("country",),), depth=100, queries=QueryPlan())
DERIVING: Final = plan_with(
    groupings=(("kind",),),
    depth=100,
    queries=QueryPlan(min_users=0),
    derivations=(Derivation("kind", patterns=(("x", SLOW_PATTERN),)),),
)
MARKS: Final = "".join(sorted(map(chr, range(0x300, 0x360)), key=combining, reverse=True)) * 11
HARD: Final[Mapping[str, tuple[Callable[[int], str], Plan]]] = {
    "marks in the worst order": (lambda n: f"{n}{MARKS}", WITH_QUERIES),
    "characters that become many": (lambda n: f"{n}" + "\ufdfa" * 1_024, WITH_QUERIES),
    "the slowest pattern": (lambda n: f"{n:05}" + "a" * 123, DERIVING),
}


@pytest.mark.parametrize(
    ("as_they_are", "in_arrays"),
    [(True, False), (False, False), (False, True)],
    ids=["plain", "decoded in full", "arrays"],
)
@pytest.mark.parametrize("title", HARD)
def test_hostile_queries_leave_turns_to_others(
    title: str, as_they_are: bool, in_arrays: bool
) -> None:
    query_of, plan = HARD[title]
    more: dict[str, object] = {} if as_they_are else {"grades": {"d3": 1}}
    searches = [
        {**SEARCH, **more, "impression_id": f"i{n}", "query": query_of(n)} for n in range(800)
    ]
    whole: Sequence[object] = searches
    if in_arrays:
        whole = [searches[first : first + 200] for first in range(0, len(searches), 200)]
    values = [json.dumps(one, ensure_ascii=False).encode() for one in whole]
    # Heartbeats get their turns while a pattern is matched once for each query: it costs no lane.
    texts = [query_of(n) for n in range(800)] if plan is DERIVING else []
    check(
        f"queries: {title}",
        values,
        plan=plan,
        most_stall_s=MAX_STALL_S / 2,
        allowed_s=lambda: matching_s(texts),
    )


def matching_s(texts: Sequence[str]) -> float:
    """CPU time of matching the slowest pattern once with each text."""
    search, began_s = re.compile(SLOW_PATTERN).search, time.thread_time()
    for text in texts:
        search(text)
    return time.thread_time() - began_s


def test_a_million_new_queries_settle_in_one_batch() -> None:
    """Scaled down: a fiftieth of them."""
    searches = (
        {**SEARCH, "impression_id": n, "query": f"query {n}", "timestamp": NOON_MS + 20 * n}
        for n in range(20_000)
    )
    values = [json.dumps(one).encode() for one in searches]
    check(
        "new queries settle",
        [*values, *later(86_400)],
        plan=WITH_QUERIES,
        has_happened=lambda lane: not len(lane.open),
    )


def test_a_stall_of_a_second_is_found_on_any_machine() -> None:
    """Eight of them in a full batch: too few to exceed what that may take."""
    value = b" " * RECORD_BYTES + json.dumps({**SEARCH, "query": STALLING.decode()}).encode()
    busy = SlowDecoder(decoder("native", LIMITS), 2 * MAX_STALL_S * slowdown())
    assert not any(holds("a busy loop", [value], busy) for _ in range(3))
