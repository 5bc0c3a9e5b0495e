"""Shares that change: compared is what was shown in the same days, and the report says so."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.experiments import (
    DAY_MS,
    Arm,
    Finding,
    Spec,
    Tallies,
    Tracking,
    divided,
    effects_by_day,
    findings,
    report_table,
)
from relevanced.metrics import user_hashes
from tests.bench.changing_shares import (
    FIRST_MS,
    METRIC,
    WORLDS,
    counted,
    hours_of,
    hours_until_verdict,
    spec_of,
    statements,
)

RUNS = 8
IMPRESSIONS = 20_000
SPEC: Spec = spec_of(WORLDS["halves"], IMPRESSIONS)


def tallies(world: str, hours: int = 120, seed: int = 1) -> Tallies:
    return counted(SPEC, hours_of(WORLDS[world], IMPRESSIONS, 0.0, seed), hours)


def found_of(*lanes: Tallies) -> Finding:
    tracking = Tracking({"x": SPEC}, 0, SPEC)
    (found,) = findings([{"x": one} for one in lanes], tracking, [METRIC], None, None).experiments
    return found


def periods(lanes: Sequence[Tallies]) -> list[tuple[int, int]]:
    """(first day, last day) of each, from 0."""
    found = divided(SPEC, lanes).periods["treatment"]
    return [((p.first_ms - FIRST_MS) // DAY_MS, (p.last_ms - FIRST_MS) // DAY_MS) for p in found]


@pytest.mark.parametrize(
    "world",
    ["5 % for 2 days, then halves; an incident at 5 %", "5 % till noon, then halves; a trend"],
)
def test_a_ramp_is_no_difference(world: str) -> None:
    """In a single sum over all days most runs would find one."""
    print(f"seeds 0 to {RUNS - 1}")
    made = [hours_of(WORLDS[world], 5 * IMPRESSIONS, 0.0, seed) for seed in range(RUNS)]
    spec = spec_of(WORLDS[world], 5 * IMPRESSIONS)
    misled = {
        pooled: sum(
            hours_until_verdict(statements(spec, one, pooled=pooled)) < np.inf for one in made
        )
        for pooled in (True, False)
    }
    print(misled)
    assert misled[False] <= 1 and misled[True] >= RUNS / 3


def test_days_of_constant_shares_are_one_period() -> None:
    """So that the statements are those of the arms as a whole."""
    one = tallies("halves, weekends", hours=24 * 14)
    assert periods([one]) == [(0, 13)]
    found, whole = found_of(one), found_of(Tallies(one.digest, one.arms))
    assert (found.variants[1].periods, found.variants) == ((), whole.variants)


def test_a_ramp_begins_a_period_and_the_report_shows_it() -> None:
    one = tallies("5 % for 2 days, then halves; a trend")
    assert periods([one]) == [(0, 1), (2, 4)]
    found = found_of(one)
    metric = found.variants[1].metrics[0]
    assert metric.difference is not None and metric.mean is not None
    assert metric.control_mean is not None
    assert metric.mean - metric.control_mean == pytest.approx(metric.difference)
    shares = [period.shares["treatment"] for period in found.variants[1].periods]
    assert shares == pytest.approx([0.05, 0.5], abs=0.02)
    text = report_table(found, None)
    assert "2024-10-04 – 2024-10-05: control" in text and "2024-10-06 – 2024-10-08: control" in text


def test_a_day_in_which_the_shares_changed_is_left_out() -> None:
    one = tallies("5 % till noon, then halves; a trend")
    assert periods([one]) == [(0, 1), (3, 4)]
    found = found_of(one)
    assert found.variants[1].mixed_days == ("2024-10-06",)
    assert "left out, because the shares changed within them: 2024-10-06" in report_table(
        found, None
    )
    rows = effects_by_day(SPEC, [one], [METRIC])
    assert [row.day_difference is None for row in rows] == [False, False, True, False, False]
    last = found.variants[1].metrics[0]
    assert (rows[-1].difference, rows[-1].lower) == (last.difference, last.lower)


def test_without_a_period_of_constant_shares_there_is_no_statement() -> None:
    one = tallies("5 % till noon, then halves; a trend")
    day = FIRST_MS + 2 * DAY_MS
    before, arms = one.ends[day - DAY_MS], one.ends[day]
    for name, arm in arms.items():
        arm.tallies = arm.tallies - before[name].tallies
    found = found_of(Tallies(one.digest, arms, day + 1, began_ms=day + 1))
    metric = found.variants[1].metrics[0]
    assert (metric.difference, metric.words) == (
        None,
        "no statement: no period of constant shares",
    )


def test_a_declared_ramp_is_no_mismatch_and_a_wrong_share_after_it_is() -> None:
    """Lanes that have not reached it count no users."""
    start_ms = FIRST_MS + 2 * DAY_MS
    halves = (("control", 1.0), ("treatment", 1.0))
    spec = replace(
        SPEC, weights=(("control", 19.0), ("treatment", 1.0)), ramp=((start_ms, halves),)
    )

    def lane(since_ms: int, control: int, treatment: int) -> Tallies:
        one = tallies("5 % for 2 days, then halves")
        for name, users in (("control", control), ("treatment", treatment)):
            one.arms[name].users = np.sort(
                user_hashes(f"{since_ms}{name}{n}" for n in range(users))
            )
        return replace(one, users_since_ms=since_ms)

    def srm(*lanes: Tallies) -> float:
        tracking = Tracking({"x": spec}, 0, spec)
        (found,) = findings(
            [{"x": one} for one in lanes], tracking, [METRIC], None, None
        ).experiments
        assert found.srm is not None
        return found.srm.log_evalue

    assert srm(lane(start_ms, 500, 500)) < 0 < 6.9 < srm(lane(start_ms, 950, 50))
    assert srm(lane(0, 950, 50)) < 0 < 6.9 < srm(lane(0, 500, 500))
    assert srm(lane(0, 950, 50), lane(start_ms, 500, 500)) < 0
    within_a_day = replace(spec, ramp=((start_ms + 3_600_000, halves),))
    assert divided(within_a_day, [lane(0, 1, 1)]).mixed == {"treatment": (start_ms,)}
    assert divided(spec, [lane(0, 1, 1)]).mixed == {"treatment": ()}


def test_segments_are_compared_within_the_periods() -> None:
    """The ramp of two segments of half the traffic each, of which none has a difference; without
    periods each of them has one."""
    world = WORLDS["5 % for 2 days, then halves; an incident at 5 %"]
    spec = replace(SPEC, stratify_by="country")
    parts = [hours_of(world, 5 * IMPRESSIONS, 0.0, seed) for seed in (1, 2)]
    whole = counted(spec, parts[0] + parts[1], 240)
    for segment, part in zip(("DE", "US"), parts, strict=True):
        of_part = counted(spec, part, 240)
        for arms, others in (
            (whole.arms, of_part.arms),
            *((arms, of_part.ends[day]) for day, arms in whole.ends.items()),
        ):
            for name, arm in arms.items():
                arm.strata[segment] = others[name].tallies

    def verdicts(one: Tallies) -> list[str]:
        tracking = Tracking({"x": spec}, 0, spec)
        (found,) = findings([{"x": one}], tracking, [METRIC], None, None).experiments
        stratified = found.variants[1].metrics[0].stratified
        assert stratified is not None and stratified.covered == 1
        assert stratified.lower is not None and stratified.upper is not None
        mixed = "undecided" if stratified.lower < 0 < stratified.upper else "different"
        return [mixed, *(segment.verdict for segment in stratified.segments)]

    assert verdicts(whole) == ["undecided"] * 3
    assert verdicts(Tallies(spec.digest, whole.arms)) == ["different", "better", "better"]


def with_third(one: Tallies, name: str, hour: int, first_day: int = 0) -> Tallies:
    """The same with a third arm that has a tenth of the control, all of it in one hour of the
    days."""

    def added(day_ms: int, arms: Mapping[str, Arm]) -> dict[str, Arm]:
        days = max(0, (day_ms - FIRST_MS) // DAY_MS + 1 - first_day)
        third = Arm(arms["control"].tallies // 10 * (days > 0))
        third.hours[hour] = arms["control"].hours.sum() // 10 * (days > 0)
        return {**arms, name: third}

    ends = {day_ms: added(day_ms, arms) for day_ms, arms in one.ends.items()}
    return replace(one, arms=added(one.open_day_ms, one.arms), ends=ends)


@pytest.mark.parametrize("name", ["interleaved", "staff"])
def test_a_third_variant_takes_no_day_from_the_two_others(name: str) -> None:
    """One that is shown at a few hours only, or begins later."""
    one = tallies("halves, weekends")
    alone = found_of(one).variants[1]
    for third in (with_third(one, name, 3), with_third(one, name, 3, first_day=2)):
        found = {variant.variant: variant for variant in found_of(third).variants}
        treatment = found["treatment"]
        assert (treatment.mixed_days, treatment.periods) == ((), ())
        for metric, same in zip(treatment.metrics, alone.metrics, strict=True):
            assert (metric.difference, metric.verdict) == (same.difference, same.verdict)
            assert (metric.lower, metric.upper) == (same.lower, same.upper)
        text = report_table(found_of(third), None)
        assert "The shares of treatment and control changed" not in text
        assert ("The shares of staff and control changed" in text) == (name == "staff")
        rows = [row for row in effects_by_day(SPEC, [third], [METRIC]) if row.variant != "staff"]
        assert rows == [*effects_by_day(SPEC, [one], [METRIC])]


def test_a_ramp_that_brings_in_a_third_variant_changes_nothing_between_the_others() -> None:
    start_ms = FIRST_MS + 2 * DAY_MS + DAY_MS // 2
    thirds = tuple((name, 1.0) for name in ("control", "staff", "treatment"))
    spec = replace(SPEC, weights=thirds[::2], ramp=((start_ms, thirds),))
    one = with_third(tallies("halves, weekends"), "staff", 3)
    found = divided(spec, [one])
    assert found.mixed["treatment"] == () and len(found.periods["treatment"]) == 1
    tilted = replace(spec, ramp=((start_ms, (("control", 1.0), ("treatment", 3.0))),))
    assert divided(tilted, [one]).mixed["treatment"] == (FIRST_MS + 2 * DAY_MS,)


def test_lanes_are_divided_as_one(seed: int = 3) -> None:
    by_hour = hours_of(WORLDS["5 % for 2 days, then halves"], IMPRESSIONS, 0.0, seed)
    halves = [by_hour * (np.arange(64) % 2 == parity)[:, None] for parity in (0, 1)]
    lanes = [counted(SPEC, half, 120) for half in halves]
    assert found_of(*lanes) == found_of(counted(SPEC, by_hour, 120))
