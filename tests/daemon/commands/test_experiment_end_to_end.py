"""From simulated searches to the verdict on an experiment."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli


def verdicts(tmp_path: Path, effect: float) -> dict[str, str]:
    """Metric → verdict on the treatment, once 20 minutes of searches have settled."""
    events = str(tmp_path / "events.jsonl")
    traffic = ["--out", events, "--duration", "20m", "--rate", "50", "--seed", "1"]
    start = ["--start", "2026-11-20T09:00:00Z", "--effect", str(effect)]
    command = ["replay", events, "--experiment", "ranker-v2", "--output", "json"]
    assert CliRunner().invoke(cli, ["simulate", *traffic, *start]).exit_code == 0
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["experiments"]
    (treatment,) = [one for one in found["variants"] if one["variant"] == "treatment"]
    return {metric["metric"]: metric["verdict"] for metric in treatment["metrics"]}


@pytest.mark.parametrize(("effect", "worse"), [(-0.027, True), (0.0, False)])
def test_a_loss_of_a_twentieth_is_called_worse_and_no_loss_is_not(
    effect: float, worse: bool, tmp_path: Path
) -> None:
    found = verdicts(tmp_path, effect)
    assert (found["RR@10"] == "worse") is worse
    assert worse or set(found.values()) == {"undecided"}, found
