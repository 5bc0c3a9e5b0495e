"""A run that is joined at once changes a lane exactly as its events do one by one."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from relevanced.daemon.attribution import columns, runs, vectorized
from relevanced.daemon.events import Decoder, Limits, decoder
from relevanced.daemon.experiments import Spec, Tracking
from relevanced.daemon.lane import Lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import Derivation
from relevanced.daemon.worker import batch
from tests.builders import LATENESS_MS, START_MS, TOPIC, lane_of, plan_with, record
from tests.daemon.mapping.sources import mapper_of
from tests.replica import counts_of, open_of, rows_of
from tests.searches import QUERIES
from tests.seeds import seeds
from tests.whole_batch import process_batch

DECODE = decoder("native", Limits(max_grade=3.0, queries=True))
OTHERS: Final = Spec("", "control", 9, ("RR",), declared=False)
PLAN = plan_with(groupings=(("country",), ("country", "device")), max_segments=1)
DERIVING = plan_with(
    groupings=(("country",), ("length", "country")),
    max_segments=1,
    derivations=(
        Derivation("length", words=(1, 2)),
        Derivation("kind", patterns=(("sku", r"^[a-z]{2}\d+$"), ("brand", "nike"))),
    ),
)
PLANS: Final = {
    "as recorded": PLAN,
    "derived": DERIVING,
    "units derived": replace(
        DERIVING, tracking=Tracking({"r": Spec("r", "control", 9, ("RR",), unit="kind")}, 0, OTHERS)
    ),
}
ALONE: Final = 1_000_000
KINDS: Final = ("click", "click", "cart", "purchase", "view")


def traffic(rng: random.Random, events: int) -> list[bytes]:
    """Plain traffic, with a little of everything that is not plain."""
    values, shown = [], []
    for number in range(events):
        at_ms = START_MS + 200 * number + rng.randrange(400)
        if not shown or rng.random() < 0.5:
            items = [any_id(rng) for _ in range(rng.choice((0, 1, 4, 7)))]
            one = {"type": "impression", "impression_id": f"q{number}", "timestamp": at_ms}
            country = rng.choice("ABCDE" * 4 + "pqrstuvwxyz")
            one |= {"items": items, "attributes": {"country": country}}
            one |= {"query": rng.choice(QUERIES), "experiments": {"r": rng.choice("ab")}}
            shown.append(one)
        else:
            before = rng.choice(shown[-60:])
            one = {"type": "feedback", "impression_id": before["impression_id"]}
            one |= {"timestamp": at_ms, "kind": rng.choice(KINDS)}
            one |= {"item": rng.choice([*before["items"], any_id(rng), "nowhere"])}
            if rng.random() < 0.5:
                one["rank"] = rng.randrange(1, 4)
        values.append(spelled(rng, varied(rng, one, shown)))
    return values


def spelled(rng: random.Random, one: object) -> bytes:
    """An event in one of the ways that producers write: ids may hold what JSON is written with."""
    if isinstance(one, dict) and rng.random() < 0.2:
        at = datetime.fromtimestamp(int(one.get("timestamp", START_MS)) / 1000, UTC)
        one = one | {"timestamp": rng.choice((at.isoformat(), "2026-11-20T12:00Z", "yesterday"))}
    separators = (",", ":") if rng.random() < 0.5 else (", ", ": ")
    return json.dumps(one, separators=separators, ensure_ascii=rng.random() < 0.5).encode()


def any_id(rng: random.Random) -> str | int:
    drawn = rng.random()
    if drawn < 0.6:
        return f"d{rng.randrange(50)}"
    return (
        rng.randrange(9)
        if drawn < 0.7
        else "".join(rng.choices('ab,"\\[]ü', k=rng.randrange(1, 4)))
    )


def varied(rng: random.Random, one: dict[str, object], shown: list[dict[str, object]]) -> object:
    """The same event, or something else one time in twelve."""
    if rng.random() > 1 / 12:
        return one
    before = rng.choice(shown)
    changes: list[object] = [
        before,
        before | {"first_rank": 8, "items": ["p1", "p2"]},
        before | {"items": ["other"]},
        one | {"timestamp": START_MS - 10 * LATENESS_MS},
        one | {"grade": 2} if one["type"] == "feedback" else one | {"grades": {"d1": 1}},
        [one, one],
        {"type": "feedback"},
        one | {"impression_id": "early"},
    ]
    return rng.choice(changes)


def subjects_of(lane: Lane) -> list[tuple[bytes, list[int]]]:
    """The hashed units of the open impressions of an experiment."""
    columns = lane.open.subjects
    if columns is None:
        return []
    return sorted((lane.open.ids[n], units) for n, units in enumerate(columns.units().tolist()))


def after(
    values: list[bytes], plan: Plan, small_run: int, cut: int, decode: Decoder = DECODE
) -> Lane:
    lane = lane_of(plan=plan)
    for start in range(0, len(values), cut):
        records = [record(value) for value in values[start : start + cut]]
        process_batch(lane, {TOPIC: records}, {}, decode, small_run)
        lane.start_batch()
    return lane


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("seed", seeds(12))
def test_joined_at_once_is_joined_one_by_one(seed: int, plan: Plan) -> None:
    values = traffic(random.Random(seed), 600)
    one_by_one = after(values, plan, small_run=ALONE, cut=150)
    for small_run, cut in ((1, 150), (1, 600), (vectorized.SMALL_RUN, 150)):
        lane = after(values, plan, small_run, cut)
        assert lane.counts["segment_overflow"].total() > 20
        assert rows_of(lane) == rows_of(one_by_one)
        assert counts_of(lane) == counts_of(one_by_one)
        assert open_of(lane) == open_of(one_by_one)
        assert lane.watermarks == one_by_one.watermarks
        assert subjects_of(lane) == subjects_of(one_by_one)


MAPPING: Final = """
[sources.impression]
where = "type == 'impression'"
id = "impression_id"
time = "timestamp"
items = "items"
first_rank = "first_rank"
attributes = { country = "attributes.country", device = "attributes.device" }
experiments = { map = "experiments" }
query = "query"
[sources.feedback]
where = "type == 'feedback'"
id = "impression_id"
time = "timestamp"
kind = "kind"
item = "item"
rank = "rank"
"""


@pytest.mark.parametrize("seed", seeds(6))
def test_mapped_records_derive_the_same_at_once_and_one_by_one(seed: int) -> None:
    decode = mapper_of(MAPPING, DECODE.limits)
    plan = replace(PLANS["units derived"], max_segments=20)
    values = traffic(random.Random(seed), 600)
    one_by_one = after(values, plan, small_run=ALONE, cut=1, decode=decode)
    at_once = after(values, plan, small_run=1, cut=150, decode=decode)
    assert at_once.texts._ids_by_values, "they are compiled"
    assert rows_of(at_once) == rows_of(one_by_one)
    assert (counts_of(at_once), open_of(at_once)) == (counts_of(one_by_one), open_of(one_by_one))
    assert subjects_of(at_once) == subjects_of(one_by_one)
    found = {name.partition(",")[0] for grouping, name in at_once.segments.names if grouping == 2}
    assert found == {"1", "2", "3+", "(none)"}


@pytest.mark.parametrize("seed", seeds(4))
def test_a_batch_in_pieces_gives_the_same_numbers(seed: int) -> None:
    values = traffic(random.Random(seed), 600)
    whole, cut = after(values, PLAN, small_run=1, cut=600), lane_of(plan=PLAN)
    batch.begin(cut)
    for topic, records in batch.chunks({TOPIC: [record(value) for value in values]}, most=130):
        for _ in batch.steps(cut, topic, records, DECODE, [], small_run=1):
            pass
    batch.end(cut, {})
    cut.start_batch()
    assert (rows_of(cut), counts_of(cut), open_of(cut)) == (
        rows_of(whole),
        counts_of(whole),
        open_of(whole),
    )


@pytest.mark.parametrize("seed", seeds(4))
def test_records_that_are_long_are_applied_in_their_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = traffic(random.Random(seed), 600)
    whole = after(values, PLAN, small_run=1, cut=600)
    for module in (columns, runs):
        monkeypatch.setattr(module, "LONG_RECORD_BYTES", 130)
    for cut in (7, 600):
        slowly = after(values, PLAN, small_run=1, cut=cut)
        assert (rows_of(slowly), counts_of(slowly)) == (rows_of(whole), counts_of(whole))
        assert open_of(slowly) == open_of(whole)


def test_lists_that_are_too_long_together_are_searched_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = traffic(random.Random(1), 300)
    whole = after(values, PLAN, small_run=1, cut=300)
    monkeypatch.setattr(vectorized, "MOST_TEXT_BYTES", 100)
    parts = after(values, PLAN, small_run=1, cut=300)
    assert (rows_of(parts), counts_of(parts)) == (rows_of(whole), counts_of(whole))


def test_most_of_plain_traffic_is_joined_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would compare one way with itself."""
    alone = 0

    def counted(*arguments: Any) -> Iterator[None]:
        nonlocal alone
        alone += 1
        return event_steps(*arguments)

    event_steps = vectorized.join_rules.event_steps
    monkeypatch.setattr(vectorized.join_rules, "event_steps", counted)
    values = traffic(random.Random(1), 3000)
    after(values, PLAN, small_run=1, cut=1000)
    assert alone < len(values) / 2


