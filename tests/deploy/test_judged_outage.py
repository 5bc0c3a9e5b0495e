"""An outage of a part of the index, as the simulated searches see it: by judgements it shows before
the clicks are in, and in clicks' nDCG hardly at all.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import pytest

from relevanced.daemon.changes import (
    MINUTE_MS,
    Flags,
    ScoreNoise,
    ScoreTimeline,
    WeekSides,
    scan,
)
from relevanced.metrics import Floats
from tests.daemon.changes.faults import GOOD, RANKS, Searches, clicked, usual
from tests.deploy.alert_proof import called

SEARCHES_PER_HOUR: Final = 6_000
MINUTES: Final = 5
PANES_PER_HOUR: Final = 60 // MINUTES
HOURS: Final = 4
"""Of the outage."""
WAIT_PANES: Final = 31 // MINUTES + 1
"""So many panes clicks are waited for."""
WINDOWS: Final = {"1h": PANES_PER_HOUR, "6h": 6 * PANES_PER_HOUR}
QUIET: Final = max(WINDOWS.values()) + WAIT_PANES
"""Panes before the break."""
WEEKS: Final = 3
DISCOUNTS: Final = 1 / np.log2(RANKS + 1)
Generator: TypeAlias = np.random.Generator
Change: TypeAlias = Callable[[Searches, Generator], Searches]


def without_a_shard(searches: Searches, random: Generator) -> Searches:
    """One item in five cannot be found: the next ones move up, so that lists stay as long."""
    kept = random.random(searches.candidates.shape) >= 0.2
    order = np.argsort(~kept, axis=1, kind="stable")
    shown = np.where(kept, searches.candidates, 0.0)
    return Searches(np.take_along_axis(shown, order, axis=1), searches.lengths, searches.weak)


def silent(searches: Searches, random: Generator) -> Searches:
    """A consent banner: of a sixth of the searches no click arrives."""
    return Searches(searches.candidates, searches.lengths, searches.weak, silent=1 / 6)


def of_pane(random: Generator, change: Change | None) -> dict[str, Floats]:
    """Metric → (n, sum, sum of squares) of the searches of five minutes."""
    before = usual(int(random.poisson(SEARCHES_PER_HOUR / PANES_PER_HOUR)), random)
    searches = before if change is None else change(before, random)
    clicks = clicked(searches, random)
    shown = searches.candidates[:, : len(RANKS)] * (RANKS <= searches.lengths[:, None])
    gain = (clicks * DISCOUNTS).sum(axis=1)
    most = np.sort(clicks, axis=1)[:, ::-1] @ DISCOUNTS
    found = {
        "Success@10": clicks.any(axis=1),
        "RR@10": (clicks / RANKS).max(axis=1),
        "nDCG@10": (gain / np.where(most, most, 1.0))[most > 0],
        "judged": _ndcg(grades(shown), grades(before.candidates)),
    }
    return {name: np.array([len(v), v.sum(), (v**2).sum()], float) for name, v in found.items()}


def grades(attractions: Floats) -> Floats:
    return np.asarray(np.select([attractions >= 0.3, attractions >= GOOD], [3.0, 1.0], 0.0))


def _ndcg(shown: Floats, pool: Floats) -> Floats:
    best = np.sort(pool, axis=1)[:, ::-1][:, : len(RANKS)]
    return np.asarray(((2**shown - 1) @ DISCOUNTS) / ((2**best - 1) @ DISCOUNTS))


def panes_of(change: Change, seed: int) -> tuple[list[dict[str, Floats]], list[dict[str, Floats]]]:
    """(those up to the end, those of earlier weeks)."""
    random = np.random.default_rng(seed)
    panes = [of_pane(random, None) for _ in range(QUIET)]
    panes += [of_pane(random, change) for _ in range(HOURS * PANES_PER_HOUR)]
    return panes, [of_pane(random, None) for _ in range(WEEKS * max(WINDOWS.values()))]


def against_weeks(
    panes: Sequence[dict[str, Floats]],
    earlier: Sequence[dict[str, Floats]],
    name: str,
    ends: Sequence[int],
) -> Flags:
    """(looks,) whether it is called."""
    found = {"24h": WeekSides(*(np.full((1, len(ends)), np.nan),) * 5)}
    for window, width in WINDOWS.items():
        recent = np.array([_summed(panes[end - width : end], name) for end in ends])
        before = np.broadcast_to(_summed(earlier[: WEEKS * width], name), recent.shape)
        (n, mean, error), (_, usual, usual_error) = _estimates(recent), _estimates(before)
        found[window] = WeekSides(*(each[None] for each in (mean, error, n, usual, usual_error)))
    return np.asarray(called(found).any[0])


def against_just_before(panes: Sequence[dict[str, Floats]], name: str, end: int) -> bool:
    kept = np.array([pane[name] for pane in panes[end - QUIET + WAIT_PANES : end]])
    starts = np.arange(len(kept), dtype=np.int64) * MINUTES * MINUTE_MS
    columns = (kept[:, at : at + 1] for at in range(3))
    timeline = ScoreTimeline(
        starts, starts + MINUTES * MINUTE_MS, *columns, np.zeros(len(kept), np.bool_)
    )
    return bool(scan(timeline, np.ones(1), ScoreNoise()).called[0])


def _estimates(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """(n, mean, standard error)."""
    n, mean = sums[:, 0], sums[:, 1] / sums[:, 0]
    return n, mean, np.sqrt((sums[:, 2] / n - mean**2) / n)


def _summed(panes: Sequence[dict[str, Floats]], name: str) -> Floats:
    return np.asarray(np.sum([pane[name] for pane in panes], axis=0))


def first_minutes(change: Change, seed: int) -> dict[str, int]:
    """Metric → minutes after the break at which it is called first, by either lane."""
    panes, earlier = panes_of(change, seed)
    found = {}
    for name in panes[0]:
        wait = 0 if name == "judged" else WAIT_PANES
        ends = range(QUIET - wait, len(panes) - wait)
        by_hour = [against_just_before(panes, name, end) for end in ends]
        calls = against_weeks(panes, earlier, name, ends) | np.array(by_hour)
        if calls.any():
            found[name] = MINUTES * int(calls.argmax())
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_outage_of_the_index_is_called_by_judgements_before_it_is_by_clicks(seed: int) -> None:
    first = first_minutes(without_a_shard, seed)
    by_clicks = [minute for metric, minute in first.items() if metric != "judged"]
    assert by_clicks and first["judged"] + 20 <= min(by_clicks), first
    assert first["judged"] <= 45 and "nDCG@10" not in first


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_nothing_is_called_where_nothing_breaks(seed: int) -> None:
    assert not first_minutes(lambda searches, random: searches, seed)


def test_lost_clicks_are_called_by_no_judged_score() -> None:
    first = first_minutes(silent, 4)
    assert first and "judged" not in first


def test_clicks_ndcg_hardly_moves_in_an_outage() -> None:
    random = np.random.default_rng(5)

    def mean(name: str, change: Change | None) -> float:
        n, total, _ = _summed([of_pane(random, change) for _ in range(200)], name)
        return float(total / n)

    lost = {
        name: 1 - mean(name, without_a_shard) / mean(name, None) for name in ("nDCG@10", "judged")
    }
    assert abs(lost["nDCG@10"]) < 0.015 and lost["judged"] > 0.08, lost
