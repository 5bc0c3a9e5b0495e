"""Tables of queries are proven by the log, and a changed integer of them is found."""

import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from relevanced.daemon.queries import HASHED, QueryPlan
from relevanced.daemon.recompute.proof import MOVED, Outcome, as_text, queries as stored_queries
from relevanced.daemon.storage import (
    QueryHead,
    StoredTable,
    head_of,
    hour_of,
    pack,
    pack_integers,
    row_pages,
    unpack_integers,
    unpacked_hour,
)
from tests.daemon.recompute.verify.stages import Logs, logs_of, proven, written
from tests.daemon.test_queries_equality import CONFIG, with_queries
from tests.fakes import MemoryLane
from tests.streams import random_records

PLAN = QueryPlan(by="device", kept=4, min_users=3, examples=2)
SEEDS = range(3)


def lane(seed: int, plan: QueryPlan = PLAN, texts: int = 40) -> tuple[MemoryLane, Logs]:
    rng = random.Random(seed)
    records = random_records(rng, topics=2, partitions=1, events=500, config=CONFIG)
    logs = logs_of(with_queries(records, rng, texts), 2)
    return written(logs, CONFIG, rng, queries=plan), logs


def query_head(store: MemoryLane) -> QueryHead:
    head = head_of(store.fields).queries
    assert head is not None
    return head


def check(store: MemoryLane, logs: Logs, plan: QueryPlan | None = PLAN) -> Outcome:
    return proven(store, logs, CONFIG, queries=plan)


@pytest.mark.parametrize("plan", [PLAN, replace(PLAN, text=HASHED, key=b"k" * 16, by=None)])
@pytest.mark.parametrize("seed", SEEDS)
def test_whole_log_proves_every_table(seed: int, plan: QueryPlan) -> None:
    store, logs = lane(seed, plan)
    found = check(store, logs, plan)
    assert (found.result, found.notes) == ("equal", ()), as_text([found])
    head = query_head(store)
    assert found.query_hours == len(head.hours) + bool(head.parts) > 2
    assert f"{found.query_hours} hours of queries" in as_text([found])


@pytest.mark.parametrize("seed", SEEDS)
def test_log_without_its_beginning_proves_the_hours_after_it(seed: int) -> None:
    store, logs = lane(seed)
    begin = {topic: len(log) // 4 for topic, log in logs.items()}
    found = proven(store, logs, CONFIG, begin, queries=PLAN)
    assert found.result == "equal", as_text([found])
    assert 0 < found.query_hours < len(query_head(store).hours)


def first_hour(store: MemoryLane) -> str:
    return min(key for key in store.blobs if hour_of(key) is not None)


def changed(store: MemoryLane, key: str, **fields: Callable[[StoredTable], object]) -> None:
    """Replace fields of the table `whole` of an hour."""
    hour = unpacked_hour(store.blobs[key])
    table = hour.tables["whole"]
    table = msgspec.structs.replace(table, **{name: of(table) for name, of in fields.items()})
    store.blobs[key] = pack(msgspec.structs.replace(hour, tables=hour.tables | {"whole": table}))


def plus_one(data: bytes) -> bytes:
    values = unpack_integers(data).copy()
    values[0] += 1
    return pack_integers(values)


CHANGES: dict[str, tuple[str, Callable[[StoredTable], object]]] = {
    "sums": ("row 1, impressions", lambda table: plus_one(table.sums)),
    "missing": ("row 1, missing at most", lambda table: plus_one(table.missing)),
    "other": ("(other), impressions", lambda table: plus_one(table.other)),
    "bound": ("(other), bound", lambda table: table.bound + 1),
}


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("what", CHANGES)
def test_one_changed_integer_of_a_table_is_found_and_named(what: str, is_open: bool) -> None:
    store, logs = lane(2)
    key = query_head(store).part_keys[-1] if is_open else first_hour(store)
    named, change = CHANGES[what]
    changed(store, key, **{what: change})
    found = check(store, logs)
    assert found.result == "differs", as_text([found])
    assert [one.what for one in found.first if one.what != "bytes"] == ["queries"]
    assert is_open or f"whole={named}: stored" in as_text([found])


def test_changed_users_and_keys_are_found_and_no_query_is_shown() -> None:
    store, logs = lane(3)
    changed(store, first_hour(store), keys=lambda table: b"x" + table.keys[1:])
    found = check(store, logs)
    assert found.result == "differs" and "a query that is not stored" in as_text([found])
    assert "whole=q" not in as_text([found])
    store, logs = lane(3, plan := replace(PLAN, min_users=50))
    others = lambda table: (np.frombuffer(table.hashes, "<u4") ^ 1).tobytes()  # noqa: E731
    changed(store, first_hour(store), hashes=others)
    found = check(store, logs, plan)
    columns = {one.column for one in found.first if one.what != "bytes"}
    assert columns == {"users that are the same"}


def test_changed_examples_are_found() -> None:
    store, logs = lane(3, plan := replace(PLAN, min_users=0))
    key = min(key for key in store.blobs if row_pages.hour_of(key) is not None)
    hour = row_pages.unpacked_hour(store.blobs[key])
    (query, examples), *more = hour.examples
    examples = (msgspec.structs.replace(examples[0], sort_score=7), *examples[1:])
    store.blobs[key] = pack(msgspec.structs.replace(hour, examples=((query, examples), *more)))
    found = check(store, logs, plan)
    assert [one.what for one in found.first if one.what != "bytes"] == ["examples"]


def test_what_cannot_be_proven_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    store, logs = lane(2)
    assert check(store, logs, None).notes == (stored_queries.OFF,)
    secret = replace(PLAN, text=HASHED, key=b"k" * 16)
    found = check(store, logs, secret)
    assert (
        stored_queries.OTHER_KEY in found.notes and "open state is not compared" in found.notes[1]
    )
    without = {key: value for key, value in store.blobs.items() if ":part:" not in key}
    moved = replace(store, blobs=without)
    found = proven(moved, logs, CONFIG, queries=PLAN, writer=False)
    assert found.notes == (stored_queries.MOVED, MOVED)
    monkeypatch.setattr(stored_queries, "UNICODE_VERSION", "1.0.0")
    found = check(store, logs)
    assert len(found.notes) == 1 and "Unicode" in found.notes[0] and not found.query_hours
