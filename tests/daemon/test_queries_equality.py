"""Tables of queries follow from the log: whatever the cut into batches, the interleaving of topics,
the crashes and the changes of the layout; and without cuts of rows they are the oracle's.

The oracle knows no queries. So each search has its query as its country too: then the rows of the
hours by country are what the tables must say.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from relevanced.daemon.events import decoder
from relevanced.daemon.lane import BY, QUERY_COUNT_COLUMNS, WHOLE, ZERO, Tables, new_tables
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import ENOUGH, QueryPlan, without_segment
from relevanced.daemon.storage import QueryHead, head_of, put_part, queries_hour_key, unpacked_hour
from tests import oracle
from tests.daemon.test_equality import Machine, logs_of
from tests.fakes import MemoryLane
from tests.oracle import OracleConfig, Record
from tests.replica import columns_of
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, random_records, topic_names

CONFIG = replace(SMALL_CONFIG, max_segments=100, history_hours=48)
SEEDS = seeds(7)
Decoded = dict[str, tuple[dict[str, tuple[list[int], int, object]], list[int], int]]


def with_queries(records: Sequence[Record], rng: random.Random, texts: int) -> list[Record]:
    """The records, with a query that is the country too in each impression that can have one."""
    return [replace(record, value=_searched(record.value, rng, texts)) for record in records]


def _searched(value: bytes | None, rng: random.Random, texts: int) -> bytes | None:
    try:
        events = json.loads(value or b"")
    except ValueError:
        return value
    for event in events if isinstance(events, list) else [events]:
        if not isinstance(event, dict) or event.get("type") != "impression":
            continue
        if isinstance(event.get("attributes"), dict) and rng.random() < 0.9:
            event["query"] = f"q{int(texts * rng.random() ** 2)}"
            event["attributes"]["country"] = event["query"]
            event["user_id"] = f"u{rng.randrange(6)}"
        else:
            event.pop("query", None)
            event.pop("attributes", None)
    return json.dumps(events).encode()


class QueryMachine(Machine):
    """A lane that keeps queries."""

    def __init__(
        self,
        rng: random.Random,
        number: int,
        logs: Mapping[str, Sequence[Record]],
        plan: QueryPlan,
        config: OracleConfig = CONFIG,
    ) -> None:
        super().__init__(rng, number, logs, config)
        self.store = MemoryLane()
        self.plan = replace(self.plan, queries=plan)
        limits = msgspec.structs.replace(self.decode.limits, queries=True)
        self.decode = decoder("native", limits)
        self.claimed = self.claim()

    def run(self, crashes: bool) -> "QueryMachine":
        while not self.done():
            if self.rng.random() < 0.1 and self.claimed.lane.queries is not None:
                self.claimed.lane.forget_unused_queries()
            self.step(crashes)
        return self


def tables_of(store: MemoryLane, plan: Plan) -> dict[int, Tables]:
    """Start of an hour → its tables, as a reader finds them: also the open one, from its parts."""
    head = head_of(store.fields).queries
    assert head is not None
    return tables_in(head, store.blobs, plan)


def tables_in(
    head: QueryHead, blobs: Mapping[str, bytes | None], plan: Plan, since_ms: int = 0
) -> dict[int, Tables]:
    """The same from the head and the values of a store. Hours before `since_ms` are left out: they
    may have been stored with the columns of another layout."""
    found: dict[int, Tables] = {}
    keys = [(start, [queries_hour_key(start)]) for start in head.hours if start >= since_ms]
    for start, parts in [*keys, *([(head.hour_ms, head.part_keys)] if head.parts else [])]:
        tables = found[start or 0] = new_tables(plan)
        for key in parts:
            put_part(tables, unpacked_hour(blobs[key] or b""))
    return found


def decoded(tables: Tables) -> Decoded:
    return {
        kind: (
            {
                key: (table.sums[row].tolist(), int(table.missing[row]), table.users[row])
                for row, key in enumerate(table.keys)
            },
            table.other.tolist(),
            table.bound,
        )
        for kind, table in tables.items()
    }


def expected_hours(
    result: oracle.LaneResult, plan: Plan, grouping: str
) -> dict[int, dict[str, list[int]]]:
    """Start of an hour in ms → segment → the columns of a table."""
    metrics = [name for name in columns_of(plan)[6:] if not name.endswith(":squares")]
    names = [QUERY_COUNT_COLUMNS[0], QUERY_COUNT_COLUMNS[1], QUERY_COUNT_COLUMNS[2], *metrics]
    found: dict[int, dict[str, list[int]]] = {}
    for (hour_s, of, segment), row in result.hours.items():
        if of == grouping and row["impressions"]:
            found.setdefault(hour_s * 1000, {})[segment] = [row[name] for name in names]
    return found


@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_without_cuts_are_the_rows_of_the_oracle(
    seed: int, topics: int, crashes: bool
) -> None:
    rng, names = random.Random(seed), topic_names(topics)
    records = random_records(rng, topics=topics, partitions=2, events=400, config=CONFIG)
    records = with_queries(records, rng, texts=12)
    expected = oracle.run(records, names, CONFIG)
    plan = QueryPlan(by="device", kept=1000, min_users=3)
    for number, logs in logs_of(records, names).items():
        machine = QueryMachine(rng, number, logs, plan).run(crashes)
        tables = tables_of(machine.store, machine.plan)
        by_query = expected_hours(expected[number], machine.plan, "country")
        assert {s: as_segments(t[WHOLE].keys, t[WHOLE].sums) for s, t in tables.items()} == by_query
        pairs = expected_hours(expected[number], machine.plan, "country,device")
        assert {
            start: {
                f"{query or '(none)'},{segment}": sums
                for (query, segment), sums in zip(
                    map(without_segment, t[BY].keys), t[BY].sums.tolist(), strict=True
                )
            }
            for start, t in tables.items()
        } == pairs
        empty = {
            start: {key: [row[1]] for key, row in rows.items() if row[1]}
            for start, rows in by_query.items()
        }
        assert {s: as_segments(t[ZERO].keys, t[ZERO].sums) for s, t in tables.items()} == empty


def as_segments(keys: Sequence[str], sums: Any) -> dict[str, list[int]]:
    return {key or "(none)": row for key, row in zip(keys, sums.tolist(), strict=True)}


@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_tables_with_cuts_follow_from_the_log(seed: int, topics: int) -> None:
    rng, names = random.Random(seed), topic_names(topics)
    records = random_records(rng, topics=topics, partitions=1, events=500, config=CONFIG)
    records = with_queries(records, rng, texts=200)
    logs = logs_of(records, names)[0]
    plan = QueryPlan(by="country", kept=rng.choice((1, 2, 5)), min_users=2)
    machines = [
        QueryMachine(random.Random(seed + n), 0, logs, plan).run(crashes=n > 0) for n in range(3)
    ]
    first, *others = [
        {start: decoded(tables) for start, tables in tables_of(m.store, m.plan).items()}
        for m in machines
    ]
    assert others == [first, first] and first
    heads = [head_of(m.store.fields).queries for m in machines]
    assert heads[0] is not None and len(heads[0].hours) > 2
    for start in heads[0].hours:
        pages = {m.store.blobs[queries_hour_key(start)] for m in machines}
        assert len(pages) == 1, "an hour that is over has the same bytes"


def test_table_of_a_lane_sums_to_the_hours_of_its_rows() -> None:
    rng, names = random.Random(5), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=500, config=CONFIG)
    records = with_queries(records, rng, texts=300)
    expected = oracle.run(records, names, CONFIG)[0]
    plan = QueryPlan(by="country", kept=1, min_users=0)
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], plan).run(crashes=True)
    whole = expected_hours(expected, machine.plan, "all")
    for kind in (WHOLE, BY):
        totals = {
            s: t[kind].total.tolist() for s, t in tables_of(machine.store, machine.plan).items()
        }
        assert totals == {start: rows["all"] for start, rows in whole.items()}


def test_lane_stores_only_keys_that_its_head_lists() -> None:
    rng, names = random.Random(7), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=500, config=CONFIG)
    records = with_queries(records, rng, texts=50)
    plan = QueryPlan(kept=3, days=1)
    config = replace(CONFIG, hour_s=15)  # days of 6 minutes
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], plan, config).run(crashes=True)
    head = head_of(machine.store.fields).queries
    assert head is not None
    stored = {key for key in machine.store.blobs if key.startswith("queries:")}
    assert stored == {*head.hour_keys, *head.part_keys}
    assert 0 < len(head.hours) <= 24
    assert {machine.store.listed[key] for key in stored} == {0}


def test_rows_reach_their_users_over_panes_and_restarts() -> None:
    rng, names = random.Random(3), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=500, config=CONFIG)
    records = with_queries(records, rng, texts=2)
    machine = QueryMachine(rng, 0, logs_of(records, names)[0], QueryPlan(min_users=4)).run(True)
    found = [t[WHOLE].users for t in tables_of(machine.store, machine.plan).values()]
    assert ENOUGH in [users for of_hour in found for users in of_hour]
    assert all(users is ENOUGH or len(users) < 4 for of_hour in found for users in of_hour)


def test_queries_change_nothing_else_that_is_stored() -> None:
    rng, names = random.Random(11), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=600, config=CONFIG)
    logs = logs_of(with_queries(records, rng, texts=9), names)[0]
    hostile: list[Any] = [5, 1.5, True, [], {}, ["x"], {"a": 1}, 10**400, "x" * 3000]
    for log in logs.values():
        for index, record in enumerate(log):
            if rng.random() < 0.3 and record.value and b'"query": "q' in record.value:
                before, after = record.value.split(b'"query": ', 1)
                bad = json.dumps(rng.choice(hostile)).encode()
                bad = rng.choice((bad, bad, b'"\xff\xfe"', b'"\\ud800"', b"null"))
                value = before + b'"query": ' + bad + after[after.index(b'"', 1) + 1 :]
                log[index] = replace(record, value=value)
    on = QueryMachine(random.Random(1), 0, logs, QueryPlan()).run(crashes=False)
    off = Machine(random.Random(1), 0, logs, CONFIG)
    while not off.done():
        if off.rng.random() < 0.1:
            pass  # as the other machine draws
        off.step(crashes=False)
    of_queries = ("queries:", "open:")
    for kind in ("names", "blobs", "listed"):
        with_them, without = (dict(getattr(machine.store, kind)) for machine in (on, off))
        kept = {k: v for k, v in with_them.items() if not k.startswith(of_queries)}
        assert kept == {k: v for k, v in without.items() if not k.startswith(of_queries)}, kind
    counts = [dict(machine.claimed.lane.counts) for machine in (on, off)]
    bad_queries = counts[0]["rejected"].pop("bad_query")
    assert bad_queries > 0 and counts[0] == counts[1]
