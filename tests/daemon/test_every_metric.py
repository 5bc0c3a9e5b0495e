"""Every metric of the catalog is windowed by its name alone, or refused with what it would need."""

import math

import pytest

from relevanced.daemon.config import ConfigError, load
from relevanced.metrics import CATALOG, Lists, parse
from tests.builders import clicked, lane_of, row, settled, shown

SAMPLE = {"SetE": "SetE(stress=recall,b=1)"}


def name_of(family: str) -> str:
    """A name of the family that leaves nothing open."""
    for name in (SAMPLE.get(family, family), f"{family}@5", f"{family}@0.5"):
        try:
            return parse(name).name
        except ValueError:
            continue
    raise AssertionError(f"no name of {family} can be parsed")


@pytest.mark.parametrize("family", sorted(CATALOG))
def test_metric_is_windowed_or_refused_with_its_need(family: str) -> None:
    name = name_of(family)
    toml = f'[metrics]\nnames = ["{name}"]\n'
    if parse(name).refusal(("timing",)) is not None:
        with pytest.raises(ConfigError, match="needs"):
            load(toml, {}, "test")
        return
    plan = load(toml, {}, "test").plan
    lane = lane_of(plan=plan)
    settled(lane, shown(0), clicked(2_000, "b"), clicked(3_000, "b"))
    counted = row(lane, 0)
    metric = plan.metrics[0]
    lists = Lists.of([[None, 1, None]], first_feedback_s=[2.0])
    value = float(metric.values(lists)[0])
    assert counted[f"{metric.name}:scored"] == int(not math.isnan(value))
    if not math.isnan(value):
        assert counted[f"{metric.name}:sum"] == math.floor(metric.unit * value + 0.5001)


def test_undefined_lists_count_zero_beside_the_default_that_leaves_them_out() -> None:
    plan = load('[metrics]\nnames = ["nDCG@5", "nDCG(undefined=zero)@5"]\n', {}, "test").plan
    lane = lane_of(plan=plan)
    settled(lane, shown(0), shown(1, of="r"), clicked(2_000, "b"))
    counted = row(lane, 0)
    scored = [counted[f"{metric.name}:scored"] for metric in plan.metrics]
    sums = [counted[f"{metric.name}:sum"] for metric in plan.metrics]
    assert scored == [1, 2] and sums[0] == sums[1] > 0


@pytest.mark.parametrize("name", ["FirstClickRank(undefined=zero)", "P(undefined=zero)@5"])
def test_zero_is_no_value_where_less_is_better_or_nothing_is_undefined(name: str) -> None:
    with pytest.raises(ConfigError, match="undefined is not a parameter of"):
        load(f'[metrics]\nnames = ["{name}"]\n', {}, "test")


@pytest.mark.parametrize(
    "names, primary",
    [
        ("nDCG@10 P@5 Success@10 RR@10", "RR@10"),
        ("nDCG@10 P@5 Success@10", "Success@10"),
        ("nDCG@10 P@5", "P@5"),
        ("nDCG@10 nDCG(undefined=zero)@10", "nDCG(undefined=zero)@10"),
        ("nDCG@10", "nDCG@10"),
    ],
)
def test_metric_that_decides_is_one_that_every_list_has(names: str, primary: str) -> None:
    listed = ", ".join(f'"{name}"' for name in names.split())
    tracking = load(f"[metrics]\nnames = [{listed}]\n[experiments.a]\n", {}, "test").tracking
    assert tracking is not None and tracking.declared["a"].metrics[0] == primary
