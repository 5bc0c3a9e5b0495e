"""Tables of queries in the store: changes of the layout, repairs, lost pages, other keys."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from relevanced.daemon.errors import Unavailable
from relevanced.daemon.events import decoder
from relevanced.daemon.lane import WHOLE
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import HASHED, QueryPlan, secret_fingerprint
from relevanced.daemon.storage import (
    QUERIES_FIELD,
    QueryHead,
    confirm,
    head_of,
    is_past,
    lose_hours,
    past_hour_keys,
    plan_commit,
    plan_repair,
    queries_hour_key,
    row_pages,
)
from tests.daemon.storage.test_layouts import ChangingMachine
from tests.daemon.test_queries_equality import (
    CONFIG,
    QueryMachine,
    decoded,
    logs_of,
    tables_of,
    with_queries,
)
from tests.replica import plan_of
from tests.seeds import seeds
from tests.streams import random_records, topic_names

HOUR_MS = CONFIG.hour_s * 1000
KEY, OTHER_KEY = b"a key of sixteen", b"another key, too"
OFF = plan_of(CONFIG)
PLANS = {
    "off": OFF,
    "on": replace(OFF, queries=QueryPlan(kept=3, min_users=2)),
    "one example": replace(OFF, queries=QueryPlan(kept=3, min_users=0, examples=1)),
    "no examples": replace(OFF, queries=QueryPlan(kept=3, min_users=2, examples=0)),
    "more": replace(OFF, queries=QueryPlan(kept=4, min_users=2)),
    "hashed": replace(OFF, queries=QueryPlan(text=HASHED, kept=3, key=KEY)),
}


def logs(seed: int) -> dict[str, Any]:
    rng, names = random.Random(seed), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=600, config=CONFIG)
    return logs_of(with_queries(records, rng, texts=30), names)[0]


class Machine(ChangingMachine):
    """A lane whose layouts differ in what they keep of queries."""

    def change(self, name: str) -> None:
        super().change(name)
        self.decode_for(self.plan)

    def decode_for(self, plan: Plan) -> None:
        self.decode = decoder(
            "native", msgspec.structs.replace(self.decode.limits, queries=plan.queries is not None)
        )

    def read_until(self, share: float) -> None:
        end = {topic: int(len(log) * share) for topic, log in self.logs.items()}
        while any(self.claimed.lane.offsets[topic] < end[topic] for topic in end):
            self.step(crashes=True)

    @property
    def head(self) -> QueryHead | None:
        return head_of(self.store.fields).queries


def machine(seed: int, first: str) -> Machine:
    made = Machine(random.Random(seed), logs(seed), first, PLANS)
    made.decode_for(made.plan)
    return made


@pytest.mark.parametrize("seed", seeds(6))
def test_tables_begin_with_the_first_whole_hour_of_impressions_that_have_queries(seed: int) -> None:
    changed, always = machine(seed, "off"), machine(seed, "on")
    always.read_until(1)
    changed.read_until(0.3)
    assert QUERIES_FIELD not in changed.store.fields
    changed.change("on")
    changed.read_until(1)
    head, whole = changed.head, always.head
    assert head is not None and whole is not None and head.since_ms is not None
    assert head.since_ms % HOUR_MS == 0
    expected = {start for start in whole.hours if start >= head.since_ms}
    assert set(head.hours) == expected and expected
    for start in expected:
        assert (
            changed.store.blobs[queries_hour_key(start)]
            == always.store.blobs[queries_hour_key(start)]
        )


@pytest.mark.parametrize("seed", seeds(6))
def test_change_keeps_the_hours_that_are_over_and_drops_the_open_one(seed: int) -> None:
    changed = machine(seed, "on")
    changed.read_until(0.5)
    before = changed.head
    assert before is not None
    changed.change("more")
    after = changed.head
    assert after is not None and after.hours == before.hours and after.since_ms is not None
    changed.read_until(1)
    head = changed.head
    assert head is not None and before.hours.items() <= head.hours.items()
    stored = {key for key in changed.store.blobs if key.startswith("queries:")}
    assert stored == {*head.hour_keys, *head.part_keys}
    assert all(start in before.hours or start >= after.since_ms for start in head.hours)


@pytest.mark.parametrize("seed", seeds(6))
def test_switched_off_a_claim_removes_all(seed: int) -> None:
    changed = machine(seed, "on")
    changed.read_until(0.6)
    changed.change("off")
    assert changed.head is None
    of_queries = ("queries:", "examples:")
    stored = (*changed.store.blobs, *changed.store.listed)
    assert not [key for key in stored if key.startswith(of_queries)]
    changed.read_until(1)
    never = machine(seed, "off")
    never.read_until(1)
    rows = [
        {k: v for k, v in m.store.blobs.items() if k.startswith(("rows", "hours", "totals"))}
        for m in (changed, never)
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("seed", seeds(6))
def test_change_of_examples_begins_with_a_whole_hour_and_none_drops_those_that_are_stored(
    seed: int,
) -> None:
    changed = machine(seed, "on")
    changed.read_until(0.5)
    before = changed.head
    assert before is not None and before.examples
    changed.change("one example")
    after = changed.head
    assert after is not None and after.since_ms is not None and not after.part_keys
    assert after.examples == before.examples and after.hours == before.hours
    changed.read_until(1)
    head = changed.head
    assert head is not None
    new = [start for start in head.examples if start not in before.examples]
    assert new and min(new) >= after.since_ms
    for start in new:
        hour = row_pages.unpacked_hour(changed.store.blobs[row_pages.examples_hour_key(start)])
        assert all(len(examples) == 1 for _, examples in hour.examples)
    changed.change("no examples")
    none = changed.head
    assert none is not None and none.examples == {} and none.hours == head.hours
    assert not [key for key in (*changed.store.blobs, *changed.store.listed) if "examples" in key]


@pytest.mark.parametrize("seed", seeds(6))
def test_examples_begin_with_the_first_whole_hour_of_their_layout(seed: int) -> None:
    changed, always = machine(seed, "no examples"), machine(seed, "on")
    always.read_until(1)
    changed.read_until(0.3)
    assert changed.head is not None and changed.head.examples == {}
    changed.change("on")
    changed.read_until(1)
    head, whole = changed.head, always.head
    assert head is not None and whole is not None and head.since_ms is not None
    assert set(head.examples) == {start for start in whole.examples if start >= head.since_ms}
    for key in head.example_keys:
        assert changed.store.blobs[key] == always.store.blobs[key]


@pytest.mark.parametrize("plan_of_commit", [plan_commit, plan_repair])
def test_lost_examples_are_found_removed_and_noted(plan_of_commit: Callable[..., Any]) -> None:
    lane = finished(2)
    head = head_of(lane.store.fields).queries
    assert head is not None and len(head.examples) > 1
    start, key = min(head.examples), row_pages.examples_hour_key(min(head.examples))
    assert key in past_hour_keys(lane.claimed.lane)
    assert is_past(head_of(lane.store.fields), key)
    del lane.store.blobs[key]
    assert lane.store.verify(lane.claimed.token, lane.claimed.sequence) == [key]
    lose_hours(lane.claimed.lane, [key])
    assert lane.claimed.lane.has_lost_hours
    commit = plan_of_commit(lane.claimed)
    assert lane.store.commit(commit) == "applied"
    confirm(lane.claimed, commit)
    after = head_of(lane.store.fields).queries
    assert after is not None and after.lost_examples == (start,) and after.lost == ()
    assert set(after.examples) == set(head.examples) - {start} and after.hours == head.hours
    assert key not in lane.store.listed
    again = lane.claim().lane.queries
    assert again is not None and again.examples.lost == {start}


def test_stored_blocks_have_no_plain_text_once_texts_are_hashed() -> None:
    changed = machine(1, "on")
    changed.read_until(0.6)
    changed.change("hashed")
    changed.claimed = changed.claim()
    keys = changed.claimed.lane.queries
    assert keys is not None and len(keys.keys) == 1
    changed.read_until(1)
    tables = tables_of(changed.store, changed.plan)
    since = changed.head.since_ms if changed.head else None
    listed = [t[WHOLE].keys for start, t in tables.items() if start >= (since or 0)]
    assert any(listed)
    assert not any(key.startswith("q") for keys_of_hour in listed for key in keys_of_hour)


def test_another_secret_key_does_not_open_the_lane_and_is_named() -> None:
    plan = QueryPlan(text=HASHED, key=KEY)
    lane = QueryMachine(random.Random(1), 0, logs(1), plan).run(crashes=False)
    lane.plan = replace(lane.plan, queries=replace(plan, key=OTHER_KEY))
    with pytest.raises(Unavailable, match="queries.key_file") as refusal:
        lane.claim()
    assert secret_fingerprint(KEY) in str(refusal.value) and secret_fingerprint(OTHER_KEY) in str(
        refusal.value
    )
    assert KEY.decode() not in str(refusal.value)


def finished(seed: int) -> QueryMachine:
    made = QueryMachine(random.Random(seed), 0, logs(seed), QueryPlan(kept=3, min_users=2))
    return made.run(crashes=False)


def test_repair_writes_all_that_the_owner_has() -> None:
    lane = finished(2)
    before = {start: decoded(t) for start, t in tables_of(lane.store, lane.plan).items()}
    parts = head_of(lane.store.fields).queries
    assert parts is not None and parts.part_keys
    for key in parts.part_keys:
        del lane.store.blobs[key]
    commit = plan_repair(lane.claimed)
    assert lane.store.commit(commit) == "applied"
    confirm(lane.claimed, commit)
    after = {start: decoded(t) for start, t in tables_of(lane.store, lane.plan).items()}
    assert after == before
    listed = {key for key in lane.store.listed if key.startswith("queries:")}
    assert listed == {key for key in lane.store.blobs if key.startswith("queries:")}
    assert {lane.store.listed[key] for key in listed} == {0}


@pytest.mark.parametrize("plan_of_commit", [plan_commit, plan_repair])
def test_hour_whose_page_is_lost_is_removed_and_noted(plan_of_commit: Callable[..., Any]) -> None:
    lane = finished(2)
    head = head_of(lane.store.fields).queries
    assert head is not None
    start = min(head.hours)
    assert queries_hour_key(start) in past_hour_keys(lane.claimed.lane)
    del lane.store.blobs[queries_hour_key(start)]
    lose_hours(lane.claimed.lane, [queries_hour_key(start)])
    commit = plan_of_commit(lane.claimed)
    assert lane.store.commit(commit) == "applied"
    confirm(lane.claimed, commit)
    after = head_of(lane.store.fields).queries
    assert after is not None and after.lost == (start,) and start not in after.hours
    assert queries_hour_key(start) not in lane.store.listed