def test_a_stated_rank_of_zero_is_a_mismatch() -> None:
    shown = {"type": "impression", "impression_id": "q", "timestamp": START_MS, "items": ["a"]}
    click = {"type": "feedback", "impression_id": "q", "timestamp": START_MS + 1, "kind": "click"}
    values = [json.dumps(one).encode() for one in (shown, shown | {"impression_id": "p"})]
    values.append(json.dumps(click | {"item": "a", "rank": 0}).encode())
    lane = after(values, PLAN, small_run=1, cut=3)
    assert counts_of(lane)["feedback_outcomes"] == {"joined": 1, "rank_mismatch": 1}


@pytest.mark.parametrize(("passed_ms", "joined"), [(-1, 1), (0, 0)])
def test_an_impression_that_closes_within_the_run_takes_no_more_feedback(
    passed_ms: int, joined: int
) -> None:
    first = {"type": "impression", "impression_id": "q", "timestamp": START_MS, "items": ["a"]}
    closed_ms = PLAN.timing.closes_at(START_MS) + passed_ms
    click = {"type": "feedback", "impression_id": "q", "timestamp": START_MS + 9, "kind": "click"}
    events = [first, first | {"impression_id": "p", "timestamp": closed_ms}, click | {"item": "a"}]
    lane = after([json.dumps(one).encode() for one in events], PLAN, small_run=1, cut=3)
    assert counts_of(lane)["feedback_outcomes"] == ({"joined": 1} if joined else {})
    assert len(lane.waiting) == 1 - joined


