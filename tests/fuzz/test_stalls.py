"""No batch keeps the event loop, and so heartbeats and scrapes, from its turn for long."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from typing import Final

import pytest

from relevanced.daemon.events.decoder import decoder
from relevanced.daemon.events.types import Limits
from tests.builders import plan_with
from tests.daemon.events.records import FEEDBACK, IMPRESSION, NOON_MS
from tests.fuzz.settings import FACTOR
from tests.fuzz.stalls import worked
from tests.fuzz.test_bombs import NATIVE, UBI, numbered

RECORD_BYTES: Final = 1_000_000
"""Just below what a record may have by default."""
MAX_STALL_S: Final = 0.5
PLAN: Final = plan_with(groupings=(("country",), ("experiment:ranker-v2",)), depth=100)
LIMITS: Final = Limits(depth=100, max_grade=3.0, attributes=("country",))
SEARCH: Final = {**IMPRESSION, "grades": None, "timestamp": NOON_MS}

# Many small records, each with work for the slower readers or the rules.

Records = Callable[[int], Mapping[str, object] | Sequence[object]]
MANY: Final[Mapping[str, Records]] = {
    "a new value in each repeated impression": lambda n: {
        **SEARCH,
        "attributes": {"country": f"c{n}"},
    },
    "a bad record between two": lambda n: {} if n % 2 else {**SEARCH, "impression_id": n},
    "arrays of two": lambda n: [{**FEEDBACK, "rank": n}, {}],
    "many judgements": lambda n: {
        **SEARCH,
        "impression_id": n,
        "items": [f"d{i}" for i in range(100)],
        "grades": {f"d{i}": 1 for i in range(100)},
    },
    "grades of no item": lambda n: {
        **SEARCH,
        "impression_id": n,
        "items": [f"d{i}" for i in range(100)],
        "grades": {f"x{i}": 1 for i in range(1_000)},
    },
    "interleaved lists": lambda n: {**SEARCH, "impression_id": n, "teams": ["a"] * 100},
    "escapes": lambda n: {**SEARCH, "impression_id": "\x01" * 40, "items": ["\x02" * 40] * 50},
    "pages": lambda n: {**SEARCH, "items": [f"p{n}"], "first_rank": 1 + n % 100},
}


def check(title: str, values: Sequence[bytes], format: str = "native") -> None:
    """Up to three times: a core that is shared makes CPU time longer too."""
    for _ in range(3):
        done = worked(values, decoder(format, LIMITS), PLAN)
        print(f"{title}: longest stall {done.stall_s:.3f} s, {done.total_s:.2f} s in all")
        if done.stall_s <= MAX_STALL_S:
            return
    raise AssertionError(f"{title}: the event loop stood for {done.stall_s:.2f} s")


@pytest.mark.parametrize(
    ("format", "title"), [("native", title) for title in NATIVE] + [("ubi", title) for title in UBI]
)
def test_large_records_leave_turns_to_others(format: str, title: str) -> None:
    bomb = (NATIVE if format == "native" else UBI)[title](RECORD_BYTES)
    check(title, [bomb] * int(5 * min(FACTOR, 4)), format)


@pytest.mark.parametrize(
    "element", [b"{},", b'{"a":%d},', b'{"type":%d},', b'{"type":"feedback","rank":%d},', b"%d,"]
)
def test_arrays_of_refused_elements_leave_turns_to_others(element: bytes) -> None:
    bomb = (
        numbered(b"[", element, b"0]")
        if b"%d" in element
        else (lambda size: b"[" + element * (size // len(element)) + b"0]")
    )
    small, large = bomb(20_000), bomb(400_000)
    check("large arrays", [large] * 5)
    check("small arrays", [small] * 100)
    check("both", list(islice(cycle([small, large]), 20)))


@pytest.mark.parametrize("title", MANY)
def test_many_small_records_leave_turns_to_others(title: str) -> None:
    size = len(json.dumps(MANY[title](0)))
    count = min(6_000, 10_000_000 // size)
    check(title, [json.dumps(MANY[title](number)).encode() for number in range(count)])
