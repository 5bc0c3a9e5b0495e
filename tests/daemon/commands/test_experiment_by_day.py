"""`replay --experiment --by-day`: each day is what its events alone would give."""

from pathlib import Path
from typing import Final

import pytest

from relevanced.daemon.experiments import DAY_MS
from tests.builders import START_MS
from tests.daemon.commands.test_experiment_exclusion import found, replayed, searches

DAYS: Final = 4


@pytest.mark.parametrize("seed", range(3))
def test_a_day_is_what_its_impressions_alone_would_give(seed: int, tmp_path: Path) -> None:
    """The slow way: replay the impressions of one day, or those up to its end, alone."""
    print(f"seed {seed}")
    events = searches(seed, span_ms=(DAYS - 1) * DAY_MS)
    rows = found(tmp_path, events, "--by-day")["by_day"]
    shown_ms = {
        event["impression_id"]: event["timestamp"]
        for event in events
        if event["type"] == "impression"
    }
    days = [START_MS // DAY_MS + day for day in range(DAYS)]
    primary = [row for row in rows if row["metric"] == "RR@10"]
    assert len(primary) == len({row["day"] for row in primary}) == DAYS
    for day, row in zip(days, primary, strict=True):
        for prefix, first in (("day_", day), ("", 0)):
            part = [
                event
                for event in events
                if first <= shown_ms[event["impression_id"]] // DAY_MS <= day
            ]
            control, treatment = found(tmp_path, part)["variants"]
            (alone,) = [one for one in treatment["metrics"] if one["metric"] == "RR@10"]
            for key in ("difference", "lower", "upper"):
                assert row[prefix + key] == alone[key], (row["day"], prefix + key)
            assert row[f"{prefix}impressions"] == treatment["impressions"]
            assert row[f"{prefix}control_impressions"] == control["impressions"]


def test_the_text_says_which_interval_decides(tmp_path: Path) -> None:
    events = searches(1, span_ms=2 * DAY_MS)
    result = replayed(tmp_path, events, "--experiment", "x", "--by-day")
    assert result.exit_code == 0, result.output
    assert "by day (UTC)" in result.stdout and "Decide by what is so far" in result.stdout
    assert "by_day" not in found(tmp_path, events)


def test_by_day_needs_an_experiment(tmp_path: Path) -> None:
    result = replayed(tmp_path, [], "--by-day")
    assert result.exit_code == 2 and "only with --experiment" in result.stderr
