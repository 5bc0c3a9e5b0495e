"""Items without a judgement follow from the log and the files: their tables are the oracle's,
whatever the cut into batches, the interleaving of topics and the crashes."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from relevanced.daemon.lane import MISSING, Tables
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.queries import ENOUGH, QueryPlan, with_item, without_segment
from relevanced.daemon.storage import confirm, head_of, plan_repair, queries_hour_key
from tests import oracle_missing
from tests.daemon.queries.oracle import OracleTable
from tests.daemon.test_equality import logs_of
from tests.daemon.test_judged_equality import PLAN, Files, JudgedMachine, random_files
from tests.daemon.test_queries_equality import (
    CONFIG,
    QueryMachine,
    decoded,
    tables_of,
    with_queries,
)
from tests.oracle import OracleConfig, Record
from tests.seeds import seeds
from tests.streams import random_records, topic_names

SEEDS = seeds(8)
ITEMS = [f"d{n}" for n in range(12)]
Found = dict[int, tuple[Mapping[str, tuple[tuple[int, ...], int, int]], int, int]]


class MissingMachine(JudgedMachine):
    """A lane that counts items without a judgement."""

    def __init__(
        self,
        rng: random.Random,
        logs: Mapping[str, Sequence[Record]],
        files: Files,
        queries: QueryPlan,
        config: OracleConfig = CONFIG,
    ) -> None:
        super().__init__(rng, 0, logs, files, config)
        self.store = type(self.store)()
        self.plan = replace(self.plan, queries=queries, missing=True)
        self.claimed = self.claim()

    def expected(self, files: Files, config: OracleConfig) -> Found:
        assert self.plan.queries is not None
        found = oracle_missing.tables(
            self.logs,
            config,
            [(entry.start_ms, grades.by_query) for entry, grades in sorted(files.items())],
            lambda event: event.attributes.get("country", ""),
            PLAN.depth,
            (5 * self.plan.queries.kept, self.plan.queries.min_users),
            self.claimed.lane.settled_before or 0,
        )
        return {hour: _plain(table) for hour, table in found.items()}

    def open_hour(self) -> Found:
        """The tables of the hour that is stored in parts."""
        head = head_of(self.store.fields).queries
        if head is None or not head.parts:
            return {}
        return {start: found for start, found in self.stored().items() if start == head.hour_ms}

    def stored(self) -> Found:
        """The tables that have anything, as a reader finds them."""
        assert self.plan.queries is not None
        least = self.plan.queries.min_users
        found = {}
        for start, tables in tables_of(self.store, self.plan).items():
            rows, other, bound = decoded(tables).get(MISSING, ({}, [0], 0))
            of_users = {k: (tuple(s), m, _count(users, least)) for k, (s, m, users) in rows.items()}
            if rows or bound:
                found[start] = (of_users, other[0], bound)
        return found


def _count(users: object, least: int) -> int:
    return least if users is ENOUGH else len(users)  # type: ignore[arg-type]


def _plain(table: OracleTable) -> tuple[Mapping[str, tuple[tuple[int, ...], int, int]], int, int]:
    return table.found(), table.other[0], table.bound


def lane_of(
    rng: random.Random, topics: int, texts: int = 8, config: OracleConfig = CONFIG
) -> tuple[dict[str, Sequence[Record]], list[int]]:
    """The logs of one lane, and the times of its records."""
    records = random_records(rng, topics=topics, partitions=1, events=500, config=config)
    records = with_queries(records, rng, texts=texts)
    (logs,) = logs_of(records, topic_names(topics)).values()
    return dict(logs), sorted(r.timestamp_ms for r in records if r.timestamp_ms is not None)


@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_missing_items_are_those_of_the_oracle(seed: int, topics: int, crashes: bool) -> None:
    rng = random.Random(seed)
    config = replace(CONFIG, lateness_s=rng.choice((2, 20, 60)))
    logs, times = lane_of(rng, topics, config=config)
    files = random_files(rng, times[len(times) // 3], ITEMS)
    # From no cut to one in almost every pane.
    queries = QueryPlan(kept=rng.choice((1, 2, 1000)), min_users=rng.choice((0, 3)))
    machine = MissingMachine(rng, logs, files, queries, config)
    machine.run(crashes)
    assert machine.stored() == machine.expected(files, config) != {}


def test_hours_that_are_over_have_the_same_bytes_after_crashes() -> None:
    rng = random.Random(3)
    logs, times = lane_of(rng, 2)
    files = random_files(rng, times[len(times) // 3], ITEMS)
    machines = [
        MissingMachine(random.Random(n), logs, files, QueryPlan(kept=2, min_users=2))
        for n in range(3)
    ]
    for n, machine in enumerate(machines):
        machine.run(crashes=n > 0)
    head = head_of(machines[0].store.fields).queries
    assert head is not None and len(head.hours) > 2
    for start in head.hours:
        assert len({m.store.blobs[queries_hour_key(start)] for m in machines}) == 1


@pytest.mark.parametrize("seed", seeds(6))
def test_counting_that_begins_in_mid_life_begins_with_a_whole_hour(seed: int) -> None:
    rng = random.Random(seed)
    config = replace(CONFIG, hour_s=30)
    logs, times = lane_of(rng, 1, config=config)
    files: Files = {}
    for part in range(20):
        more = random_files(rng, times[len(times) * part // 20], ITEMS)
        files |= {entry: found for entry, found in more.items() if entry.start_ms in times}
    queries = QueryPlan(kept=1000, min_users=3)
    machine = MissingMachine(rng, logs, files, queries, config)
    on = machine.plan
    (topic,) = logs
    for share in (0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 1.0):
        machine.plan = replace(on, missing=rng.random() < 0.7 or share == 1)
        machine.relay()
        whole = machine.claimed.lane.queries
        assert whole is not None and whole.since_ms is None, "tables of queries go on"
        while machine.claimed.lane.offsets[topic] < share * len(logs[topic]):
            machine.step(crashes=True)
        machine.claimed = machine.claim()
    head = head_of(machine.store.fields).queries
    assert head is not None
    found, expected = machine.stored(), machine.expected(files, config)
    assert {start: expected[start] for start in found} == found, "no hour is there in part"
    assert {start for start in expected if start >= (head.missing_since_ms or 0)} <= found.keys()


def test_without_the_setting_the_same_bytes_are_stored() -> None:
    rng = random.Random(11)
    logs, _ = lane_of(rng, 1)
    files = random_files(rng, HOUR_MS, ITEMS)
    on = MissingMachine(random.Random(1), logs, files, QueryPlan())
    off = MissingMachine(random.Random(1), logs, files, QueryPlan())
    off.store, off.plan = type(off.store)(), replace(off.plan, missing=False)
    off.claimed = off.claim()
    for machine in (on, off):
        machine.run(crashes=False)
    tables = tables_of(on.store, on.plan)
    assert any(len(found[MISSING]) for found in tables.values())
    apart = ("layouts", "queries:")
    for kind in ("names", "blobs", "listed"):
        with_them, without = (dict(getattr(machine.store, kind)) for machine in (on, off))
        kept = {k: v for k, v in with_them.items() if not k.startswith(apart)}
        assert kept == {k: v for k, v in without.items() if not k.startswith(apart)}, kind
    assert on.store.fields.keys() == off.store.fields.keys()
    queries = QueryMachine(random.Random(1), 0, logs, QueryPlan()).run(crashes=False)
    assert _decoded(off, tables_of(off.store, off.plan)) == _decoded(
        queries, tables_of(queries.store, queries.plan)
    )


def _decoded(machine: JudgedMachine | QueryMachine, found: dict[int, Tables]) -> object:
    return {start: decoded(tables) for start, tables in found.items()}


def test_repair_writes_the_table_of_the_open_hour_again() -> None:
    rng = random.Random(5)
    logs, _ = lane_of(rng, 1)
    files = random_files(rng, HOUR_MS, ITEMS)
    machine = MissingMachine(rng, logs, files, QueryPlan(kept=3, min_users=2))
    machine.step(crashes=False)
    while not any(len(rows) for rows, _, _ in machine.open_hour().values()):
        machine.step(crashes=False)
    before = machine.stored()
    for key in [key for key in machine.store.blobs if ":part:" in key]:
        del machine.store.blobs[key]
    commit = plan_repair(machine.claimed)
    assert machine.store.commit(commit) == "applied"
    confirm(machine.claimed, commit)
    assert machine.stored() == before
    assert machine.run(crashes=True).stored() == machine.expected(files, CONFIG)


def test_item_is_separated_from_its_query_whatever_it_contains() -> None:
    for item in ("a", "a\x1fb", "\x1f", " ", "é,\n"):
        assert without_segment(with_item("a query", item)) == ("a query", item)
