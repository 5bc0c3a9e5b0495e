"""What the doctor says of keys, crawlers, consent, order, size, and the smallest drop."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from aiokafka.partitioner import murmur2

from relevanced.daemon.changes import ScoreNoise
from relevanced.daemon.config import decoder_of, load
from relevanced.daemon.events import instant_ms
from relevanced.daemon.plan import Plan
from relevanced.daemon.recompute.files import RecordedRecord
from relevanced.daemon.tools.diagnosis import (
    DoctorFinding,
    Looked,
    Smallest,
    crawlers,
    effect_of_visitors,
    keys_of,
    lane_of,
    looked_at,
    size_of,
    smallest_drops,
    span_s,
)
from relevanced.daemon.tools.doctor import diagnosed
from relevanced.daemon.tools.traffic import SHAPES
from tests.daemon.tools.doctor.test_diagnosis import EVENTS, START_MS, native_events, said

PARTITIONS = 6
PLACES: dict[str | None, Callable[[bytes], int]] = {
    "murmur2": lambda key: (murmur2(key) & 0x7FFFFFFF) % PARTITIONS,
    "CRC32": lambda key: zlib.crc32(key) % PARTITIONS,
    None: lambda key: (key[-1] * 7 + key[0]) % PARTITIONS,
}


def segment_records(change: Callable[[int, dict[str, Any]], None]) -> list[RecordedRecord]:
    """In Segment's shape, changed one by one."""
    found = []
    for offset, (at, event) in enumerate(native_events()):
        value = SHAPES["segment"].record(event)
        change(offset, value)
        body = msgspec.json.encode(value)
        found.append(RecordedRecord("shop", 0, offset, at, None, body, ()))
    return found


def diagnosis(records: Sequence[RecordedRecord]) -> tuple[dict[str, DoctorFinding], str]:
    found, text = diagnosed({"shop": records}, [])
    assert text is not None
    return said(found), text


@pytest.mark.parametrize("partitioner", PLACES)
def test_the_partitioner_of_the_keys_is_found(partitioner: str | None) -> None:
    place = PLACES[partitioner]
    keys = [f"key-{n % 200}".encode() for n in range(1_000)]
    records = [RecordedRecord("t", place(key), 0, 0, key, b"{}", ()) for key in keys]
    found = keys_of(records)
    assert (found.keyed, found.distinct, found.partitioner) == (1.0, 200, partitioner)
    if partitioner is not None:
        assert found.partitions == PARTITIONS


def test_what_the_key_of_a_topic_means_is_said() -> None:
    records = []
    for offset, (at, event) in enumerate(native_events()):
        key, body = event["impression_id"].encode(), msgspec.json.encode(event)
        place = PLACES["murmur2"](key)
        records.append(RecordedRecord("shop", place, offset, at, key, body, ()))
    lines, _ = diagnosis(records)
    words = lines["keys of shop"].words
    assert "it is the id of the search; placed by murmur2 over 6 partitions" in words


def test_crawlers_are_counted_and_left_out_by_the_proposal() -> None:
    def change(offset: int, value: dict[str, Any]) -> None:
        name = "Googlebot/2.1" if offset % 10 == 0 else "Mozilla/5.0 (X11)"
        value.setdefault("context", {})["userAgent"] = name

    records = segment_records(change)
    lines, text = diagnosis(records)
    assert lines["crawlers"].level == "look"
    assert "10.0 % of the records with context.userAgent name a crawler" in lines["crawlers"].words
    decode = decoder_of(load(text, {}, "proposed"))
    reasons = [
        getattr(event, "reason", None) for record in records for event in decode.of_record(record)
    ]
    assert reasons.count("bot") == len(records) // 10


@pytest.mark.parametrize(
    ("member", "is_agent"),
    [
        ("userAgent", True),
        ("user_agent", True),
        ("agent", True),
        ("ua", True),
        ("quality", False),
        ("lua", False),
    ],
)
def test_user_agents_are_known_by_the_name_of_their_member(member: str, is_agent: bool) -> None:
    assert bool(crawlers([{"context": {member: "bot"}}])) is is_agent


def test_flags_of_consent_that_are_false_are_said() -> None:
    def change(offset: int, value: dict[str, Any]) -> None:
        value.setdefault("context", {})["consent"] = {"analytics_consent": offset % 4 > 0}

    lines, _ = diagnosis(segment_records(change))
    assert lines["consent"].level == "look"
    assert lines["consent"].words.startswith(
        f"context.consent.analytics_consent is false in 25.0 % of {EVENTS:,} records"
    )


def test_disorder_beyond_the_lateness_proposes_a_longer_one() -> None:
    records = segment_records(lambda offset, value: None)
    late = records[::20]
    ordered = [record for record in records if record not in late]
    lines, text = diagnosis([*ordered, *late])
    assert lines["disorder"].level == "look"
    proposed = load(text, {}, "proposed").attribution.lateness_s
    assert 60 < proposed and "lateness" in text
    again, _ = diagnosis(records)
    assert again["disorder"].level == "good"


def test_repeated_events_are_counted() -> None:
    records = segment_records(lambda offset, value: None)
    lines, _ = diagnosis([*records, *records[:60]])
    lists = sum(event["type"] == "impression" for _, event in native_events()[:60])
    words = f"{lists} impressions and {60 - lists} pieces of feedback repeat an earlier one"
    assert lines["duplicates"].words.startswith(words)


