"""Findings: arms merged over lanes, compared, put into words, with warnings."""

import math
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.experiments.report import to_table
from relevanced.daemon.experiments.specs import Spec
from relevanced.daemon.experiments.tallies import Arm
from relevanced.daemon.exporter.experiment_series import samples
from tests.arms import METRICS, arm, dealt_arms, finding, found_of, with_interleaved


def test_a_worse_treatment_is_called_worse_and_an_equal_metric_is_not() -> None:
    found = finding(dealt_arms(treatment=0.3))
    control, treatment = found.variants
    first, second, _ = treatment.metrics
    assert (found.control, control.variant, treatment.variant) == ("control",) * 2 + ("treatment",)
    assert (first.metric, first.role, first.verdict) == ("RR@10", "primary", "worse")
    assert first.lower is not None and first.upper is not None
    assert first.lower < -0.2 < first.upper < 0
    assert (second.role, second.verdict) == ("secondary", "undecided")
    assert second.words.startswith("not distinguishable yet")
    assert found.warnings == () and found.status == "running"


def test_discoveries_hold_up_among_all_comparisons() -> None:
    others = {f"b{number}": arm((0.5, 0.4, 0.3), 3 + number, range(600)) for number in range(5)}
    arms = {**dealt_arms(treatment=0.46), **others}
    alone, among = finding(dealt_arms(treatment=0.46)), finding(arms)
    by_metric = {
        (variant.variant, metric.metric): (metric.log_evalue, metric.discovery)
        for variant in among.variants[1:]
        for metric in variant.metrics
    }
    weakest = math.log(len(by_metric) / 0.05)
    assert len(by_metric) == 18 and None not in {found for _, found in by_metric.values()}
    assert [key for key, (_, found) in by_metric.items() if found] == [
        key
        for key, (evidence, _) in by_metric.items()
        if evidence is not None and evidence >= weakest
    ]
    primary = alone.variants[1].metrics[0]
    assert primary.verdict == "worse" == among.variants[-1].metrics[0].verdict
    assert (primary.discovery, by_metric["treatment", "RR@10"][1]) == (True, False)
    assert {metric.discovery for metric in among.variants[0].metrics} == {None}
    assert "among all 18 comparisons (e-BH, at most 5 % of them false): none" in to_table(among, "")
    assert "of them false): treatment RR@10\n" in to_table(alone, "")


def test_lanes_add_up_to_one_lane() -> None:
    whole = dealt_arms()
    halves: list[dict[str, Arm]] = []
    for parity in (0, 1):
        kept = np.arange(64) % 2 == parity
        halves.append(
            {
                name: Arm(
                    np.where(kept[:, np.newaxis], one.tallies, 0),
                    users=one.users[one.users % 2 == parity],
                )
                for name, one in whole.items()
            }
        )
    assert finding(halves[0], halves[1]) == finding(whole)


def test_users_seen_in_two_arms_are_counted_and_warned_of() -> None:
    arms = {"control": arm((0.5, 0.4, 0.3), 1), "treatment": arm((0.5, 0.4, 0.3), 2)}
    found = finding(arms)
    assert found.crossover_users == 300
    assert "300 users were seen in two variants or more" in found.warnings[-1]


def test_users_that_are_not_dealt_as_planned_are_warned_of_first() -> None:
    many = {
        "control": arm((0.5, 0.4, 0.3), 1, range(3000), 2),
        "treatment": arm((0.5, 0.4, 0.3), 2, range(3000, 4000), 2),
    }
    assert finding(many).warnings[0].startswith("users are not assigned to the variants as planned")
    weights = (("control", 3.0), ("treatment", 1.0))
    assert finding(many, weights=weights).warnings == ()


def test_without_planned_shares_the_ratio_is_not_tested() -> None:
    found = finding(dealt_arms(), name="other", declared=False, metrics=METRICS, guardrails=())
    assert found.srm is None and found.control == "control"


