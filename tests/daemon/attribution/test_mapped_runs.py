"""Mapped topics change a lane as their events do one by one, whatever the cut, in batches and among
records that are not mapped."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from relevanced.daemon.attribution import vectorized
from relevanced.daemon.events import Limits, LogRecords, PlainEvents, nothing_plain
from relevanced.daemon.lane import Lane
from relevanced.daemon.mapping import Mapper
from relevanced.daemon.worker import batch
from tests.builders import START_MS, TOPIC, lane_of, plan_with, record
from tests.daemon.attribution.test_vectorized import ALONE, traffic
from tests.daemon.mapping.sources import mapper_of
from tests.replica import counts_of, open_of, rows_of
from tests.seeds import seeds

LIMITS = Limits(max_grade=3.0, attributes=("country", "device"))
PLAN = plan_with(groupings=(("country",), ("country", "device")), max_segments=1)
SOURCE = """
each = "events || @"
[sources.impression]
where = "type == 'impression'"
id = "impression_id"
time = "timestamp"
items = "ITEMS"
first_rank = "first_rank"
attributes = { country = "attributes.country" }
[sources.feedback]
where = "type == 'feedback'"
id = "impression_id"
time = "timestamp"
kind = "kind"
item = "item"
rank = "rank"
grade = "grade"
[[sources.drop]]
reason = "test"
where = "agent == 'bot'"
"""
MAPPERS = {
    "ids": mapper_of(SOURCE.replace("ITEMS", "items"), LIMITS),
    "objects": mapper_of(
        SOURCE.replace('"ITEMS"', '"products"\nitem = "sku"\nrank = "position"'), LIMITS
    ),
}


@dataclass(frozen=True)
class Interpreted:
    """A mapper without its compiled form."""

    mapper: Mapper

    @property
    def limits(self) -> Limits:
        return self.mapper.limits

    def plain(self, records: LogRecords, most_bytes: int) -> PlainEvents:
        return nothing_plain(len(records))

    def is_mapping(self, record: Any) -> bool:
        return True

    def of_record(self, record: Any) -> Any:
        return self.mapper.of_record(record)

    def slices_of(self, record: Any) -> Any:
        return self.mapper.slices_of(record)


def records_of(rng: random.Random, events: int, *, objects: bool) -> list[bytes]:
    """Traffic in single calls and batches, with records of other events and of nothing between."""
    values = [_with_products(rng, value) if objects else value for value in traffic(rng, events)]
    found = list[bytes]()
    while values:
        count = rng.choice((1, 1, 1, 2, 5, 30))
        part, values = values[:count], values[count:]
        found.append(part[0] if count == 1 else b'{"events": [%s]}' % b",".join(part))
        if rng.random() < 0.4:
            other = rng.choice(({"type": "page"}, {"type": "impression", "agent": "bot"}, [], None))
            found += [json.dumps(other).encode()] * rng.choice((1, 3))
    return found


def _with_products(rng: random.Random, value: bytes) -> bytes:
    event = json.loads(value)
    if isinstance(event, dict) and "items" in event:
        items = event.pop("items")
        event["products"] = [{"sku": one, "position": n} for n, one in enumerate(items, 1)]
        rng.shuffle(event["products"])
    return json.dumps(event).encode()


def after(
    values: Sequence[bytes], decode: Any, small_run: int, cut: int
) -> tuple[Lane, list[batch.DeadLetter]]:
    lane, letters = lane_of(plan=PLAN), list[batch.DeadLetter]()
    for first in range(0, len(values), cut):
        records = [record(value, timestamp=START_MS) for value in values[first : first + cut]]
        batch.begin(lane)
        for _ in batch.steps(lane, TOPIC, records, decode, letters, small_run):
            pass
        batch.end(lane, {})
        lane.start_batch()
    return lane, letters


@pytest.mark.parametrize("name", MAPPERS)
@pytest.mark.parametrize("seed", seeds(8))
def test_compiled_and_joined_at_once_is_interpreted_one_by_one(seed: int, name: str) -> None:
    values = records_of(random.Random(seed), 600, objects=name == "objects")
    mapper = MAPPERS[name]
    expected, expected_letters = after(values, Interpreted(mapper), ALONE, cut=70)
    assert expected.counts["skipped"] and expected_letters
    for small_run, cut in ((1, 70), (1, 1000), (vectorized.SMALL_RUN, 70), (1, 7)):
        lane, letters = after(values, mapper, small_run, cut)
        assert (rows_of(lane), open_of(lane)) == (rows_of(expected), open_of(expected))
        assert counts_of(lane) == counts_of(expected)
        assert lane.watermarks == expected.watermarks
        assert [(one.record.value, one.reason, one.detail) for one in letters] == [
            (one.record.value, one.reason, one.detail) for one in expected_letters
        ]


def test_most_records_are_compiled() -> None:
    """Otherwise the test above would compare the interpreter with itself."""
    for name, mapper in MAPPERS.items():
        values = records_of(random.Random(1), 600, objects=name == "objects")
        lane, _ = after(values, mapper, 1, 1000)
        assert lane.mapped_records[TOPIC] == len(values)
        assert 0 < lane.mapped_slowly[TOPIC] < len(values) / 2


def test_batches_and_records_that_are_not_mapped_cut_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = 0
    apply = vectorized.apply

    def counted(*arguments: Any) -> Any:
        nonlocal runs
        runs += 1
        return apply(*arguments)

    monkeypatch.setattr(vectorized, "apply", counted)
    shown = {"type": "impression", "timestamp": START_MS, "items": ["a"]}
    values = [
        json.dumps({"events": [{**shown, "impression_id": f"q{n}.{m}"} for m in range(3)]}).encode()
        for n in range(100)
    ]
    values = [one for value in values for one in (value, b'{"type": "page"}', b"null")]
    lane, _ = after(values, MAPPERS["ids"], 1, 1000)
    assert counts_of(lane)["impression_outcomes"] == {"accepted": 300}
    assert counts_of(lane)["skipped"] == {f"{TOPIC}/not_mapped": 200}
    assert runs == 1