def looked(every: int = 1) -> Looked:
    """Native events; with `every`, of so many impressions one."""
    kept = {e["impression_id"] for _, e in native_events() if hash_of(e) % every == 0}
    records = [
        RecordedRecord("t", 0, offset, at, None, msgspec.json.encode(event), ())
        for offset, (at, event) in enumerate(native_events())
        if event["impression_id"] in kept
    ]
    return looked_at({"t": records}, decoder_of(load('[events]\nmax_future = "366d"', {}, "")))


def hash_of(event: dict[str, Any]) -> int:
    return zlib.crc32(event["impression_id"].encode())


def drops(sample: Looked, plan: Plan) -> list[Smallest]:
    return smallest_drops(lane_of(sample, plan), span_s(sample.seen), 6, ScoreNoise())


def test_the_smallest_drop_is_larger_with_less_traffic_and_unknown_with_little() -> None:
    plan = load('[segments]\ngroupings = [["country"]]', {}, "").plan
    much, some = (drops(looked(n), plan) for n in (1, 4))
    assert plan.metrics[6].name == "nDCG@10"
    assert some[0].drops is not None and much[0].drops is not None
    weeks, week, day = much[0].drops
    assert 0.02 < weeks < week < day <= 1 and weeks < some[0].drops[0] < 1
    known = [one.drops[0] for one in much if one.grouping == "country" and one.drops is not None]
    assert known and min(known) >= weeks
    assert drops(looked(100), plan)[0].drops is None


def test_sizes_grow_with_traffic_and_segments() -> None:
    plan, sample = load("", {}, "").plan, looked()
    one, ten = (size_of(sample, plan, segments, 35) for segments in (1, 10))
    assert one is not None and ten is not None
    assert ten.series == 10 * one.series and ten.redis_bytes > one.redis_bytes
    assert ten.memory_bytes == one.memory_bytes
    assert size_of(Looked(), plan, 1, 35) is None


def test_searches_of_one_visitor_that_resemble_one_another_widen_the_smallest_drop() -> None:
    """The effect of visitors with m equal searches each is m; of independent ones it is 1."""
    rng = np.random.default_rng(11)
    scores = rng.random(20_000)
    assert effect_of_visitors(scores, np.arange(20_000)) == pytest.approx(1)
    assert effect_of_visitors(scores, np.repeat(np.arange(5_000), 4)) == pytest.approx(1, abs=0.05)
    same = np.repeat(rng.random(5_000), 4)
    assert effect_of_visitors(same, np.repeat(np.arange(5_000), 4)) == pytest.approx(4)
    assert effect_of_visitors(np.ones(10), np.arange(10)) is None


@pytest.mark.parametrize("searches", [1, 4])
def test_the_design_effect_of_the_sample_is_used_where_visitors_come_back(searches: int) -> None:
    """Every fourth visitor clicks first results only, the others last ones only."""
    events = []
    for n in range(800):
        visitor, at = n // searches, START_MS + n * 1_000
        shown = {"type": "impression", "impression_id": f"q{n}", "timestamp": at}
        events.append(shown | {"items": ["a", "b", "c"], "user_id": f"u{visitor}"})
        clicked = {"type": "feedback", "impression_id": f"q{n}", "timestamp": at + 500}
        events.append(clicked | {"kind": "click", "item": "c" if visitor % 4 else "a"})
    records = [
        RecordedRecord("shop", n % 2, n, event["timestamp"], None, msgspec.json.encode(event), ())
        for n, event in enumerate(events)
    ]
    lines, _ = diagnosis(records)
    if searches == 1:
        assert "design effect" not in lines
    else:
        assert lines["design effect"].words.startswith("4.0: searches of one visitor")


def test_mixed_ranks_are_explained_by_the_attribute_by_which_they_agree() -> None:
    """One application counts ranks from 0. Values of attributes are named only where asked for."""
    devices = {
        event["impression_id"]: event["attributes"]["device"]
        for _, event in native_events()
        if event["type"] == "impression"
    }
    records = []
    for offset, (at, event) in enumerate(native_events()):
        if event["type"] == "feedback" and devices[event["impression_id"]] == "ios":
            event = event | {"rank": event["rank"] - 1}
        body = msgspec.json.encode(event)
        records.append(RecordedRecord("shop", 0, offset, at, None, body, ()))
    found = {values: said(diagnosed({"shop": records}, [], values=values)[0]) for values in (0, 1)}
    words = found[0]["ranks"].words
    assert found[0]["ranks"].level == "wrong" and words.startswith("mixed: ")
    assert "; by device they agree: map each in a table of its own" in words and "ios" not in words
    assert "ios: -1" in found[1]["ranks"].words and "web: +0" in found[1]["ranks"].words


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("seconds", 1e-3), ("milliseconds", 1), ("microseconds", 1e3), ("nanoseconds", 1e6)],
)
def test_the_unit_of_times_is_said(unit: str, factor: float) -> None:
    def change(offset: int, value: dict[str, Any]) -> None:
        value["timestamp"] = int(instant_ms(value["timestamp"]) * factor)

    lines, _ = diagnosis(segment_records(change))
    assert lines["time"].words.startswith(f"written in {unit}; event time minus record time: ")


def test_times_as_text_are_said_to_be_iso_8601() -> None:
    lines, _ = diagnosis(segment_records(lambda offset, value: None))
    assert lines["time"].words.startswith("written in ISO 8601; ")
