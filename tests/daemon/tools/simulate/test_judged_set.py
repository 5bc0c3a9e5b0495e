"""Judgements of the simulated search: valid, and worse for a ranker that is broken."""

from pathlib import Path
from random import Random
from typing import Final

import numpy as np
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.judgements import judged_plan, read, score
from relevanced.daemon.queries import key_of
from relevanced.daemon.tools.traffic import JUDGED_QUERIES, Ranking, Traffic, judged_set, shuffled

WORLD: Final = Traffic(seed=1).world
JUDGEMENTS: Final = read(judged_set(WORLD).splitlines(), "demo.csv", 3)
PLAN: Final = judged_plan(["nDCG@10", "Judged@10"], relevant_from=1, max_grade=3)


def means(rankings: list[tuple[str, Ranking]]) -> tuple[float, float]:
    """(judged nDCG, share of the first ten that is judged)."""
    shown = [list(ranking.items) for _, ranking in rankings]
    grades = [JUDGEMENTS.by_query[key_of(text)] for text, _ in rankings]
    found = np.nanmean(score(shown, grades, PLAN).scores, axis=0)
    return float(found[0]), float(found[1])


def test_a_broken_ranker_is_worse_by_its_judgements() -> None:
    random = Random(1)
    judged = WORLD.queries[:JUDGED_QUERIES]
    assert len(JUDGEMENTS.by_query) == JUDGED_QUERIES
    usual = means([(query.text, ranking) for query in judged for ranking in query.ordinary])
    ideal = means([(query.text, query.ideal) for query in judged])
    broken = means([(query.text, shuffled(random, query)) for query in judged for _ in range(8)])
    assert broken[0] < usual[0] - 0.15 and usual[0] < ideal[0]
    assert 0.7 < usual[1] < 1.0, "some of what is shown was never rated"


def test_the_command_writes_a_file_that_is_accepted(tmp_path: Path) -> None:
    path, out = tmp_path / "judgements.csv", tmp_path / "events.jsonl"
    run = CliRunner().invoke(
        cli,
        [
            "simulate",
            "--out",
            str(out),
            "--start",
            "2026-11-20T12:00:00Z",
            "--duration",
            "1s",
            "--judgements",
            str(path),
        ],
    )
    assert run.exit_code == 0, run.output
    assert path.read_bytes() == judged_set(WORLD)
    checked = CliRunner().invoke(cli, ["judgements", "check", str(path)])
    assert checked.exit_code == 0, checked.output
    nowhere = tmp_path / "nowhere" / "judgements.csv"
    run = CliRunner().invoke(
        cli, ["simulate", "--out", str(out), "--duration", "1s", "--judgements", str(nowhere)]
    )
    assert run.exit_code == 2 and "No such file" in run.output
