"""An experiment that runs longer than its days are kept: a ramp of long ago is no difference."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.experiments import (
    DAY_MS,
    DAYS_KEPT,
    Arm,
    Experiments,
    Finding,
    Spec,
    Tallies,
    Tracking,
    divided,
    effects_by_day,
    findings,
    tallies as tallies_module,
)
from relevanced.metrics import parse

METRIC = parse("RR@10")
FIRST_MS = 20_000 * DAY_MS
DAYS = 30
RAMP_DAY = 6
SLOWLY = (("control", 19.0), ("treatment", 1.0))
HALVES = (("control", 1.0), ("treatment", 1.0))
PLAIN = Spec("x", "control", 100_000, ("RR@10",), weights=SLOWLY)
AT_MIDNIGHT = replace(PLAIN, ramp=((FIRST_MS + RAMP_DAY * DAY_MS, HALVES),))
AT_NOON = replace(PLAIN, ramp=((FIRST_MS + RAMP_DAY * DAY_MS + DAY_MS // 2, HALVES),))


def days_of(spec: Spec, declared_on: int = 0) -> Iterator[list[Tallies]]:
    """The tallies of two lanes after each day, of which the second has no traffic on the first two.
    Both arms are alike, and the level rises at the ramp, which is declared on some day."""
    lanes = [Experiments(), Experiments()]
    instants = [at_ms for at_ms, _ in (spec.ramp or AT_MIDNIGHT.ramp)]
    for day in range(DAYS):
        known = spec if day >= declared_on else replace(spec, ramp=())
        for number, experiments in enumerate(lanes):
            if day == 0:
                experiments.begin("x", spec.digest)
            for hour in range(24) if day >= 2 * number else ():
                pane_ms = FIRST_MS + day * DAY_MS + hour * DAY_MS // 24
                experiments.reach(known, pane_ms)
                is_after = pane_ms >= instants[0]
                for name, count in (("control", 10 if is_after else 19), ("treatment", 10)):
                    arms = experiments.by_name["x"].arms
                    arm = arms.setdefault(name, Arm.empty(1))
                    count = 1 if name == "treatment" and not is_after else count
                    clicks = np.arange(64) % 5 < (4 if is_after else 2)
                    sums = count * clicks * METRIC.unit
                    arm.tallies += np.stack([np.full(64, count)] * 2 + [sums] * 2, 1)
                    arm.hours[hour] += 64 * count
        yield [experiments.by_name["x"] for experiments in lanes]


def periods(spec: Spec, lanes: Sequence[Tallies]) -> list[tuple[int, int, list[int]]]:
    """(first day, last day, sums of the control) of each, from 0."""
    return [
        (
            (one.first_ms - FIRST_MS) // DAY_MS,
            (one.last_ms - FIRST_MS) // DAY_MS,
            one.arms["control"][""].sum(axis=0).tolist(),
        )
        for one in divided(spec, lanes).periods["treatment"]
    ]


def found_of(spec: Spec, lanes: Sequence[Tallies]) -> Finding:
    tracking = Tracking({"x": spec}, 0, spec)
    (found,) = findings([{"x": one} for one in lanes], tracking, [METRIC], None, None).experiments
    return found


@pytest.mark.parametrize("spec", [AT_MIDNIGHT, AT_NOON], ids=["midnight", "noon"])
def test_a_declared_ramp_divides_the_days_also_when_they_are_no_longer_kept(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all days were kept: periods, their sums, and the difference so far on each day."""
    assert DAYS_KEPT > DAYS
    whole = [periods(spec, lanes) for lanes in days_of(spec)]
    monkeypatch.setattr(tallies_module, "DAYS_KEPT", 5)
    for lanes, expected in zip(days_of(spec), whole, strict=True):
        assert periods(spec, lanes) == expected
        assert all(len(one.ends) <= 5 + 2 for one in lanes)
    found = found_of(spec, lanes)
    assert len(whole[-1]) == len(found.variants[1].periods) == 2
    assert len(found.variants[1].mixed_days) == (spec is AT_NOON)
    assert not any("only the sum" in warning for warning in found.warnings)
    rows = effects_by_day(spec, lanes, [METRIC])
    last, metric = rows[-1], found.variants[1].metrics[0]
    assert (last.difference, last.lower) == (metric.difference, metric.lower)
    assert [row.day_difference is None for row in rows] == [True] + [False] * 5


def test_a_ramp_that_is_declared_when_its_days_are_gone_leaves_their_sum_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And only that, also long afterwards."""
    monkeypatch.setattr(tallies_module, "DAYS_KEPT", 5)
    for day, lanes in enumerate(days_of(AT_MIDNIGHT, declared_on=20)):
        if day == 19:
            metric = found_of(PLAIN, lanes).variants[1].metrics[0]
            assert metric.difference is not None and metric.difference > 0.05
    found = found_of(AT_MIDNIGHT, lanes)
    metric = found.variants[1].metrics[0]
    assert metric.difference == pytest.approx(0) and len(found.variants[1].mixed_days) == 15
    assert found.variants[1].mixed_days[0] == "2024-10-04"
    assert [one[:2] for one in periods(AT_MIDNIGHT, lanes)] == [(15, DAYS - 1)]


def test_that_shares_may_have_changed_within_days_of_which_only_the_sum_is_known_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tallies_module, "DAYS_KEPT", 5)
    [*_, lanes] = days_of(PLAIN)
    warnings = [one for one in found_of(PLAIN, lanes).warnings if "only the sum" in one]
    (warning,) = warnings
    assert warning.startswith("only the sum of the days up to 2024-10-28 is known, and then the")
    assert "under [experiments.x.ramp]" in warning
