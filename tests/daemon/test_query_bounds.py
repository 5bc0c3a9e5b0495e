"""What an hour of searches costs in which every query is new: memory, bytes in the store and time
do not grow with it. `make bench PART=queries` measures the same with a million of them.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pytest

from relevanced.daemon.events import Limits, decoder
from relevanced.daemon.lane import WHOLE, Lane, impression_columns
from relevanced.daemon.queries import MOST_ROWS, QueryPlan
from relevanced.daemon.storage import confirm, hour_of, plan_commit
from relevanced.daemon.timing import timing
from tests.builders import claimed, plan_with, record
from tests.fakes import MemoryLane
from tests.whole_batch import process_batch

HOUR_MS: Final = 3_600_000
START_MS: Final = 500_000 * HOUR_MS
BATCH: Final = 1_500
SEARCHES: Final = 36_000
"""In an hour: ten in a second."""
KEPT: Final = 50
MOST_KEYS: Final = 4_000
ROW_BYTES: Final = 64
PLAN: Final = plan_with(
    timing=timing([("5m", 300)], 60, 10), queries=QueryPlan(kept=KEPT, min_users=2)
)
DECODE: Final = decoder("native", Limits(depth=10, max_grade=3.0, queries=True))


@dataclass
class Used:
    """What was in use after each batch."""

    rows: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)
    """Bytes of the tables of the open hour."""
    seconds: list[float] = field(default_factory=list)
    """CPU time of each batch and its commit."""


def batches(hours: float) -> Iterator[list[bytes]]:
    """Searches in the order of time, each by a user of its own for a query of its own."""
    step_ms = HOUR_MS // SEARCHES
    for first in range(0, int(SEARCHES * hours), BATCH):
        yield [
            json.dumps(
                {
                    "type": "impression",
                    "impression_id": f"i{n}",
                    "timestamp": START_MS + n * step_ms,
                    "items": ["a", "b"],
                    "query": f"Query number {n}",
                    "user_id": f"user {n}",
                }
            ).encode()
            for n in range(first, first + BATCH)
        ]


def tables_bytes(store: MemoryLane) -> int:
    return sum(len(data) for key, data in store.blobs.items() if key.startswith("queries:"))


def worked(store: MemoryLane, hours: float) -> tuple[Lane, Used]:
    owned, used, offset = claimed(store, plan=PLAN), Used(), 0
    for values in batches(hours):
        records = [record(value, offset=offset + n) for n, value in enumerate(values)]
        offset += len(records)
        began_s = time.thread_time()
        process_batch(owned.lane, {"events": records}, {"events": offset}, DECODE)
        commit = plan_commit(owned)
        used.seconds.append(time.thread_time() - began_s)
        assert store.commit(commit) == "applied"
        confirm(owned, commit)
        tables = owned.lane.queries
        assert tables is not None
        used.rows.append(max((len(table) for table in tables.tables.values()), default=0))
        used.keys.append(len(tables.keys))
        used.stored.append(tables_bytes(store))
    return owned.lane, used


def test_hour_of_new_queries_takes_no_more_than_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impression_columns, "MOST_KEYS", MOST_KEYS)
    store = MemoryLane()
    lane, used = worked(store, hours=1.2)
    assert lane.queries is not None and len(lane.open) < BATCH
    assert max(used.rows) <= MOST_ROWS * KEPT, "memory of the table"
    assert max(used.keys) <= MOST_KEYS + BATCH, "memory of the keys of open impressions"
    # As many rows may be in the later parts of the open hour as in the first one.
    assert max(used.stored) <= 2 * MOST_ROWS * KEPT * ROW_BYTES, "bytes in the store"
    (hour,) = (key for key in store.blobs if hour_of(key) is not None)
    assert len(store.blobs[hour]) <= KEPT * ROW_BYTES
    half = len(used.seconds) // 2
    first, second = sorted(used.seconds[:half]), sorted(used.seconds[half:])
    assert second[half // 2] <= 2 * first[half // 2], "time of a batch"


def test_nothing_of_an_hour_of_new_queries_is_lost() -> None:
    store = MemoryLane()
    lane, _ = worked(store, hours=0.5)
    assert lane.queries is not None
    whole = lane.queries.tables[WHOLE]
    settled = SEARCHES // 2 - len(lane.open)
    assert whole.total[0] == settled and whole.other[0] == settled - len(whole)
    assert 0 < whole.bound <= settled / (KEPT + 1)
