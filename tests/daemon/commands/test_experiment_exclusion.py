"""`replay --experiment --exclude`: what was shown in a stretch of time is left out, and said."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.events import timestamp_text
from tests.builders import START_MS
from tests.seeds import seeds

MINUTE_MS: Final = 60_000
CONFIG: Final = '[experiments.x]\nprimary = "RR@10"\nplanned_impressions = 2000\n'


def searches(seed: int, count: int = 2_000, span_ms: int = 40 * MINUTE_MS) -> list[dict[str, Any]]:
    """Impressions of 200 users dealt to two arms, in order of time, some of them clicked."""
    rng, events = random.Random(seed), []
    for number in range(count):
        user, at_ms = rng.randrange(200), START_MS + number * span_ms // count
        shown = {"type": "impression", "impression_id": f"q{number}", "timestamp": at_ms}
        shown |= {"items": ["a", "b"], "user_id": f"u{user}"}
        events.append(shown | {"experiments": {"x": ("control", "treatment")[user % 2]}})
        if rng.random() < 0.5:
            click = {"type": "feedback", "impression_id": f"q{number}", "kind": "click"}
            events.append(click | {"timestamp": at_ms + rng.randrange(90_000), "item": "a"})
    return events


def replayed(tmp_path: Path, events: list[dict[str, Any]], *options: str) -> Result:
    (tmp_path / "r.toml").write_text(CONFIG)
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    command = ["replay", str(tmp_path / "e.jsonl"), "--config", str(tmp_path / "r.toml")]
    return CliRunner().invoke(cli, [*command, *options])


def found(tmp_path: Path, events: list[dict[str, Any]], *options: str) -> dict[str, Any]:
    result = replayed(tmp_path, events, "--experiment", "x", "--output", "json", *options)
    assert result.exit_code == 0, result.output
    (one,) = json.loads(result.stdout)["experiments"]
    assert isinstance(one, dict)
    return one


def text(at_ms: int) -> str:
    return timestamp_text(at_ms)


@pytest.mark.parametrize("seed", seeds(4))
def test_what_is_left_is_what_events_without_the_stretch_would_give(
    seed: int, tmp_path: Path
) -> None:
    """The slow way: remove the impressions of the stretch, and their clicks, from the file."""
    print(f"seed {seed}")
    rng, events = random.Random(seed), searches(seed)
    last_ms = max(event["timestamp"] for event in events)
    start = START_MS + rng.randrange(1, 20 * MINUTE_MS)
    end = start + rng.randrange(1, 15 * MINUTE_MS)
    shown = [event for event in events if event["type"] == "impression"]
    gone = {one["impression_id"]: one for one in shown if start <= one["timestamp"] < end}
    lost = Counter(one["experiments"]["x"] for one in gone.values())
    excluded = found(tmp_path, events, "--exclude", f"{text(start)}/{text(end)}")
    left = [event for event in events if event["impression_id"] not in gone]
    assert max(event["timestamp"] for event in left) == last_ms
    said = excluded.pop("excluded")
    assert excluded == found(tmp_path, left)
    assert said["impressions"] == len(gone) > 0
    assert {one["variant"]: one["impressions"] for one in said["variants"]} == lost
    assert said["stretches"] == [[text(start), text(end)]]


def test_overlapping_stretches_are_merged_and_said_in_the_text(tmp_path: Path) -> None:
    minutes = [text(START_MS + n * MINUTE_MS) for n in (5, 10, 8, 12)]
    options = ("--exclude", "/".join(minutes[:2]), "--exclude", "/".join(minutes[2:]))
    events = searches(1)
    result = replayed(tmp_path, events, "--experiment", "x", *options)
    assert result.exit_code == 0, result.output
    day, five, twelve = minutes[0][:10], minutes[0][11:16], minutes[3][11:16]
    assert f"Leaves out {day} {five} – {twelve} UTC: 350 impressions of 2 arms" in result.stdout
    assert "must be for a cause outside of the outcome" in result.stdout
    assert len(found(tmp_path, events, *options)["excluded"]["stretches"]) == 1


def test_arms_that_lose_unequal_shares_are_warned_of(tmp_path: Path) -> None:
    start, end = START_MS + 5 * MINUTE_MS, START_MS + 15 * MINUTE_MS
    events = [
        event
        for event in searches(2)
        if not start <= event["timestamp"] < end
        or event.get("experiments", {}).get("x") != "treatment"
    ]
    stretch = f"{text(start)}/{text(end)}"
    result = replayed(tmp_path, events, "--experiment", "x", "--exclude", stretch)
    assert "WARNING the arms lost unequal shares" in result.stdout
    even = replayed(tmp_path, searches(2), "--experiment", "x", "--exclude", stretch)
    assert even.exit_code == 0 and "unequal shares" not in even.stdout


def test_a_stretch_that_covers_everything_is_an_error_with_the_values(tmp_path: Path) -> None:
    options = ("--experiment", "x", "--exclude", "2020-01-01/2099-01-01")
    result = replayed(tmp_path, searches(3), *options)
    assert result.exit_code == 1 and result.stdout == ""
    assert "2020-01-01 00:00 – 2099-01-01 00:00 UTC: leaves out all 2,000 impressions of x" in (
        result.stderr
    )


def test_a_stretch_without_impressions_is_said_too(tmp_path: Path) -> None:
    said = found(tmp_path, searches(3), "--exclude", "2020-01-01/2020-01-02")["excluded"]
    assert said["impressions"] == 0 and "0 impressions of 0 arms" in said["words"]


def test_exclude_needs_an_experiment_and_a_stretch(tmp_path: Path) -> None:
    result = replayed(tmp_path, searches(3), "--exclude", "2020-01-01/2020-01-02")
    assert result.exit_code == 2 and "only with --experiment" in result.stderr
    result = replayed(tmp_path, [], "--experiment", "x", "--exclude", "2020-01-02/2020-01-01")
    assert result.exit_code == 2 and "2020-01-02/2020-01-01: must be FROM/TO" in result.stderr
