"""An outage of a part of the index, as the simulated searches see it: by judgements it shows before
the clicks are in, and in clicks' nDCG hardly at all.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
import yaml

from relevanced.daemon.changes import ChangeSettings
from relevanced.metrics import Floats
from tests.daemon.changes.faults import GOOD, RANKS, Searches, clicked, usual
from tests.deploy.fault_scenes import Fired, fired_by
from tests.deploy.test_rules import RULES
from tests.services.prometheus_server import required

pytestmark = required("promtool")

USED: Final = ("settings", "changes", "patterns", "judged", "holding_back", "quality", "traffic")
SEARCHES_PER_HOUR: Final = 6_000
MINUTES: Final = 5
PANES_PER_HOUR: Final = 60 // MINUTES
HOURS: Final = 4
"""Of the outage."""
WAIT_PANES: Final = 31 // MINUTES + 1
"""So many panes clicks are waited for."""
WINDOWS: Final = {"1h": PANES_PER_HOUR, "6h": 6 * PANES_PER_HOUR}
WEEKS: Final = 3
JUDGED_METRIC: Final = "nDCG(ideal=pool)@10"
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


def served(change: Change, seed: int) -> Iterator[tuple[str, Floats]]:
    """The gauges every five minutes from the break on."""
    random = np.random.default_rng(seed)
    quiet = max(WINDOWS.values()) + WAIT_PANES
    panes = [of_pane(random, None) for _ in range(quiet)]
    panes += [of_pane(random, change) for _ in range(HOURS * PANES_PER_HOUR)]
    earlier = [of_pane(random, None) for _ in range(WEEKS * max(WINDOWS.values()))]
    for window, width in WINDOWS.items():
        for name in panes[0]:
            judged = "judged_" * (name == "judged")
            metric = JUDGED_METRIC if judged else name
            wait = 0 if judged else WAIT_PANES
            labels = f'grouping="all",segment="all",window="{window}"'
            ends = range(quiet - wait, len(panes) - wait)
            recent = [_summed(panes[end - width : end], name) for end in ends]
            before = _summed(earlier[: WEEKS * width], name)
            of_side = {"recent": np.array(recent), "baseline": before[None]}
            for side, sums in of_side.items():
                n, mean = sums[:, 0], sums[:, 1] / sums[:, 0]
                error = np.sqrt((sums[:, 2] / n - mean**2) / n)
                here = f'{{metric="{metric}",{labels}'
                yield f"relevanced_{side}_{judged}score{here}", mean
                yield f"relevanced_{side}_{judged}score_stderr{here}", error
                yield f"relevanced_{side}_{judged}scored_impressions{here}", n
        for of in ("", "judged_"):
            periods = f'relevanced_{of}baseline_periods{{unit="week",window="{window}"'
            yield periods, np.array([float(WEEKS)])
    for setting, value in ChangeSettings().numbers.items():
        yield f'relevanced_setting{{setting="{setting}"', np.array([value])
    for name in panes[0]:
        yield f'relevanced_drift_ratio{{metric="{name}"', np.array(
            [ChangeSettings().drift_of(name)]
        )


def _summed(panes: Sequence[dict[str, Floats]], name: str) -> Floats:
    return np.asarray(np.sum([pane[name] for pane in panes], axis=0))


def first_minutes(change: Change, seed: int, directory: Path) -> dict[tuple[str, str], int]:
    """(alert, metric) → minutes after the break at which it first fired."""
    series = list(served(change, seed))
    found: list[tuple[int, Fired]] = fired_by(
        {"j": series}, rules_without_texts(directory), directory, HOURS
    )["j"]
    first: dict[tuple[str, str], int] = {}
    for minute, alert in sorted(found, key=lambda look: look[0]):
        first.setdefault((alert.alert, alert.metric), minute)
    return first


def rules_without_texts(directory: Path) -> list[Path]:
    """These rules without their texts, which promtool would make for every alert."""
    paths, copies = {path.stem: path for path in RULES}, []
    for name in USED:
        document: dict[str, Any] = yaml.safe_load(paths[name].read_text())
        for group in document["groups"]:
            for rule in group["rules"]:
                rule.pop("annotations", None)
        copies.append(directory / f"{name}.yml")
        copies[-1].write_text(yaml.safe_dump(document))
    return copies


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_judged_alert_on_an_outage_of_the_index_is_up_before_that_on_clicks(
    seed: int, tmp_path: Path
) -> None:
    first = first_minutes(without_a_shard, seed, tmp_path)
    by_clicks = [minute for (alert, _), minute in first.items() if alert != "JudgedScoreDropped"]
    judged = first["JudgedScoreDropped", JUDGED_METRIC]
    print(sorted(first.items(), key=lambda pair: pair[1]))
    assert by_clicks and judged + 20 <= min(by_clicks), first
    assert judged <= 45
    assert not [alert for alert, metric in first if metric == "nDCG@10"]


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_nothing_is_alerted_where_nothing_breaks(seed: int, tmp_path: Path) -> None:
    assert not first_minutes(lambda searches, random: searches, seed, tmp_path)


def test_lost_clicks_raise_no_alert_on_judged_scores(tmp_path: Path) -> None:
    alerts = {alert for alert, _ in first_minutes(silent, 4, tmp_path)}
    assert alerts and "JudgedScoreDropped" not in alerts


def test_clicks_ndcg_hardly_moves_in_an_outage() -> None:
    random = np.random.default_rng(5)

    def mean(name: str, change: Change | None) -> float:
        n, total, _ = _summed([of_pane(random, change) for _ in range(200)], name)
        return float(total / n)

    lost = {
        name: 1 - mean(name, without_a_shard) / mean(name, None) for name in ("nDCG@10", "judged")
    }
    assert abs(lost["nDCG@10"]) < 0.015 and lost["judged"] > 0.08, lost
