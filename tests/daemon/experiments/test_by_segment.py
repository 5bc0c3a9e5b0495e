"""Experiments by segment: discoveries among segments, and differences that come from the mix."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from relevanced.daemon.config import ConfigError, load
from relevanced.daemon.experiments import Arm, Finding, MetricFinding, SegmentFinding, report_table
from relevanced.daemon.exporter import experiment_samples
from relevanced.metrics import user_hashes
from tests.arms import SPEC, arm, finding, found_of, stratified_arms

EVEN: Final = {"DE": (300, 0.3), "US": (300, 0.6)}
TOML: Final = '[experiments.ranker-v2]\nstratify_by = "country,device"\n'


def compared(
    treatment: Mapping[str, tuple[int, float]], control: Mapping[str, tuple[int, float]]
) -> Finding:
    return finding(stratified_arms(control, treatment), stratify_by="country")


def primary(found: Finding) -> MetricFinding:
    return found.variants[1].metrics[0]


def segments(metric: MetricFinding) -> dict[str, SegmentFinding]:
    assert metric.stratified is not None
    return {one.segment: one for one in metric.stratified.segments}


def test_another_mix_of_segments_is_no_difference() -> None:
    """Within each segment the arms are the same; the treatment got more of the hard one."""
    found = compared({"DE": (500, 0.3), "US": (100, 0.6)}, {"DE": (100, 0.3), "US": (500, 0.6)})
    metric = primary(found)
    assert metric.verdict == "undecided" and metric.discovery is False
    assert metric.upper is not None and metric.upper < 0
    assert metric.words.startswith("withheld: the variants got other mixes of country")
    assert metric.stratified is not None
    common_mix = metric.stratified
    assert (
        common_mix.lower is not None
        and common_mix.upper is not None
        and common_mix.difference is not None
    )
    assert (
        common_mix.lower < 0 < common_mix.upper
        and abs(common_mix.difference) < 0.03
        and common_mix.covered == 1
    )
    assert {one.verdict for one in segments(metric).values()} == {"undecided"}
    assert "if both variants had the same mix of country:" in report_table(found, None)


def test_a_verdict_that_a_common_mix_supports_stands() -> None:
    metric = primary(compared({"DE": (300, 0.2), "US": (300, 0.4)}, EVEN))
    assert (metric.verdict, metric.words, metric.discovery) == ("worse", "worse", True)


def test_assignment_that_differs_between_segments_is_a_mismatch() -> None:
    """Also where it is as planned in all; the segment is named, and verdicts are withheld."""

    def dealt(de: int, us: int) -> Finding:
        control, treatment = {"DE": (600 - de, 0.3), "US": (600 - us, 0.6)}, {"DE": (de, 0.3)}
        arms = stratified_arms(control, {**treatment, "US": (us, 0.6)})
        first = 0
        for name, (of_de, of_us) in (("control", (600 - de, 600 - us)), ("treatment", (de, us))):
            hashes = user_hashes(f"u{number}" for number in range(first, first + of_de + of_us))
            homes = {"DE": np.sort(hashes[:of_de]), "US": np.sort(hashes[of_de:])}
            arms[name].homes, first = homes, first + of_de + of_us
        return finding(arms, stratify_by="country")

    sound, unsound = dealt(300, 300), dealt(420, 180)
    assert sound.srm is not None and sound.srm.log_evalue < 0 and not sound.warnings
    assert unsound.srm is not None and unsound.srm.log_evalue > 10
    assert unsound.srm.segment in ("DE", "US")
    assert f"as planned within country={unsound.srm.segment} (ln e" in unsound.warnings[0]
    assert primary(unsound).verdict == "undecided"


def test_a_segment_that_got_worse_is_named_and_the_others_are_not() -> None:
    found = compared({"DE": (300, 0.1), "US": (300, 0.6)}, EVEN)
    by_segment = segments(primary(found))
    assert (by_segment["DE"].verdict, by_segment["DE"].discovery) == ("worse", True)
    assert (by_segment["US"].verdict, by_segment["US"].discovery) == ("undecided", False)
    others = [segments(metric) for metric in found.variants[1].metrics[1:]]
    assert not any(one.discovery for of in others for one in of.values())
    line = "among all 6 comparisons within country (e-BH, at most 5 % of them false): "
    assert f"{line}treatment RR@10 in DE\n" in report_table(found, None)


def test_a_segment_of_one_arm_is_left_out_and_not_covered() -> None:
    common_mix = primary(compared({**EVEN, "FR": (300, 0.9)}, EVEN)).stratified
    assert common_mix is not None and common_mix.covered == pytest.approx(0.8)
    assert common_mix.upper is not None and common_mix.upper > 0 > (common_mix.lower or 0)
    [alone] = [one for one in common_mix.segments if one.segment == "FR"]
    assert (alone.difference, alone.verdict, alone.discovery) == (None, "undecided", False)


def test_lanes_add_up_by_segment() -> None:
    arms = stratified_arms(EVEN, {"DE": (300, 0.2), "US": (300, 0.6)})
    kept = [np.arange(64)[:, np.newaxis] % 2 == parity for parity in (0, 1)]
    halves = [
        {
            name: Arm(
                np.where(half, one.tallies, 0),
                users=one.users[one.users % 2 == parity],
                strata={s: np.where(half, part, 0) for s, part in one.strata.items()},
            )
            for name, one in arms.items()
        }
        for parity, half in enumerate(kept)
    ]
    spec = {"stratify_by": "country"}
    assert finding(halves[0], halves[1], **spec) == finding(arms, **spec)


def test_segments_are_series() -> None:
    arms = stratified_arms(EVEN, {"DE": (300, 0.1), "US": (300, 0.6)})
    values = {
        (family.name.removeprefix("relevanced_experiment_"), labels): value
        for family, labels, value in experiment_samples(
            found_of(arms, replace(SPEC, stratify_by="country"))
        )
    }
    here = 'experiment="ranker-v2",variant="treatment",metric="RR@10"'
    in_de = f'{here},grouping="country",segment="DE"'
    assert values["segment_discovery", in_de] == 1
    assert values["segment_upper", in_de] < 0
    assert values["stratified_upper", here] < 0 and values["stratified_ratio", here] == 1


def test_without_strata_there_are_no_series_of_them() -> None:
    arms = {"control": arm((0.5, 0.4, 0.3), 1), "treatment": arm((0.4, 0.4, 0.3), 2)}
    assert primary(finding(arms)).stratified is None
    names = [family.name for family, _, _ in experiment_samples(found_of(arms))]
    assert not [name for name in names if "_segment" in name or "_stratified" in name]


def test_strata_are_those_of_a_configured_grouping() -> None:
    tracking = load(TOML, {}, "test").tracking
    assert tracking is not None and tracking.declared["ranker-v2"].stratify_by == "country,device"
    with pytest.raises(ConfigError, match="stratify_by=city: must be one of segments.groupings"):
        load(TOML.replace("country,device", "city"), {}, "test")


def test_other_strata_count_anew_and_none_go_on_as_before() -> None:
    """Without strata the digest is pinned: an upgrade must not start an experiment anew."""
    assert SPEC.digest == "3750e11a"
    assert len({replace(SPEC, stratify_by=one).digest for one in (None, "country", "device")}) == 3
