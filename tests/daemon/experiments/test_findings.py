"""Findings: arms merged over lanes, compared, put into words, with warnings."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from relevanced.daemon.events import timestamp_text
from relevanced.daemon.experiments import (
    DAY_MS,
    Arm,
    Spec,
    Tallies,
    Tracking,
    findings,
    merge_tallies,
    report_table,
    sample_ratio,
    shares_to_test,
)
from relevanced.daemon.exporter import experiment_samples
from tests.arms import (
    METRICS,
    SPEC,
    arm,
    dealt_arms,
    finding,
    found_of,
    partly_defined,
    stratified_arms,
    with_interleaved,
)
from tests.lane_views import PLAN

WEEK_MS = 7 * DAY_MS
"""After so long a silence an experiment would be taken for another one."""
UNDECLARED: Final[dict[str, Any]] = {
    "name": "ranker v3",
    "declared": False,
    "metrics": METRICS,
    "guardrails": (),
}


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


@pytest.mark.parametrize(
    ("began_ms", "start_ms", "warned"),
    [
        ((0, 9 * WEEK_MS), None, True),  # it is not known when one of them began
        ((3 * WEEK_MS, 9 * WEEK_MS), None, True),
        ((4 * WEEK_MS + 1, 5 * WEEK_MS - 1), None, True),  # may have begun before
        ((5 * WEEK_MS, 9 * WEEK_MS), None, False),
        ((4 * WEEK_MS + 1, 9 * WEEK_MS), 4 * WEEK_MS, False),
        ((), None, True),
    ],
)
def test_an_experiment_that_may_have_begun_before_its_lanes_did_is_said_to_lack_a_part(
    began_ms: Sequence[int], start_ms: int | None, warned: bool
) -> None:
    declared, lost_ms = replace(SPEC, start_ms=start_ms), 4 * WEEK_MS
    lanes = [
        {SPEC.name: Tallies(declared.digest, dealt_arms(0.5), 10 * WEEK_MS, began_ms=began)}
        for began in began_ms
    ] or [{}, {}]
    lost_before = [{SPEC.name: lost_ms}, {SPEC.name: lost_ms - 1, "": 10 * WEEK_MS}, {}]
    tracking = Tracking({SPEC.name: declared}, 0, SPEC)
    (found,) = findings(lanes, tracking, PLAN.metrics, None, None, lost_before).experiments
    text = f"2 lanes began anew: what was counted there before {timestamp_text(lost_ms)} is lost"
    assert any(each.startswith(text) for each in found.warnings) == warned


def test_discoveries_hold_up_among_all_comparisons() -> None:
    others = {f"b{number}": arm((0.5, 0.4, 0.3), 3 + number, range(600)) for number in range(5)}
    arms = {**dealt_arms(treatment=0.455), **others}
    alone, among = finding(dealt_arms(treatment=0.455)), finding(arms)
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
    assert "among all 18 comparisons (e-BH, at most 5 % of them false): none" in report_table(
        among, ""
    )
    assert "of them false): treatment RR@10\n" in report_table(alone, "")


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


def test_a_lane_that_counted_under_another_configuration_is_left_out() -> None:
    own, other = (dealt_arms(treatment=mean) for mean in (0.3, 0.5))
    lanes = [Tallies(SPEC.digest, own), Tallies("another", other)]
    found = merge_tallies(SPEC, lanes).arms
    assert {name: one.impressions for name, one in found.items()} == {
        name: one.impressions for name, one in own.items()
    }


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


def test_a_stray_name_does_not_void_an_experiment_without_weights() -> None:
    arms = dealt_arms(treatment=0.3) | {"treatment ": arm((0.5, 0.4, 0.3), 3, range(600, 601))}
    found = finding(arms)
    assert found.srm == finding(dealt_arms(treatment=0.3)).srm
    verdicts = {one.variant: one.metrics[0].verdict for one in found.variants}
    assert verdicts == {"control": "undecided", "treatment": "worse", "treatment ": "undecided"}
    [said] = [one for one in found.warnings if "'treatment '" in one]
    assert "hardly any users have" in said and "set weights" in said
    planned = finding(arms, weights=(("control", 1.0), ("treatment", 1.0)))
    assert not any("set weights" in one for one in planned.warnings)


@pytest.mark.parametrize(("others", "few"), [((300,), 3), ((300, 3), 300), ((300, 300), 25)])
def test_a_variant_that_loses_its_users_is_tested(others: Sequence[int], few: int) -> None:
    """Where it is one of two, the control, or has more than a negligible share."""
    names, arms, first = ["treatment", *map(str, range(len(others) - 1))], {}, 0
    for name, users in zip(("control", *names), (others[0], few, *others[1:])):
        if (others, few) == ((300, 3), 300):  # the control has few
            users = {"control": 3, "0": 300}.get(name, users)
        arms[name] = arm((0.5, 0.4, 0.3), 1, range(first, first + users), 1)
        first += users
    assert "set weights" in finding(arms).warnings[0]


def test_a_variant_with_many_impressions_of_few_users_is_tested() -> None:
    arms = dealt_arms() | {"b": arm((0.5, 0.4, 0.3), 3, range(600, 603), 2000)}
    assert finding(arms).warnings[0].startswith("users are not assigned to the variants as planned")


def test_ratio_without_weights_stays_valid_at_every_look() -> None:
    """Whoever is left out: equal shares of three variants, beside a name that few users have."""
    seed = np.random.SeedSequence().entropy
    random, false_alarms, runs = np.random.default_rng(seed), 0, 200
    for _ in range(runs):
        dealt = random.choice(4, 400, p=[0.333, 0.333, 0.333, 0.001])
        users, highest = random.integers(0, 2**62, 400).astype(np.uint64), -math.inf
        for look in range(10, 400, 20):
            arms = {}
            for n, name in enumerate(("control", "a", "b", "stray")):
                own = users[:look][dealt[:look] == n]
                if len(own):
                    arms[name] = Arm(np.array([[len(own)]]), users=np.unique(own))
            shares = shares_to_test(SPEC, arms, ())
            found = sample_ratio(SPEC, arms, shares)
            highest = max(highest, -math.inf if found is None else found.log_evalue)
        false_alarms += highest >= math.log(20)
    assert false_alarms <= runs / 20 + 3 * math.sqrt(runs / 20), f"seed {seed}"


def test_a_stray_name_does_not_become_the_control() -> None:
    dealt = dealt_arms(treatment=0.3)
    arms = {"A": dealt["control"], "B": dealt["treatment"]}
    stray = {"control": arm((0.5, 0.4, 0.3), 3, range(600, 601), 1)}
    assert finding(arms | stray, **UNDECLARED).control == "A"
    assert finding(stray | {"B": arms["B"]}, **UNDECLARED).control == "control"


def test_verdicts_are_withheld_where_users_are_not_assigned_as_planned() -> None:
    segments = {"DE": (900, 0.6), "US": (900, 0.6)}, {"DE": (100, 0.2), "US": (500, 0.2)}
    arms = with_interleaved(stratified_arms(*segments))
    found = finding(arms, stratify_by="country")
    weights = (("control", 3.0), ("treatment", 1.0))
    sound = finding(arms, stratify_by="country", weights=weights)
    assert found.srm is not None and found.srm.log_evalue >= math.log(1000)
    assert "verdicts are withheld" in found.warnings[0] and not sound.warnings[0].startswith(
        "users"
    )
    for one, verdict in ((found, "undecided"), (sound, "worse")):
        metric = one.variants[-1].metrics[0]
        assert metric.verdict == verdict and metric.stratified is not None
        assert {segment.verdict for segment in metric.stratified.segments} == {verdict}
        assert one.interleaving is not None and (one.interleaving.verdict == "better") == (
            verdict == "worse"
        )
    metric, same = found.variants[-1].metrics[0], sound.variants[-1].metrics[0]
    assert metric.words == "withheld: the units are not assigned to the variants as planned"
    assert (metric.discovery, same.discovery) == (None, True)
    assert (metric.difference, metric.lower) == (same.difference, same.lower)


def test_undefined_lists_count_zero_and_the_defined_ones_stand_beside() -> None:
    found = finding(partly_defined(0.6, 0.75))
    (ndcg,) = [one for one in found.variants[1].metrics if one.metric == "nDCG@10"]
    assert ndcg.defined is not None and ndcg.mean is not None and ndcg.defined.mean is not None
    assert ndcg.defined.share == pytest.approx(ndcg.scored / 6_000)
    assert ndcg.mean == pytest.approx(ndcg.defined.mean * ndcg.scored / 6_000)
    assert ndcg.control_scored is not None and ndcg.control_scored < ndcg.scored
    assert (ndcg.verdict, ndcg.defined.shares_differ) == ("better", True)
    text = report_table(found, None)
    assert "nDCG@10 over defined lists alone: " in text and "no verdict: the shares differ" in text
    assert f"{ndcg.control_scored:,} / {ndcg.scored:,}" in text
    assert "one for which a metric is undefined counts as its worst value" in text
    assert {one.defined for one in found.variants[1].metrics if one is not ndcg} == {None}
    assert "undefined counts" not in report_table(finding(dealt_arms()), None)


def test_rare_control_has_no_relative_statement() -> None:
    arms = {
        "control": arm((0.001, 0.4, 0.3), 1, range(300)),
        "treatment": arm((0.002, 0.4, 0.3), 2, range(300, 600)),
    }
    found = finding(arms)
    metric = found.variants[1].metrics[0]
    assert metric.difference is not None and metric.relative_difference is None
    assert metric.relative_words == "no relative statement: the control is too near 0"
    assert metric.relative_words in report_table(found, None)
    assert found.variants[1].metrics[1].relative_words == ""


def test_units_are_called_what_they_are() -> None:
    for unit, words in (
        ("user_id", "with users as the units"),
        ("impression", "with impressions as the units"),
        ("session", "with values of session as the units"),
    ):
        assert words in report_table(finding(dealt_arms(), unit=unit), None)
    arms = {"control": arm((0.5, 0.4, 0.3), 1), "treatment": arm((0.5, 0.4, 0.3), 2)}
    assert "300 values of session were seen" in finding(arms, unit="session").warnings[-1]


def test_control_whose_impressions_lack_the_unit_is_not_without_traffic() -> None:
    arms = {"control": Arm.empty(3), "treatment": arm((0.5, 0.4, 0.3), 2)}
    arms["control"].without_unit = 10_000
    found = finding(arms)
    words = "no statement: none of the 10,000 impressions of the control has a user_id"
    assert found.variants[1].metrics[0].words == words and not found.without_control


def test_control_is_to_be_declared_where_no_variant_has_its_name() -> None:
    arms = {"old": arm((0.5, 0.4, 0.3), 1), "new": arm((0.5, 0.4, 0.3), 2, range(300, 600))}
    hint = finding(arms, **UNDECLARED).warnings[0]
    assert hint.startswith("no variant is called control, baseline, A, a, off, 0 or false")
    assert (
        'if one of new, old is the control, name it as `control` under [experiments."rank' in hint
    )


@pytest.mark.parametrize(
    "without, words",
    [(12_000, "50 %"), (1, "less than 0.1 %"), (10**8, "more than 99.9 %"), (1_000, "7.7 %")],
)
def test_shares_are_written_out(without: int, words: str) -> None:
    arms = dealt_arms()
    arms["control"].without_unit = without
    assert finding(arms).warnings[-1].startswith(f"{words} of the impressions have no user_id")


def test_without_planned_shares_the_ratio_is_not_tested() -> None:
    found = finding(dealt_arms(), name="other", declared=False, metrics=METRICS, guardrails=())
    assert found.srm is None and found.control == "control"


def test_a_control_without_traffic_is_warned_of() -> None:
    arms = {"b": arm((0.5, 0.4, 0.3), 1)}
    found = finding(arms)
    assert found.without_control
    assert found.warnings[0] == (
        "no traffic in the control (control): nothing to compare with; if one of b is the control,"
        " name it as `control` under [experiments.ranker-v2]"
    )
    assert found.variants[0].metrics[0].words == "no statement: no control traffic"


def test_absent_arms_are_named_with_what_they_were_to_get() -> None:
    weights = (("control", 2.0), ("third", 1.0), ("treatment", 1.0))
    found = finding({"control": arm((0.5, 0.4, 0.3), 1)}, weights=weights)
    assert "third has no traffic: of 300 users it was to get 75" in found.warnings
    assert "treatment has no traffic: of 300 users it was to get 75" in found.warnings
    assert not [one for one in finding(dealt_arms()).warnings if "no traffic" in one]


def test_an_experiment_that_some_lanes_have_no_room_for_says_in_how_many_it_is_counted() -> None:
    """A lane that has room would count it: there it has no impression."""
    others, last_ms = Spec("", "control", 20_000, METRICS, declared=False), 30 * 86_400_000

    def lane(*names: str, last_ms: int = last_ms) -> dict[str, Tallies]:
        return {name: Tallies(others.digest, dealt_arms(), last_ms) for name in names}

    def said(*lanes: dict[str, Tallies], declared: Sequence[str] = ()) -> list[str]:
        specs = {name: replace(others, name=name, declared=True) for name in declared}
        found = findings(lanes, Tracking(specs, 2, others), PLAN.metrics, None, None).experiments
        return [f"{one.experiment} {w[:23]}" for one in found for w in one.warnings if "lanes" in w]

    both = lane("a", "b"), lane("b", "c")
    assert said(*both) == ["a counted in 1 of 2 lanes", "c counted in 1 of 2 lanes"]
    assert said(lane("a", "b"), lane("b")) == said(lane("a"), lane("a")) == []
    assert said(*both, lane("a")) == ["a counted in 2 of 3 lanes", "c counted in 1 of 2 lanes"]
    assert said(*both, declared=["a", "b", "c"]) == []
    assert said(lane("a"), lane("b", "c", last_ms=1)) == []


def test_an_undeclared_experiment_that_a_lane_may_have_dropped_as_silent_says_so() -> None:
    others, now_ms = Spec("", "control", 20_000, METRICS, declared=False), 10 * WEEK_MS

    def lane(began_ms: int) -> dict[str, Tallies]:
        return {"a": Tallies(others.digest, dealt_arms(), now_ms, began_ms=began_ms)}

    def lacks(*lanes: dict[str, Tallies], at_ms: Sequence[int]) -> list[str]:
        tracking = Tracking({}, 8, others)
        (found,) = findings(
            lanes, tracking, PLAN.metrics, None, None, (), [9 * WEEK_MS, *at_ms]
        ).experiments
        return [text.split(":")[0] for text in found.warnings if "may lack" in text]

    before = timestamp_text(8 * WEEK_MS)
    said = [f"a lane may lack what was counted before {before[:10]}T00"]
    assert lacks({}, lane(WEEK_MS), at_ms=[0]) == said
    assert lacks(lane(9 * WEEK_MS), lane(WEEK_MS), at_ms=[0]) == said, "it came back"
    assert lacks(lane(WEEK_MS), lane(WEEK_MS), at_ms=[0]) == [], "it was not dropped"
    assert lacks({}, lane(8 * WEEK_MS), at_ms=[0]) == [], "it was not there yet"
    assert lacks({}, {}, lane(WEEK_MS), at_ms=[0, 0]) == said


def test_segments_that_some_lanes_count_within_the_rest_are_named() -> None:
    def lane(first: int, own: int, *rest: str) -> dict[str, Arm]:
        names = [*(f"c{number:02}" for number in range(first, first + own)), *rest]
        return stratified_arms(*[{name: (2, 0.5) for name in names}] * 2)

    def said(*lanes: dict[str, Arm]) -> list[str]:
        warnings = finding(*lanes, stratify_by="country").warnings
        return [one.split(" are counted")[0] for one in warnings if "in some lanes only" in one]

    assert said(lane(0, 16, "other"), lane(1, 16, "other")) == ["c00, c16 of country"]
    assert said(lane(0, 16, "other"), lane(9, 16)) == [
        "c16, c17, c18, c19, c20 and 4 more of country"
    ]
    assert said(lane(0, 16, "other"), lane(0, 16, "other")) == said(lane(0, 16), lane(1, 16)) == []


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
    assert "2,560 interleaved lists: won 640, tied 1,728, lost 192" in report_table(found, None)


def test_interleaved_lists_are_series_with_bounds() -> None:
    found = found_of(with_interleaved(dealt_arms()))
    values = {
        (family.name.removeprefix("relevanced_experiment_interleaving_"), labels): value
        for family, labels, value in experiment_samples(found)
        if "_interleaving_" in family.name
    }
    here = 'experiment="ranker-v2"'
    counts = [values["impressions", f'{here},outcome="{one}"'] for one in ("win", "tie", "loss")]
    assert counts == [640, 1728, 192]
    assert values["preference", here] == pytest.approx(0.0875)
    assert 0 < values["lower", here] < 0.0875 < values["upper", here]
    assert values["log_evalue", here] > 3 and len(values) == 7
    assert not [
        f for f, _, _ in experiment_samples(found_of(dealt_arms())) if "_interleaving_" in f.name
    ]


def test_the_report_begins_with_warnings() -> None:
    arms = {"control": arm((0.5, 0.4, 0.3), 1), "\x1b[31m": arm((0.2, 0.4, 0.3), 2)}
    found = finding(arms)
    text = report_table(found, "2026-11-20T12:00:00.000Z")
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
