"""Every metric of the catalog is windowed by its name alone, or refused with what it would need."""

import math

import pytest

from relevanced.daemon.config.kinds import ConfigError
from relevanced.daemon.config.loading import load
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
