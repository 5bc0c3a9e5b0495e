"""Examples of queries follow from the log: whatever the cut into batches, the interleaving of
topics, the crashes and the repairs, they are those of a slow oracle, and have the same bytes."""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.lane import ExamplesByKey, query_examples
from relevanced.daemon.panes import pane_start
from relevanced.daemon.queries import HASHED, NO_SCORE, Example, QueryPlan
from relevanced.daemon.storage import (
    QueryHead,
    confirm,
    head_of,
    plan_repair,
    row_pages,
    unpacked_hour,
)
from tests import oracle
from tests.daemon.queries.oracle import OracleExample, OracleTable
from tests.daemon.test_equality import Machine, logs_of
from tests.daemon.test_queries_equality import CONFIG, QueryMachine, with_queries
from tests.fakes import MemoryLane
from tests.oracle import Accepted, LaneResult, OracleConfig, Record
from tests.seeds import seeds
from tests.streams import random_records, topic_names

SEEDS = seeds(6)
FEW = replace(CONFIG, max_segments=1)
"""So few values are admitted that many impressions count as `other`."""
CONFIGS: Final = {
    "no score may be undefined": replace(CONFIG, metric_names=("P@1", "nDCG@10")),
    "scores may be undefined": replace(CONFIG, metric_names=("nDCG@10",)),
    "lower is better": replace(FEW, metric_names=("FirstFeedbackSeconds", "P@1")),
    "scores of many values": replace(FEW, metric_names=("RR@10", "P@1")),
}
LONG_HOURS: Final = replace(CONFIG, metric_names=("P@1",), hour_s=450)
Found = dict[int, dict[str, list[OracleExample]]]
KEY: Final = b"a key of sixteen"


def expected_of(
    result: LaneResult, config: OracleConfig, plan: QueryPlan, first_rows: int = 100
) -> tuple[Found, int | None]:
    """Start of an hour → query → its examples, of the hours that are kept; and the hour that is
    open, if it has any row."""
    marks = [mark for mark in result.watermarks.values() if mark is not None]
    if len(marks) < len(result.watermarks):
        return {}, None
    base, hour_ms = oracle.base_pane_ms(config), config.hour_s * 1000
    waits_ms = (config.attribution_window_s + config.lateness_s) * 1000
    settled_before = (min(marks) - waits_ms) // base * base
    by_pane: dict[int, list[Accepted]] = defaultdict(list)
    for one in result.impressions:
        by_pane[one.time_ms // base * base].append(one)
    hours: dict[int, OracleTable] = {}
    for pane in sorted(pane for pane in by_pane if pane < settled_before):
        fresh = OracleTable(1, plan.kept, plan.min_users, examples=plan.examples, first=first_rows)
        table = hours.setdefault(pane // hour_ms * hour_ms, fresh)
        table.settle([(query_of(one), (1,), user_of(one)) for one in by_pane[pane]])
        table.take([(query_of(one), example_of(one, config, plan)) for one in by_pane[pane]])
    for start, table in hours.items():
        if start + hour_ms <= settled_before:
            table.close()
    first = settled_before // hour_ms * hour_ms - 24 * hour_ms
    found = {start: table.taken for start, table in hours.items() if start >= first}
    still_open = [start for start in hours if start + hour_ms > settled_before]
    return {start: taken for start, taken in found.items() if taken}, max(still_open, default=None)


def query_of(one: Accepted) -> str:
    assert one.event is not None
    return one.event.attributes.get("country", "")


def user_of(one: Accepted) -> int:
    assert one.event is not None
    return 0 if one.event.user_id is None else 1 + int(one.event.user_id.removeprefix("u"), 36)


def example_of(one: Accepted, config: OracleConfig, plan: QueryPlan) -> OracleExample:
    assert one.event is not None
    numbers, name = oracle.contribution(one, config), config.metric_names[0]
    sign = -1 if name == "FirstFeedbackSeconds" else 1
    known = {
        attribute: one.event.attributes[attribute]
        for names in config.groupings
        for attribute in names
        if one.segments[",".join(names)] != "other" and attribute in one.event.attributes
    }
    return OracleExample(
        score=sign * numbers[f"{name}:sum"] if numbers[f"{name}:scored"] else None,
        id=one.id,
        time_ms=one.time_ms,
        items=tuple(one.items[:10]),
        gains=tuple(oracle.gains(one)[:10]),
        attributes=tuple(sorted((n, v) for n, v in known.items() if n != plan.user)),
        segment="" if plan.by is None else one.segments[plan.by],
    )


def as_oracle(one: Example) -> OracleExample:
    return OracleExample(
        score=None if one.sort_score == NO_SCORE else one.sort_score,
        id=one.impression_id,
        time_ms=one.time_ms,
        items=one.items,
        gains=one.gains,
        attributes=tuple(sorted(one.attributes.items())),
        segment=one.segment,
    )


def head_in(store: MemoryLane) -> QueryHead:
    head = head_of(store.fields).queries
    assert head is not None
    return head


def stored_examples(store: MemoryLane) -> dict[int, ExamplesByKey]:
    """Start of an hour → key → examples, as a reader finds them: also of the open hour."""
    return examples_in(head_in(store), store.blobs)


def examples_in(head: QueryHead, blobs: Mapping[str, bytes | None]) -> dict[int, ExamplesByKey]:
    """The same from the head and the values of a store."""
    found = dict[int, ExamplesByKey]()
    for start in head.examples:
        data = blobs[row_pages.examples_hour_key(start)] or b""
        found[start] = row_pages.by_key_of(row_pages.unpacked_hour(data).examples)
    parts: dict[str, tuple[Example, ...]] = {}
    for key in head.part_keys:
        part = unpacked_hour(blobs[key] or b"")
        parts = ({} if part.is_whole else parts) | row_pages.by_key_of(part.examples)
    return found | ({head.hour_ms or 0: parts} if parts else {})


def found_in(store: MemoryLane) -> Found:
    return {
        start: {key: list(map(as_oracle, examples)) for key, examples in by_key.items()}
        for start, by_key in stored_examples(store).items()
    }


def random_logs(
    rng: random.Random, topics: int, config: OracleConfig, events: int = 400, texts: int = 0
) -> Sequence[Record]:
    records = random_records(rng, topics=topics, partitions=1, events=events, config=config)
    return with_queries(records, rng, texts=texts or rng.choice((3, 12, 150)))


@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", SEEDS)
def test_examples_are_those_of_the_oracle(seed: int, name: str, topics: int, crashes: bool) -> None:
    rng, names, config = random.Random(seed), topic_names(topics), CONFIGS[name]
    records = random_logs(rng, topics, config)
    plan = QueryPlan(
        by=rng.choice((None, "country")),
        kept=rng.choice((1, 4, 1000)),
        min_users=rng.choice((0, 2, 3)),
        examples=rng.choice((1, 2, 5)),
        user=rng.choice(("user_id", "user_id", "device")),
    )
    if plan.user == "device":
        plan = replace(plan, min_users=0)  # the oracle counts users by their id
    result = oracle.run(records, names, config)[0]
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], plan, config).run(crashes)
    expected, _ = expected_of(result, config, plan)
    assert found_in(machine.store) == expected
    again = machine.claim().lane.queries
    assert again is not None
    head = head_in(machine.store)
    assert again.examples.stored == head.examples
    assert set(again.examples.by_key) == set(expected.get(head.hour_ms or 0, ()))


