"""A replay in batches gives the numbers of one that sorts all events in memory and applies them one
by one, for any files."""

import gzip
import io
import json
import random
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.attribution import join_rules
from relevanced.daemon.config import Config, load
from relevanced.daemon.events import FORMATS
from relevanced.daemon.recompute.files import line_files, recorded_source, time_order
from relevanced.daemon.recompute.replay_pipeline import Replayed, replayed
from tests.daemon.recompute.recorded.one_by_one import (
    slow_kinds,
    slow_lane,
    slow_refusals,
    state_of,
)
from tests.fuzz.hostile import records as hostile_records
from tests.fuzz.settings import examples
from tests.fuzz.test_any_bytes import GOOD
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, START_MS, as_plain_records, random_records

TOML: Final = """
windows = ["30s", "2m", "10m"]
[attribution]
window = "1m"
lateness = "5s"
[metrics]
names = ["P@2", "RR@10", "nDCG@5", "ERR@10"]
depth = 12
[segments]
groupings = [["country"], ["country", "device"]]
max_segments = 1
[events]
max_record_bytes = 4096
format = "{}"
"""
SMALL: Final = {
    (line_files, "BLOCK_BYTES"): 700,
    (time_order, "BUFFER_BYTES"): 9_000,
    (time_order, "BLOCK_BYTES"): 600,
    (time_order, "MOST_OVERLAPPING"): 3,
    (recorded_source, "EVENTS_AT_ONCE"): 150,
}


