"""Records built to be expensive: memory and time stay proportional to their bytes, and the state
that a lane keeps of them stays small."""

import json
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from relevanced.daemon.events import Decoder, Limits, decoder
from relevanced.daemon.lane import CONFIRMED_OVER_MS, MOST_NEAR
from tests.builders import plan_with
from tests.daemon.events.records import FEEDBACK, IMPRESSION, NOON_MS
from tests.daemon.events.test_ubi import QUERY
from tests.fuzz.flow import Flow, check_verdicts
from tests.fuzz.settings import FACTOR

Bomb = Callable[[int], bytes]
SIZE: Final = int(300_000 * min(FACTOR, 10))
MEMORY_FACTOR: Final = 60
"""Maximum bytes of memory per byte of a record: `[0,0,…` makes an object of two bytes."""
SECONDS_FACTOR: Final = 3.5
"""Maximum growth of CPU time with twice the bytes: 2, plus the noise of the machine."""
LIMITS: Final = Limits(
    depth=100, max_grade=3.0, max_record_bytes=20_000_000, attributes=("country",)
)


def filled(start: bytes, one: bytes, end: bytes) -> Bomb:
    return lambda size: start + one * ((size - len(start) - len(end)) // len(one)) + end


def numbered(start: bytes, one: bytes, end: bytes) -> Bomb:
    """Like `filled`, with a different number in each repetition."""

    def bomb(size: int) -> bytes:
        count = (size - len(start) - len(end)) // (len(one) + 4)
        return start + b"".join([one % number for number in range(count)]) + end

    return bomb


def around(
    record: Mapping[str, object], name: str, start: bytes, end: bytes
) -> tuple[bytes, bytes]:
    """The record, split at the value of one member: the JSON before the value and after it."""
    members = json.dumps({key: value for key, value in record.items() if key != name})[1:-1]
    return b'{%b,"%b":%b' % (members.encode(), name.encode(), start), end + b"}"


def inside(record: Mapping[str, object], name: str, start: bytes, one: bytes, end: bytes) -> Bomb:
    head, tail = around(record, name, start, end)
    return (numbered if b"%d" in one else filled)(head, one, tail)


FEEDBACK_BYTES: Final = json.dumps({**FEEDBACK, "impression_id": "n%d"}).encode()
NATIVE: Final[Mapping[str, Bomb]] = {
    "deep arrays": lambda size: b"[" * (size // 2) + b"]" * (size // 2),
    "deep objects": filled(b'{"a":', b'{"a":', b"1"),
    "deep member": lambda size: b'{"query":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}",
    "array of nothing": filled(b"[", b"0,", b"0]"),
    "array of objects": filled(b"[", b"{},", b"{}]"),
    "array of half events": filled(b"[", b'{"type":"impression"},', b"{}]"),
    "array of events": numbered(b"[", FEEDBACK_BYTES.replace(b"n%d", b"%d") + b",", b"1]"),
    "blanks": filled(b"", b" ", b"1"),
    "digits": filled(b'{"type":"feedback","rank":', b"7", b"}"),
    "fraction": filled(b'{"type":"feedback","timestamp":0.', b"7", b"}"),
    "exponent": filled(b'{"type":"feedback","timestamp":1e', b"0", b"1}"),
    "escapes": inside(IMPRESSION, "impression_id", b'"', b"\\u0041", b'"'),
    "long text": inside(IMPRESSION, "query", b'"', b"\xc3\xa9", b'"'),
    "long list": inside(IMPRESSION, "items", b'["x"', b',"d%d"', b"]"),
    "list of numbers": inside(IMPRESSION, "items", b"[1", b",2", b"]"),
    "list of one item": inside(IMPRESSION, "items", b'["d"', b',"d"', b"]"),
    "many grades": inside(IMPRESSION, "grades", b'{"x":1', b',"d%d":1', b"}"),
    "many attributes": inside(IMPRESSION, "attributes", b'{"country":"US"', b',"a%d":"x"', b"}"),
    "bad attributes": inside(IMPRESSION, "attributes", b'{"country":["US"]', b',"a%d":[]', b"}"),
    "many experiments": inside(IMPRESSION, "experiments", b'{"e":"x"', b',"e%d":"x"', b"}"),
    "bad experiments": inside(IMPRESSION, "experiments", b'{"e":"x"', b',"e%d":[]', b"}"),
    "doubled members": filled(b'{"type":"impression"', b',"impression_id":1', b"}"),
    "unknown members": numbered(b'{"type":"impression"', b',"m%d":1', b"}"),
}
UBI: Final[Mapping[str, Bomb]] = {
    "many attributes": inside(QUERY, "query_attributes", b'{"country":"US"', b',"a%d":1', b"}"),
    "bad attributes": inside(QUERY, "query_attributes", b'{"country":"US"', b',"a%d":[]', b"}"),
    "many experiments": inside(
        QUERY, "query_attributes", b'{"experiments":{"a":1', b',"e%d":1', b"}}"
    ),
    "bulk action": filled(b'{"index":{"a":1', b',"a":1', b"}}"),
    "bulk actions": filled(b'{"index":{}', b',"index":{}', b"}"),
    "long list": inside(QUERY, "query_response_hit_ids", b'["x"', b',"d%d"', b"]"),
}
BOMBS: Final = [
    pytest.param(decoder(name, LIMITS), bomb, id=f"{name} {title}")
    for name, bombs in (("native", NATIVE), ("ubi", UBI))
    for title, bomb in bombs.items()
]


def cpu_s(decode: Decoder, value: bytes, times: int = 3) -> float:
    """The least CPU time of several runs."""
    least = float("inf")
    for _ in range(times):
        began_s = time.process_time()
        decode(value, None)
        least = min(least, time.process_time() - began_s)
    return least


@pytest.mark.parametrize(("decode", "bomb"), BOMBS)
def test_cost_of_a_record_is_proportional_to_its_bytes(decode: Decoder, bomb: Bomb) -> None:
    small, large = bomb(SIZE // 2), bomb(SIZE)
    assert SIZE * 0.4 < len(small) < len(large) * 0.6
    check_verdicts(decode(small, None)[:1000], LIMITS)
    tracemalloc.start()
    verdicts = decode(large, None)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes <= MEMORY_FACTOR * len(large), (peak_bytes, len(verdicts))
    assert any(growth(decode, small, large) <= SECONDS_FACTOR for _ in range(6))


def growth(decode: Decoder, small: bytes, large: bytes) -> float:
    """The factor by which CPU time grows with twice the bytes."""
    return cpu_s(decode, large) / max(cpu_s(decode, small), 0.001)


def test_record_beyond_the_limit_costs_nothing() -> None:
    decode, value = decoder("native", Limits()), b"[" + b"{}," * 3_500_000 + b"{}]"
    assert len(value) > 10_000_000
    tracemalloc.start()
    (verdict,) = decode(value, None)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert getattr(verdict, "reason") == "too_large" and peak_bytes < 10_000


# What a lane keeps ---------------------------------------------------------------------------

PLAN: Final = plan_with(groupings=(("country",), ("experiment:ranker-v2",)), max_segments=3)
SEARCH: Final = {**IMPRESSION, "grades": None, "timestamp": NOON_MS}
FLOODS: Final[Mapping[str, Callable[[int], Mapping[str, object]]]] = {
    "values": lambda n: {**SEARCH, "impression_id": n, "attributes": {"country": f"c{n}"}},
    "names of attributes": lambda n: {**SEARCH, "impression_id": n, "attributes": {f"a{n}": "x"}},
    "variants": lambda n: {**SEARCH, "impression_id": n, "experiments": {"ranker-v2": f"v{n}"}},
    "experiments": lambda n: {**SEARCH, "impression_id": n, "experiments": {f"e{n}": "x"}},
    "kinds": lambda n: {**FEEDBACK, "kind": f"kind {n}"},
    "lists": lambda n: {**SEARCH, "impression_id": n, "items": [f"{n}-{i}" for i in range(50)]},
    "orphans": lambda n: {**FEEDBACK, "impression_id": f"nobody {n}"},
}
RECORDS: Final = 600
STORED_FACTOR: Final = 3
"""Maximum bytes in the store per byte of input."""
SEGMENTS_AT_MOST: Final = 1 + 2 * (10 * 3 + 1)


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_state_after_a_flood_of_new_values_is_small(
    flood: Callable[[int], Mapping[str, object]],
) -> None:
    flow = Flow(PLAN, decoder("native", LIMITS))
    values = [json.dumps(flood(number)).encode() for number in range(RECORDS)]
    for first in range(0, RECORDS, 200):
        flow.take(*values[first : first + 200])
    lane = flow.owned.lane
    assert len(lane.segments.names) <= SEGMENTS_AT_MOST
    assert len(lane.segments.combinations) <= (10 * 3 + 1) ** 2
    assert sum(len(labels) for labels in lane.counts.values()) <= 20
    stored = sum(map(len, flow.store.blobs.values()))
    assert stored <= STORED_FACTOR * sum(map(len, values))
    flow.check()


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_state_of_a_flood_is_removed_when_it_expires(
    flood: Callable[[int], Mapping[str, object]],
) -> None:
    flow = Flow(PLAN, decoder("native", LIMITS))
    flow.take(*(json.dumps(flood(number)).encode() for number in range(RECORDS)))
    later_ms = NOON_MS + 4 * PLAN.timing.longest.length_ms
    for index in range(MOST_NEAR // 2 + 1):
        at_ms = later_ms + CONFIRMED_OVER_MS * (index >= MOST_NEAR // 2 - 1)
        search = {**SEARCH, "impression_id": f"later {index}", "timestamp": at_ms}
        flow.take(json.dumps(search).encode())
    lane = flow.owned.lane
    assert (len(lane.open), len(lane.waiting)) == (MOST_NEAR // 2 + 1, 0)
    assert min(start_ms for _, start_ms in lane.panes) > NOON_MS + RECORDS
    assert not [key for key in flow.store.blobs if key.startswith("rows:") and str(NOON_MS) in key]


def test_every_event_of_a_large_array_counts() -> None:
    flow = Flow(PLAN, decoder("native", LIMITS))
    events = [json.dumps(FLOODS["values"](number)).encode() for number in range(100_000 // 4)]
    flow.take(b"[" + b",".join(events) + b"]")
    assert flow.accepted() == len(events)
    assert len(flow.owned.lane.segments.names) <= SEGMENTS_AT_MOST