@pytest.mark.parametrize("first_rows", [1, 2, 5])
@pytest.mark.parametrize("seed", SEEDS)
def test_examples_are_those_of_the_first_rows(
    seed: int, first_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_examples, "FIRST_ROWS", first_rows)
    rng, names = random.Random(seed), topic_names(1)
    records = random_logs(rng, 1, LONG_HOURS, texts=rng.choice((12, 60)))
    plan, result = QueryPlan(min_users=0), oracle.run(records, names, LONG_HOURS)[0]
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], plan, LONG_HOURS).run(crashes=True)
    expected, _ = expected_of(result, LONG_HOURS, plan, first_rows)
    assert found_in(machine.store) == expected
    assert expected != expected_of(result, LONG_HOURS, plan)[0], "the rule says something here"


@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
@pytest.mark.parametrize("seed", SEEDS)
def test_row_that_comes_back_begins_without_examples(seed: int, crashes: bool) -> None:
    rng, names = random.Random(seed), topic_names(1)
    records = random_logs(rng, 1, LONG_HOURS)
    plan, result = QueryPlan(min_users=0, kept=1), oracle.run(records, names, LONG_HOURS)[0]
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], plan, LONG_HOURS).run(crashes)
    assert found_in(machine.store) == expected_of(result, LONG_HOURS, plan)[0]


def test_logs_of_these_tests_have_what_may_go_wrong() -> None:
    """Examples of undefined scores, blanks, later gains, rows that were cut, hours that went."""
    seen: set[str] = set()
    for seed in range(10):
        for name, config in CONFIGS.items():
            rng = random.Random(seed)
            records = random_logs(rng, 1, config)
            plan = QueryPlan(kept=4, min_users=0, examples=5)
            result = oracle.run(records, topic_names(1), config)[0]
            found, _ = expected_of(result, config, plan)
            for one in (e for of in found.values() for of_key in of.values() for e in of_key):
                seen |= {"undefined"} if one.score is None else set()
                seen |= {"blank"} if None in one.items else set()
                seen |= {"gain"} if any(one.gains) else set()
                seen |= {"no attribute"} if not one.attributes else set()
            whole, _ = expected_of(result, config, replace(plan, kept=1000))
            seen |= {"cut"} if any(len(found[h]) < len(whole[h]) for h in found) else set()
            first = min(one.time_ms for one in result.impressions) // (config.hour_s * 1000)
            seen |= {"gone"} if min(found) > first * config.hour_s * 1000 else set()
    assert seen == {"undefined", "blank", "gain", "no attribute", "cut", "gone"}


