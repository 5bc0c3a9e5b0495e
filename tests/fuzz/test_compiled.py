"""The compiled form of a mapping reads any record as the interpreter does, or leaves it to it."""

import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest
from msgspec import structs

from relevanced.daemon.attribution import LoggedRecords, runs
from relevanced.daemon.events import Event, Limits, Rejected
from relevanced.daemon.lane import AttributeTexts
from relevanced.daemon.mapping import Drop, Mapper, expression, reason_to_interpret
from relevanced.metrics import parse
from tests.builders import plan_with
from tests.daemon.mapping.preset_records import EXAMPLES, NOON_MS
from tests.daemon.mapping.sources import CLICKS, clicked, json, mapper_of
from tests.fuzz.mutations import mutated
from tests.fuzz.own_formats import OWN_FORMATS
from tests.fuzz.settings import FACTOR

LIMITS: Final = Limits(depth=5, max_grade=3.0, attributes=("country", "device"), queries=True)
PLAN: Final = plan_with(groupings=(("country",), ("device",)), metrics=(parse("P@2"),))
CHUNK: Final = 40
SEED: Final = "RELEVANCED_FUZZ_SEED"
"""The variable that repeats a run."""
RECORDS: Final = 400
"""Of each format, in the tests."""
FORMATS: Final = {
    name: (f'preset = "{name}"\n{one.config}', one.records) for name, one in EXAMPLES.items()
} | OWN_FORMATS


def with_staff(mapper: Mapper) -> Mapper:
    """The mapper with a rule that drops the events of some users, as a file of values would."""
    staff = Drop("staff", value=expression("user.id"), values=frozenset(("u9", "7")))
    return replace(mapper, source=replace(mapper.source, drops=(*mapper.source.drops, staff)))


MAPPERS: Final = {
    name: (mapper_of(config, LIMITS), good) for name, (config, good) in FORMATS.items()
}
_PLAIN, _GOOD = FORMATS["plain ids"]
MAPPERS["by last touch"] = (
    mapper_of(
        _PLAIN.replace('visitor = "user.id"', 'visitor = "user.plan"\nuser = "user.id"'),
        structs.replace(LIMITS, join="last_touch"),
    ),
    _GOOD,
)
MAPPERS["with a list of staff"] = (with_staff(MAPPERS["plain ids"][0]), MAPPERS["plain ids"][1])


def logged(rng: random.Random, value: bytes) -> Any:
    stamp = rng.choice((-1, NOON_MS, NOON_MS, NOON_MS + 3_600_000, NOON_MS - 600_000))
    headers = rng.choice(((), (("X-Kind", b"shown"),), (("x-kind", b"\xff"), ("x-kind", b"a"))))
    key = rng.choice((None, b"k1", b"\xff", b""))
    return record_of(value, headers, stamp, key)


def record_of(value: bytes | None, headers: Any, timestamp: int = -1, key: Any = None) -> Any:
    """A record as the log gives it."""
    position = {"topic": "t", "partition": 0, "offset": 0}
    given = {"timestamp": timestamp, "value": value, "key": key, "headers": headers}
    return SimpleNamespace(**position, **given)


def read_fast(mapper: Mapper, records: Sequence[Any]) -> tuple[list[Event], Counter[str], int]:
    """Events in order, what is refused and skipped by reason, and the records that were left."""
    events, reasons, left = list[Event](), Counter[str](), 0
    for part in runs.read_runs(LoggedRecords(records), mapper, AttributeTexts(PLAN)):
        if isinstance(part, runs.Run):
            events += [part.event(index) for index in range(len(part))]
        elif isinstance(part, runs.Single):
            decoded = [one for some in part.slices for one in some]
            events += [one for one in decoded if not isinstance(one, Rejected)]
            reasons.update(_reason(one) for one in decoded if isinstance(one, Rejected))
        elif part is not None:
            reasons.update(_reason(rejected) for _, rejected in part.rejected)
            reasons.update(f"Skipped {reason}" for reason in part.skipped)
            left += part.slowly
    return events, reasons, left


def read_slowly(mapper: Mapper, records: Sequence[Any]) -> tuple[list[Event], Counter[str]]:
    decoded = [one for record in records for one in mapper.of_record(record)]
    return (
        [one for one in decoded if not isinstance(one, Rejected)],
        Counter(_reason(one) for one in decoded if isinstance(one, Rejected)),
    )


def _reason(rejected: Rejected) -> str:
    return f"{type(rejected).__name__} {rejected.reason}"


@pytest.mark.parametrize("name", MAPPERS)
def test_any_records_are_read_as_the_interpreter_reads_them(name: str) -> None:
    mapper, good = MAPPERS[name]
    drawn = 1 if FACTOR == 1 else random.SystemRandom().randrange(1 << 30)
    seed = int(os.environ.get(SEED) or drawn)
    print(f"{SEED}={seed}")
    rng, left, count = random.Random(seed), 0, int(RECORDS * FACTOR)
    for first in range(0, count, CHUNK):
        values = [mutated(rng, rng.choice(good), good) for _ in range(CHUNK)]
        records = [logged(rng, value) for value in values]
        events, reasons, slowly = read_fast(mapper, records)
        left += slowly
        if (events, reasons) != read_slowly(mapper, records):
            assert_one_by_one(mapper, records, f"{name}, seed {seed}, records from {first} on")
            raise AssertionError(f"{name}, seed {seed}: a chunk differs from its records")
    assert left < count * 0.7, "otherwise this compares the interpreter with itself"


def assert_one_by_one(mapper: Mapper, records: Sequence[Any], where: str) -> None:
    """Name the first record that differs."""
    for record in records:
        events, reasons, _ = read_fast(mapper, [record])
        assert (events, reasons) == read_slowly(mapper, [record]), (where, record)


@pytest.mark.parametrize("name", MAPPERS)
def test_good_records_are_not_left_to_the_interpreter(name: str) -> None:
    (mapper, good), rng = MAPPERS[name], random.Random(1)
    assert reason_to_interpret(mapper.source, LIMITS) is None
    records = [logged(rng, mutated(_Unchanging(1), one, good)) for one in good]
    for record in records:
        record.timestamp, record.key = -1, b"k1"
    assert read_fast(mapper, records)[2] == 0


@pytest.mark.parametrize("count", [1, 40])
def test_feedback_about_no_item_is_skipped_by_both(count: int) -> None:
    text = CLICKS.replace('"item"', '"sku"') + 'items = "products"'
    lists: Sequence[Any] = ([], None, [{"sku": "a"}])
    values = [json(clicked(products=one)) for one in lists for _ in range(count)]
    records = [record_of(value, ()) for value in values]
    mapper = mapper_of(text, LIMITS)
    events, reasons, left = read_fast(mapper, records)
    assert (events, reasons) == read_slowly(mapper, records) and not left
    assert (len(events), reasons) == (count, {"Skipped no_item": 2 * count})


class _Unchanging(random.Random):
    """Draws no change."""

    def random(self) -> float:
        return 0.9

    def choice(self, seq: Any) -> Any:
        return seq[0]