def config_of(format_name: str = "native") -> Config:
    return load(TOML.format(format_name), {}, "test")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers so small that a few hundred events fill many of them."""
    for (module, name), value in SMALL.items():
        monkeypatch.setattr(module, name, value)


def fast(paths: Sequence[str], config: Config, *, as_is: bool) -> Replayed:
    bars = Progress(console=Console(file=io.StringIO(), quiet=True))
    return replayed(paths, config, bars, as_is=as_is)


def assert_same(paths: Sequence[str], config: Config, *, as_is: bool) -> Replayed:
    found, expected = fast(paths, config, as_is=as_is), slow_lane(paths, config, as_is=as_is)
    assert state_of(found.lane) == state_of(expected)
    refused = {one.reason: (one.count, one.file, one.line) for one in found.refusals.listed(paths)}
    slow = slow_refusals(paths, config)
    assert refused == {reason: first[:3] for reason, first in slow.items()}
    for one in found.refusals.listed(paths):
        assert one.detail == slow[one.reason][3] or not slow[one.reason][3]
    assert found.ignored_kinds.by_kind() == slow_kinds(paths, config)
    return found


def written(folder: Path, parts: Sequence[Sequence[bytes]]) -> list[str]:
    """A file of each part: plain, gzipped, and as an export from Windows would be."""
    paths = []
    for number, lines in enumerate(parts):
        path = folder / ("events.jsonl", "more.jsonl.gz", "export.jsonl")[number]
        data = b"\n".join(lines) + b"\n"
        if number == 1:
            data = gzip.compress(data)
        elif number == 2:
            data = BOM_UTF8 + b"\r\n \r\n".join(lines)
        path.write_bytes(data)
        paths.append(str(path))
    return paths


def traffic(rng: random.Random, *, plain: bool) -> list[bytes]:
    """Lines with arrays, duplicates, later pages, orphans, bad records; in one of four orders."""
    records = random_records(rng, topics=1, partitions=1, events=400, config=SMALL_CONFIG)
    if plain:
        records = as_plain_records(records, rng, SMALL_CONFIG)
    lines = [record.value for record in records if record.value is not None]
    order = rng.randrange(4)
    if order == 1:
        rng.shuffle(lines)
    elif order == 2:
        keys = {n: n + rng.randrange(40) for n in range(len(lines))}
        lines = [lines[n] for n in sorted(keys, key=keys.__getitem__)]
    elif order == 3:
        lines.reverse()
    return lines


@pytest.mark.parametrize("as_is", [False, True], ids=["in order", "as is"])
@pytest.mark.parametrize("plain", [False, True], ids=["all kinds", "plain"])
@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.usefixtures("small")
def test_any_files_give_the_numbers_of_one_by_one(
    seed: int, plain: bool, as_is: bool, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    lines = traffic(rng, plain=plain)
    cuts = sorted(rng.randrange(len(lines)) for _ in range(2))
    parts = [lines[: cuts[0]], lines[cuts[0] : cuts[1]], lines[cuts[1] :]]
    found = assert_same(written(tmp_path, parts), config_of(), as_is=as_is)
    assert as_is or found.accepted > 20


@pytest.mark.usefixtures("small")
def test_files_not_seen_before(rng: np.random.Generator, tmp_path: Path) -> None:
    again = random.Random(int(rng.integers(2**63)))
    for as_is in (False, True):
        lines = traffic(again, plain=again.random() < 0.5)
        assert_same(written(tmp_path, [lines[::2], lines[1::2]]), config_of(), as_is=as_is)


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("as_is", [False, True], ids=["in order", "as is"])
@examples(60)
@given(st.data())
def test_any_bytes_give_the_numbers_of_one_by_one(
    name: str, as_is: bool, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = data.draw(st.lists(hostile_records(GOOD[name]), min_size=1, max_size=12))
    good = [json.dumps(value).encode() for value in GOOD[name]]
    paths = written(tmp_path_factory.mktemp("any"), [lines + good, good + lines])
    assert_same(paths, config_of(name), as_is=as_is)


UBI_QUERY: Final = {"application": "shop", "query_attributes": {"country": "US", "device": "ios"}}


def as_ubi(line: bytes) -> bytes:
    """A plain native event as UBI."""
    event = json.loads(line)
    moved = {"query_id": event["impression_id"], "timestamp": event["timestamp"]}
    if event["type"] == "impression":
        return json.dumps(UBI_QUERY | moved | {"query_response_hit_ids": event["items"]}).encode()
    place = {"object": {"object_id": event.get("item")}, "position": {"ordinal": event.get("rank")}}
    named = {"action_name": event.get("kind") or "click", "event_attributes": place}
    return json.dumps(moved | named).encode()


@pytest.mark.parametrize("as_is", [False, True], ids=["in order", "as is"])
@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.usefixtures("small")
def test_another_format_gives_the_numbers_of_one_by_one(
    seed: int, as_is: bool, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    lines = [as_ubi(line) for line in traffic(rng, plain=True) if line.startswith(b'{"type"')]
    found = assert_same(written(tmp_path, [lines[::2], lines[1::2]]), config_of("ubi"), as_is=as_is)
    assert as_is or found.accepted > 20 and found.lane.counts["feedback_outcomes"]["joined"] > 20


def test_most_events_are_joined_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would compare one way with itself."""
    alone = Counter[str]()
    event_steps = join_rules.event_steps

    def counted(lane: Any, topic: str, event: Any, watermark: int | None) -> Iterator[None]:
        alone[type(event).__name__] += 1
        return event_steps(lane, topic, event, watermark)

    monkeypatch.setattr(join_rules, "event_steps", counted)
    events = [
        {"type": "impression", "impression_id": f"q{n}", "timestamp": START_MS + n, "items": ["a"]}
        for n in range(2_000)
    ]
    reactions = [
        {"type": "feedback", "impression_id": f"q{n}", "timestamp": START_MS + n, "kind": "click"}
        | {"item": "a"}
        for n in range(2_000)
    ]
    lines = [json.dumps(event).encode() for event in (*reactions, *events)]
    random.Random(1).shuffle(lines)
    found = fast(written(tmp_path, [lines]), config_of(), as_is=False)
    assert found.lane.counts["feedback_outcomes"]["joined"] == found.accepted == 2_000
    assert alone.total() < 100


@pytest.mark.usefixtures("small")
def test_equal_times_keep_the_order_of_the_files_impressions_first(tmp_path: Path) -> None:
    """However many buffers they fill: of each id the first list wins, and clicks find it."""
    at = {"timestamp": START_MS}
    clicks = [
        {"type": "feedback", "impression_id": f"q{n}", "kind": "click", "item": "a"} | at
        for n in range(300)
    ]
    lists = [
        {"type": "impression", "impression_id": f"q{n}", "items": [item, "x"]} | at
        for item in "ab"
        for n in range(300)
    ]
    lines = [json.dumps(event).encode() for event in (*clicks, *lists)]
    found = fast(written(tmp_path, [lines[:450], lines[450:]]), config_of(), as_is=False)
    counts = found.lane.counts
    assert counts["impression_outcomes"] == {"accepted": 300, "conflicting": 300}
    assert counts["feedback_outcomes"]["joined"] == 300
