"""Topics without the id of a search: two lines of configuration score them by last touch."""

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.config import load
from relevanced.daemon.events import timestamp_text
from relevanced.daemon.lane import Lane
from relevanced.daemon.recompute.replay_files import read_lane
from relevanced.daemon.tools.traffic import SHAPES, Traffic, generate_events
from tests.builders import START_MS
from tests.replica import counts_of, row_dicts

Event = dict[str, Any]
SECONDS: Final = 900
BY_ID: Final = '[attribution]\nwindow = "5m"\n'
TOUCH: Final = f'{BY_ID}join = "last_touch"\n'
PRESETS: Final = ("segment", "rudderstack", "snowplow", "ga4", "ubi")


def ubi(event: Event) -> Event:
    """The shape of the preset, whose events name no query."""
    record = SHAPES["ubi"].record(event)
    assert record is not None
    if event["type"] == "feedback":
        del record["query_id"]
    return record


def ga4(event: Event) -> Event:
    """The shape of the preset, in the session that every row of GA4 names."""
    record = SHAPES["ga4"].record(event)
    assert record is not None
    record["event_params"].append({"key": "ga_session_id", "value": {"int_value": 7}})
    return record


OWN: Final[dict[str, Callable[[Event], Any]]] = {"ubi": ubi, "ga4": ga4}


@cache
def events() -> tuple[Event, ...]:
    found = []
    for _, event in generate_events(Traffic(seed=3, rate=4), START_MS):
        if event["timestamp"] > START_MS + 1000 * SECONDS:
            return tuple(found)
        found.append(event)
    raise AssertionError("traffic has no end")


def scored(path: Path, lines: list[Any], config: str) -> Lane:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bars = Progress(console=Console(file=io.StringIO(), quiet=True))
    return read_lane([str(path)], load(config, {}, "test.toml"), bars, as_is=False)


def totals(lane: Lane) -> Any:
    return row_dicts(lane.totals.pages, lane.segments.names, lane.plan)["all", "all"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_without_ids_scores_as_the_native_events(name: str, tmp_path: Path) -> None:
    by_native = scored(tmp_path / "native.jsonl", list(events()), TOUCH)
    write = OWN.get(name) or SHAPES[name].record
    records = [write(event) for event in events()]
    source = f'{TOUCH}[[sources]]\ntopic = "t"\npreset = "{name}"\n'
    by_preset = scored(tmp_path / f"{name}.jsonl", records, source)
    outcomes = counts_of(by_preset)["feedback_outcomes"]
    assert outcomes["joined_last_touch"] == outcomes["joined"] > 200
    assert outcomes == counts_of(by_native)["feedback_outcomes"]
    assert totals(by_preset) == totals(by_native)


def test_by_id_first_what_has_an_id_counts_as_by_id(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    by_id = scored(path, list(events()), BY_ID)
    either = TOUCH.replace("last_touch", "id, else last_touch")
    assert totals(scored(path, list(events()), either)) == totals(by_id)
    without = [
        event if n % 2 or event["type"] == "impression" else {**event, "impression_id": None}
        for n, event in enumerate(events())
    ]
    lane = scored(path, without, either)
    outcomes = counts_of(lane)["feedback_outcomes"]
    assert 0 < outcomes["joined_last_touch"] < outcomes["joined"]
    same = {"impressions", "zero_result_impressions", "items_listed"}
    assert {k: totals(lane)[k] for k in same} == {k: totals(by_id)[k] for k in same}


def test_at_the_end_of_a_recording_nothing_is_waited_for(tmp_path: Path) -> None:
    """The last seconds of clicks count, and backfill has them too."""
    shown, clicked = (e for e in ({"visitor": "v"} | one for one in events()[:2]))
    shown |= {"type": "impression", "impression_id": "s", "items": ["d"]}
    clicked |= {"type": "feedback", "kind": "click", "item": "d"}
    clicked["timestamp"] = timestamp_text(START_MS + 2000)
    shown["timestamp"] = timestamp_text(START_MS)
    lane = scored(tmp_path / "events.jsonl", [shown, clicked], TOUCH)
    assert counts_of(lane)["feedback_outcomes"] == {"joined": 1, "joined_last_touch": 1}
    assert not lane.waiting


def test_a_login_keeps_the_first_id_of_the_session(tmp_path: Path) -> None:
    at = [timestamp_text(START_MS + 1000 * n) for n in range(3)]
    product = {"product_id": "a", "position": 1}
    shown = {"event": "Product List Viewed", "messageId": "m", "anonymousId": "x"}
    shown |= {"timestamp": at[0], "properties": {"products": [product]}}
    clicked = {"event": "Product Clicked", "anonymousId": "x", "userId": "u"}
    clicked |= {"timestamp": at[1], "properties": product}
    passing = [{**shown, "messageId": f"m{n}", "anonymousId": "y"} for n in range(2)]
    passing[1]["timestamp"] = timestamp_text(START_MS + 60_000)
    source = f'{TOUCH}[[sources]]\ntopic = "t"\npreset = "segment"\n'
    lane = scored(tmp_path / "calls.jsonl", [shown, clicked, *passing], source)
    assert counts_of(lane)["feedback_outcomes"] == {"joined": 1, "joined_last_touch": 1}