def test_a_control_without_traffic_is_warned_of() -> None:
    arms = {"b": arm((0.5, 0.4, 0.3), 1)}
    found = finding(arms)
    assert found.without_control
    assert found.warnings[0] == "no traffic in the control (control): nothing to compare with"
    assert found.variants[0].metrics[0].words == "no statement: no control traffic"


def test_few_users_are_too_few_for_a_statement() -> None:
    arms = {
        "control": arm((0.5, 0.4, 0.3), 1, range(5), 200),
        "treatment": arm((0.1, 0.4, 0.3), 2, range(5, 10), 200),
    }
    found = finding(arms)
    assert "effective buckets" in found.warnings[0]
    assert found.variants[1].metrics[0].words == "no statement: too few buckets"
    assert found.variants[1].metrics[0].difference is None


def test_impressions_without_a_unit_are_counted_and_warned_of() -> None:
    arms = dealt_arms()
    arms["control"].without_unit = 3_000
    found = finding(arms)
    assert found.warnings == ("20 % of the impressions have no user_id and are left out",)
    assert found.impressions == 15_000


def test_what_was_counted_under_another_configuration_is_left_out() -> None:
    [found] = found_of(dealt_arms()).experiments
    again = finding(dealt_arms(), unit="session")
    assert found.impressions == again.impressions == 12_000
    assert Spec("a", "b", 1, ("P@1",)).digest != Spec("a", "b", 2, ("P@1",)).digest
    weights = (("b", 1.0), ("c", 2.0))
    assert (
        Spec("a", "b", 1, ("P@1",)).digest
        == Spec("a", "b", 1, ("P@1",), (), weights=weights).digest
    )


def test_interleaved_lists_have_a_winner() -> None:
    found = finding(with_interleaved({}))
    assert found.interleaving is not None and found.srm is None
    lists = found.interleaving
    assert (lists.wins, lists.ties, lists.losses) == (640, 1728, 192)
    assert lists.delta == pytest.approx(0.0875) and lists.verdict == "better"
    assert not found.without_control and found.warnings == ()
    assert "2,560 interleaved lists: won 640, tied 1,728, lost 192" in to_table(found, None)


def test_interleaved_lists_are_series_with_bounds() -> None:
    found = found_of(with_interleaved(dealt_arms()))
    values = {
        (family.name.removeprefix("relevanced_experiment_interleaving_"), labels): value
        for family, labels, value in samples(found)
        if "_interleaving_" in family.name
    }
    here = 'experiment="ranker-v2"'
    counts = [values["impressions", f'{here},outcome="{one}"'] for one in ("win", "tie", "loss")]
    assert counts == [640, 1728, 192]
    assert values["preference", here] == pytest.approx(0.0875)
    assert 0 < values["lower", here] < 0.0875 < values["upper", here]
    assert values["log_evalue", here] > 3 and len(values) == 7
    assert not [f for f, _, _ in samples(found_of(dealt_arms())) if "_interleaving_" in f.name]


def test_the_report_begins_with_warnings() -> None:
    arms = {"control": arm((0.5, 0.4, 0.3), 1), "\x1b[31m": arm((0.2, 0.4, 0.3), 2)}
    found = finding(arms)
    text = to_table(found, "2026-11-20T12:00:00.000Z")
    lines = text.splitlines()
    assert lines[0] == "ranker-v2: running, as of 2026-11-20T12:00:00.000Z"
    assert lines[1] == "12,000 settled impressions, 60 % of the 20,000 planned"
    assert lines[2].startswith("WARNING 300 users were seen in two variants")
    assert any("RR@10 (primary)" in line and line.endswith("worse") for line in lines)
    assert "\x1b" not in text


@pytest.mark.parametrize("end_ms, status", [(None, "running"), (1, "running")])
def test_an_experiment_runs_until_its_end(end_ms: int | None, status: str) -> None:
    assert finding(dealt_arms(), end_ms=end_ms).status == status
    nothing = replace(Spec("x", "control", 1, METRICS))
    assert found_of({}, nothing).experiments[0].status == "waiting"
