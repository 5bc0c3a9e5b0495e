"""What a lane has of queries, examples and judged rows is compared with a run without faults, value
by value and, of hours that are over, byte by byte."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pytest

from relevanced.daemon.lane import QUERY_METRIC_COLUMNS, WHOLE
from relevanced.daemon.plan import BY_JUDGEMENTS, Plan
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.storage import (
    head_of,
    pack,
    pack_integers,
    pack_page,
    queries_hour_key,
    row_pages,
    unpack_integers,
    unpack_page,
    unpacked_hour,
)
from tests.chaos.undisturbed import BATCH_RECORDS, Files, StoredLane, disturbances, undisturbed
from tests.daemon.test_equality import ONE, as_one_lane, logs_of
from tests.daemon.test_judged_equality import JudgedLifting, JudgedMachine, random_files
from tests.daemon.test_queries_equality import CONFIG, with_queries
from tests.oracle import Record
from tests.streams import random_records, topic_names

Lanes = tuple[StoredLane, StoredLane, Plan]
QUERIES: Final = QueryPlan(by="country", kept=3, min_users=0, examples=2)


@pytest.fixture(scope="module")
def both() -> Lanes:
    """A lane after crashes, one that was read undisturbed, and their plan."""
    rng, names = random.Random(2), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=500, config=CONFIG)
    records = with_queries(records, rng, texts=20)
    files = random_files(rng, 0, [f"d{n}" for n in range(12)])
    (logs,) = logs_of(records, names).values()
    machine = JudgedMachine(rng, 0, logs, files, queries=QUERIES).run(crashes=True)
    store, start = machine.store, dict.fromkeys(logs, 0)
    found = StoredLane(0, head_of(store.fields), store.names, store.blobs)
    calm = undisturbed(found, records, start, machine.plan, machine.decode, Files(files))
    return found, calm, machine.plan


def test_a_lane_of_all_partitions_is_that_of_a_run_without_faults_or_lifts(seed: int = 4) -> None:
    rng = random.Random(seed)
    records = random_records(rng, topics=2, partitions=ONE["impressions"], config=CONFIG)
    logs = as_one_lane(with_queries(records, rng, texts=20), rng)
    files = random_files(rng, 0, [f"d{n}" for n in range(12)])
    machine = JudgedLifting(rng, 0, logs, files, config=CONFIG, queries=QUERIES)
    machine.run(crashes=True)
    found = StoredLane(0, head_of(machine.store.fields), machine.store.names, machine.store.blobs)
    assert found.head.lifts
    read = [replace(one, topic=log, partition=0) for log, of in logs.items() for one in of]
    start = dict.fromkeys(logs, 0)
    calm = undisturbed(found, read, start, machine.plan, machine.decode, Files(files))
    assert calm.head.watermark_ms == found.head.watermark_ms
    assert list(disturbances(found, calm, machine.plan)) == []


def searches(rng: random.Random, count: int) -> Iterator[Record]:
    """Impressions of one pane, each seventh of them sent twice: these are accepted last of all that
    are read at once."""
    offset, start_ms = 0, 1_795_219_200_000
    for number in range(count):
        shown = {
            "type": "impression",
            "impression_id": f"i{number}",
            "timestamp": start_ms + rng.randrange(1000),
            "query": f"q{rng.randrange(8)}",
            "items": rng.sample([f"d{n}" for n in range(12)], 5),
            "attributes": {"country": "DE"},
        }
        for _ in range(2 if number % 7 == 0 else 1):
            yield Record("t", 0, offset, start_ms, json.dumps(shown).encode())
            offset += 1


def changed(lane: StoredLane, prefix: str, change: Callable[[bytes], bytes]) -> StoredLane:
    """The lane with another value of the first key that begins like this and changes."""
    for key in sorted(key for key in lane.blobs if key.startswith(prefix)):
        data = lane.blobs[key] or b""
        if change(data) != data:
            return replace(lane, blobs={**lane.blobs, key: change(data)})
    raise AssertionError(prefix)


def plus_one(data: bytes) -> bytes:
    rows = np.array(unpack_page(data))
    rows[0, 0] += 1
    return pack_page(rows)


def with_one_more(data: bytes) -> bytes:
    """Tables of an hour in which one more impression is not listed."""
    hour = unpacked_hour(data)
    table = hour.tables[WHOLE]
    other = unpack_integers(table.other) + 1
    tables = {**hour.tables, WHOLE: msgspec.structs.replace(table, other=pack_integers(other))}
    return pack(msgspec.structs.replace(hour, tables=tables))


def with_fewer_columns(data: bytes) -> bytes:
    """Tables of an hour that was stored under a layout of fewer metrics."""
    hour, fewer = unpacked_hour(data), QUERY_METRIC_COLUMNS
    table = hour.tables[WHOLE]
    other = unpack_integers(table.other)
    sums = unpack_integers(table.sums).reshape(len(other), -1)[:-fewer]
    table = msgspec.structs.replace(
        table, other=pack_integers(other[:-fewer]), sums=pack_integers(sums)
    )
    return pack(msgspec.structs.replace(hour, tables={**hour.tables, WHOLE: table}))


def without_examples(data: bytes) -> bytes:
    return pack(msgspec.structs.replace(row_pages.unpacked_hour(data), examples=()))


def test_a_lane_after_crashes_is_that_of_a_run_without_faults(both: Lanes) -> None:
    found, calm, plan = both
    assert list(disturbances(found, calm, plan)) == []
    assert found.blobs.keys() != calm.blobs.keys(), "they were written in other batches"


@pytest.mark.parametrize(
    ("prefix", "change", "part"),
    [
        ("judged:hours:", plus_one, "judged rows"),
        ("judged:30:", plus_one, "judged rows"),
        ("queries:", with_one_more, "tables of queries"),
        ("examples:", without_examples, "examples"),
    ],
)
def test_a_changed_value_is_found(
    both: Lanes, prefix: str, change: Callable[[bytes], bytes], part: str
) -> None:
    found, calm, plan = both
    first = next(disturbances(changed(found, prefix, change), calm, plan))
    assert first.part == part


def test_hours_before_a_change_of_layout_are_not_compared(both: Lanes) -> None:
    found, calm, plan = both
    assert found.head.queries is not None
    first, second = sorted(found.head.queries.hours)[:2]
    older = changed(found, queries_hour_key(first), with_fewer_columns)
    queries = msgspec.structs.replace(found.head.queries, since_ms=second)
    older = replace(older, head=replace(found.head, queries=queries))
    assert list(disturbances(older, calm, plan)) == []


def test_judged_rows_begin_with_an_impression_whatever_the_batches(
    monkeypatch: pytest.MonkeyPatch, seed: int = 3
) -> None:
    rng = random.Random(seed)
    records = [*searches(rng, 300)]
    files = random_files(rng, records[0].timestamp_ms or 0, [f"d{n}" for n in range(12)])
    machine = JudgedMachine(rng, 0, {"t": records}, files, queries=QUERIES).run(crashes=False)
    whole = StoredLane(0, head_of(machine.store.fields), machine.store.names, machine.store.blobs)
    assert whole.head.judged is not None
    found = []
    for size in (1, BATCH_RECORDS):
        monkeypatch.setattr("tests.chaos.undisturbed.BATCH_RECORDS", size)
        judged = msgspec.structs.replace(whole.head.judged, from_slot=150)
        begun = replace(whole, head=replace(whole.head, optional_rows={BY_JUDGEMENTS: judged}))
        found.append(
            undisturbed(begun, records, {"t": 0}, machine.plan, machine.decode, Files(files))
        )
    assert [*disturbances(*found, machine.plan)] == []


def test_a_page_that_says_the_same_in_other_bytes_is_found(both: Lanes) -> None:
    found, calm, plan = both
    key = next(key for key in found.blobs if key.startswith("queries:") and "part" not in key)
    hour = unpacked_hour(found.blobs[key] or b"")
    again = replace(found, blobs={**found.blobs, key: pack(hour)})
    differences = list(disturbances(again, calm, plan))
    assert [one.part for one in differences] == ["bytes"] and key in differences[0].key
