"""A sample that --max-mb cuts ends at one time in all partitions, and says so."""

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.kafka import Record, SamplePortion, TopicPartition, reached_ms
from relevanced.daemon.tools import doctor

START_MS = 1_795_176_000_000
LISTS = TopicPartition("lists", 0)
CLICKS = TopicPartition("clicks", 0)


def record(place: TopicPartition, at_ms: int, value: bytes = b"{}") -> Record:
    return Record(*place, 0, at_ms, None, value, ())


def test_the_sample_reaches_as_far_as_its_slowest_unfinished_partition() -> None:
    rng = random.Random(4)
    places = [TopicPartition(topic, number) for topic in ("lists", "clicks") for number in range(3)]
    for _ in range(200):
        since_ms = START_MS - 1
        records = [
            record(rng.choice(places), START_MS + rng.randrange(1000))
            for _ in range(rng.randrange(40))
        ]
        unfinished = rng.sample(places, rng.randint(1, len(places)))
        latest = [
            max([r.timestamp for r in records if (r.topic, r.partition) == place], default=since_ms)
            for place in unfinished
        ]
        assert reached_ms(records, unfinished, since_ms) == min(latest)


def events() -> tuple[list[Record], list[Record]]:
    """Lists, and a click on each 4 s later."""
    lists, clicks = [], []
    for search in range(600):
        at_ms, items = START_MS + 500 * search, [f"d{(search + n) % 50}" for n in range(5)]
        common: dict[str, Any] = {"impression_id": f"q{search}"}
        shown = common | {"type": "impression", "timestamp": at_ms, "items": items}
        click = {"type": "feedback", "timestamp": at_ms + 4000, "kind": "click", "item": items[0]}
        lists.append(record(LISTS, at_ms, json.dumps(shown).encode()))
        clicks.append(record(CLICKS, at_ms + 4000, json.dumps(common | click).encode()))
    return lists, clicks


def told(monkeypatch: pytest.MonkeyPatch, portion: SamplePortion) -> Result:
    async def portions(*_: object) -> AsyncIterator[SamplePortion]:
        yield portion

    monkeypatch.setattr(doctor, "sampled_records", portions)
    where = ("--kafka", "localhost:1", "--topics", "lists,clicks", "--minutes", "100000000")
    return CliRunner().invoke(cli, ["doctor", *where, "--max-mb", "7"])


def test_a_topic_of_clicks_that_is_read_to_its_end_is_cut_where_the_lists_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists, clicks = events()
    found = told(monkeypatch, SamplePortion([*lists[:200], *clicks], {LISTS}))
    assert found.exit_code == 0, found.output
    assert "look   sample" in found.output and "cut by --max-mb 7" in found.output
    assert "to 2026-11-20T12:01:39.500Z" in found.output
    assert "200 impressions, 192 pieces of feedback" in found.output


def test_a_limit_that_leaves_nothing_of_a_topic_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists, clicks = events()
    found = told(monkeypatch, SamplePortion([*lists[:5], *clicks], {LISTS}))
    assert found.exit_code == 1 and "--max-mb 7 does not reach all partitions" in found.output