@pytest.mark.parametrize("seed", SEEDS)
def test_hours_that_are_over_have_the_same_bytes(seed: int) -> None:
    rng, names = random.Random(seed), topic_names(2)
    records = random_logs(rng, 2, CONFIG, events=600)
    logs = logs_of(records, names)[0]
    plan = QueryPlan(by="device", kept=rng.choice((1, 3, 1000)), min_users=1)
    stores = [
        QueryMachine(random.Random(seed + n), 0, logs, plan).run(crashes=n > 0).store
        for n in range(3)
    ]
    pages = [
        {key: data for key, data in store.blobs.items() if key.startswith("examples:")}
        for store in stores
    ]
    assert pages[0] and pages == [pages[0]] * 3
    for store in stores:
        assert set(pages[0]) == set(head_in(store).example_keys)
        assert {store.listed[key] for key in pages[0]} == {0}


@pytest.mark.parametrize("seed", seeds(4))
def test_repair_writes_the_examples_of_the_open_hour(seed: int) -> None:
    rng, names = random.Random(seed), topic_names(1)
    records = random_logs(rng, 1, CONFIG)
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], QueryPlan(min_users=0)).run(False)
    before = found_in(machine.store)
    assert head_in(machine.store).part_keys and before.get(head_in(machine.store).hour_ms or 0)
    for key in head_in(machine.store).part_keys:
        del machine.store.blobs[key]
    commit = plan_repair(machine.claimed)
    assert machine.store.commit(commit) == "applied"
    confirm(machine.claimed, commit)
    assert found_in(machine.store) == before


def test_example_shows_only_what_enough_users_searched_for() -> None:
    hour_ms, counts = CONFIG.hour_s * 1000, {True: 0, False: 0}
    for seed in range(6):
        rng, names = random.Random(seed), topic_names(1)
        records = random_logs(rng, 1, CONFIG, texts=4)
        plan = QueryPlan(min_users=3, kept=1000)
        machine = QueryMachine(rng, 0, logs_of(records, names)[0], plan).run(crashes=True)
        users: dict[tuple[int, str], set[int]] = defaultdict(set)
        for one in oracle.run(records, names, CONFIG)[0].impressions:
            users[one.time_ms // hour_ms * hour_ms, query_of(one)].add(user_of(one))
        found = found_in(machine.store)
        shown = {(start, key) for start, by_key in found.items() for key in by_key}
        for of in shown:
            assert of[1] and len(users[of] - {0}) >= 3
        for of in users:
            counts[of in shown] += 1
    assert min(counts.values()) > 5, "some queries have enough users, and some have not"


def test_hashed_texts_stand_in_no_example() -> None:
    rng, names = random.Random(3), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=500, config=CONFIG)
    # no attribute has the query here, as that of the country has in the other tests
    marked = [with_text(record) for record in with_queries(records, rng, texts=9)]
    plan = QueryPlan(text=HASHED, key=KEY, min_users=0)
    machine = QueryMachine(rng, 0, logs_of(marked, names)[0], plan).run(crashes=True)
    found = stored_examples(machine.store)
    keys = [key for by_key in found.values() for key in by_key]
    assert keys and all(len(key) == 16 and int(key, 16) >= 0 for key in keys)
    assert "secret text" not in repr(found)


def with_text(record: Record) -> Record:
    if record.value is None:
        return record
    return replace(record, value=record.value.replace(b'"query": "q', b'"query": "secret text '))


@pytest.mark.parametrize("kept", [1, 1000])
def test_no_examples_change_no_byte_and_nothing_else(kept: int) -> None:
    rng, names = random.Random(11), topic_names(1)
    logs = logs_of(random_logs(rng, 1, CONFIG), names)[0]
    on, off = (
        QueryMachine(random.Random(1), 0, logs, QueryPlan(kept=kept, min_users=0, examples=n)).run(
            crashes=False
        )
        for n in (2, 0)
    )
    assert not [key for key in off.store.blobs if key.startswith("examples:")]
    assert head_in(off.store).examples == {}
    of_examples = ("examples:", "queries:")
    with_them, without = (
        {key: data for key, data in machine.store.blobs.items() if not key.startswith(of_examples)}
        for machine in (on, off)
    )
    assert with_them == without
    hours = [key for key in off.store.blobs if key.startswith("queries:") and "part" not in key]
    assert hours and all(on.store.blobs[key] == off.store.blobs[key] for key in hours)


def test_off_is_what_it_was_without_queries() -> None:
    rng, names = random.Random(4), topic_names(1)
    logs = logs_of(random_logs(rng, 1, CONFIG), names)[0]
    machine = Machine(random.Random(1), 0, logs, CONFIG)
    while not machine.done():
        machine.step(crashes=False)
    assert not [key for key in machine.store.blobs if key.startswith(("queries:", "examples:"))]


def test_hours_of_examples_are_kept_for_a_day() -> None:
    rng, names = random.Random(2), topic_names(1)
    records = random_logs(rng, 1, CONFIG, events=600)
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], QueryPlan(min_users=0)).run(True)
    head, settled = head_in(machine.store), machine.claimed.lane.settled_before
    assert settled is not None
    hour_ms = machine.plan.hour_ms
    assert min(head.examples) >= pane_start(settled, hour_ms) - 24 * hour_ms > min(head.hours)
    assert set(head.examples) <= set(head.hours)