@pytest.fixture
def one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ids have the same hash."""
    for module in (vectorized, columns, runs):
        monkeypatch.setattr(
            module, "hashes_of", lambda ids, count: vectorized.np.zeros(count, "i8")
        )
    monkeypatch.setattr("relevanced.daemon.lane.open_impressions.hash_of", lambda text: 0)


def test_ids_with_the_same_hash_are_distinguished(
    one_hash: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = traffic(random.Random(3), 200)
    collided = after(values, PLAN, small_run=1, cut=50)
    monkeypatch.undo()
    assert rows_of(collided) == rows_of(after(values, PLAN, small_run=ALONE, cut=50))


@pytest.mark.usefixtures("one_hash")
def test_feedback_does_not_join_an_impression_that_only_has_the_hash_of_its_id() -> None:
    shown = {"type": "impression", "impression_id": "q", "timestamp": START_MS, "items": ["a"]}
    click = {"type": "feedback", "impression_id": "p", "timestamp": START_MS + 1, "kind": "click"}
    values = [json.dumps(one).encode() for one in (shown, click | {"item": "a"})]
    lane = after(values, PLAN, small_run=1, cut=2)
    assert len(lane.waiting) == 1 and not counts_of(lane)["feedback_outcomes"]


@pytest.mark.parametrize("waiting", [1, 400])
def test_impressions_that_feedback_waits_for_are_joined_with_it(waiting: int) -> None:
    """Whether more ids wait than impressions come, or fewer."""
    click = {"type": "feedback", "timestamp": START_MS + 1, "kind": "click", "item": "a"}
    shown = {"type": "impression", "timestamp": START_MS, "items": ["a"]}
    early = [json.dumps(click | {"impression_id": f"q{n}"}).encode() for n in range(waiting)]
    then = [json.dumps(shown | {"impression_id": f"q{n}"}).encode() for n in range(100)]
    lane = after(early + then, PLAN, small_run=1, cut=waiting)
    assert counts_of(lane)["feedback_outcomes"] == {"joined": min(waiting, 100)}
    assert len(lane.waiting) == max(waiting - 100, 0)
