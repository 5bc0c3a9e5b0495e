"""Statistics of experiments, compared with gbstats, confseq, scipy, statsmodels and tea-tasting.

Left out of the file, because nothing here computes them: CUPED (it needs users' past), boundaries
of other families (stitching, gamma-exponential, bounded means, mSPRT, YEAST), corrections of
p-values that hold for one look, alarms on time series, and buckets whose users the file does not
hold.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from relevanced.metrics import (
    CONCENTRATIONS,
    Design,
    Estimate,
    Exposures,
    Lists,
    Propensities,
    UserBuckets,
    always_valid_p,
    best_dcg,
    boundary,
    confidence_sequence,
    difference,
    discoveries,
    effective_sample_size,
    estimate,
    harvest,
    independent_variance,
    ips_dcg,
    linear_gain,
    log_evalue,
    mean_variance,
    mixture_rate,
    one_sided_boundary,
    one_sided_closed_form,
    pair_rates,
    parse,
    preference,
    relative_difference,
    sample_ratio_chi_square_p,
    sample_ratio_log_evalue,
    weight_sums,
    welch_at_planned_end,
    wilson_interval,
)

Numbers = dict[str, Any]


@pytest.fixture(scope="module")
def golden(shared: Path) -> Numbers:
    loaded: Numbers = json.loads((shared / "golden" / "statistics.json").read_text())
    return loaded


@pytest.fixture(scope="module")
def own(golden: Numbers) -> Numbers:
    return dict(golden["scipy_statsmodels_teatasting_own"])


@pytest.fixture(scope="module")
def closed(golden: Numbers) -> Numbers:
    return dict(golden["confseq_and_closed_forms"])


def near(expected: float | list[float]) -> Any:
    return pytest.approx(expected, rel=1e-9, abs=1e-14)


def arm(inputs: Numbers) -> tuple[Estimate, int]:
    """The mean of an arm, with its variance over impressions, or over users by the delta method."""
    if "variance" in inputs:
        return Estimate(inputs["mean"], inputs["variance"] / inputs["n"], inputs["n"]), inputs["n"]
    users, ratio = inputs["users"], inputs["sum_m"] / inputs["sum_d"]
    residuals = inputs["sum_m2"] - 2 * ratio * inputs["sum_md"] + ratio**2 * inputs["sum_d2"]
    variance = residuals / (users - 1) * users / inputs["sum_d"] ** 2
    return Estimate(ratio, variance, users), users


@pytest.mark.parametrize("case", ["gb_means", "ndcg_like", "ratio_delta"])
def test_differences_equal_gbstats(golden: Numbers, case: str) -> None:
    inputs, results = golden["gbstats"][case]["inputs"], golden["gbstats"][case]["results"]
    (control, c_units), (treatment, t_units) = arm(inputs["control"]), arm(inputs["treatment"])
    for name, change in (("absolute", difference), ("relative", relative_difference)):
        expected, found = results[f"welch_{name}"], change(control, treatment)
        assert [found.value, found.stderr] == near([expected["estimate"], expected["se"]])
        end = welch_at_planned_end(
            control, treatment, units=(c_units, t_units), relative=name == "relative"
        )
        assert [end.interval.lower, end.interval.upper] == near(expected["ci"])
        assert end.p_value == near(expected["p"])
        assert end.degrees == near(expected.get("dof", end.degrees))


@pytest.mark.parametrize("case", ["gb_means", "ndcg_like", "ratio_delta"])
def test_confidence_sequences_equal_gbstats(golden: Numbers, case: str) -> None:
    inputs, results = golden["gbstats"][case]["inputs"], golden["gbstats"][case]["results"]
    arms = [arm(inputs[name])[0] for name in ("control", "treatment")]
    checked = 0
    for name, expected in results.items():
        kind, _, planned = name.removeprefix("asymptotic_cs_").partition("_tune")
        if not planned:
            continue
        found = (relative_difference if kind == "relative" else difference)(*arms)
        design = Design(int(planned))
        interval, evidence = confidence_sequence(found, design), log_evalue(found, design)
        assert [interval.lower, interval.upper] == near(expected["ci"])
        assert always_valid_p(evidence) == near(expected["always_valid_p"])
        assert math.exp(evidence) == near(expected.get("e_value", math.exp(evidence)))
        assert math.sqrt(design.rate) == near(expected.get("rho", math.sqrt(design.rate)))
        checked += 1
    assert checked >= 2


def test_users_ratio_equals_gbstats_and_tea_tasting(golden: Numbers, own: Numbers) -> None:
    case, peer = golden["gbstats"]["ratio_delta"], own["ratio_delta_tea_tasting"]
    arms = {name: arm(case["inputs"][name]) for name in ("control", "treatment")}
    for name, (found, users) in arms.items():
        expected = case["results"][name]
        assert [found.value, found.stderr] == near([expected["ratio"], expected["se"]])
        assert found.variance * users == near(expected["variance_per_user"])
        assert found.value == near(peer[name])
    (control, c_units), (treatment, t_units) = arms["control"], arms["treatment"]
    end = welch_at_planned_end(control, treatment, units=(c_units, t_units))
    assert [end.estimate.value, end.estimate.z] == near([peer["effect"], peer["statistic"]])
    assert [end.interval.lower, end.interval.upper, end.p_value] == near([*peer["ci"], peer["p"]])
    assert relative_difference(control, treatment).value == near(peer["rel"])


def test_boundaries_equal_confseq(closed: Numbers) -> None:
    for row in closed["normal_mixture_bound"]:
        n, alpha, root = row["v"], row["alpha"], math.sqrt(row["v"])
        rate = mixture_rate(row["v_opt"], row["alpha_opt"])
        one_sided = mixture_rate(row["v_opt"], 2 * row["alpha_opt"])
        assert boundary(n, rate, alpha) == near(row["multiplier_per_se"])
        assert boundary(n, rate, alpha) * root == near(row["two_sided_bound"])
        assert boundary(n, rate, alpha) * root == near(row["two_sided_closed_form"])
        exact, above = (f(n, one_sided, alpha) for f in (one_sided_boundary, one_sided_closed_form))
        assert exact * root == near(row["one_sided_exact"])
        assert above * root == near(row["one_sided_closed_form_WS"])


def test_evidence_equals_confseq(closed: Numbers) -> None:
    for row in closed["normal_log_mixture"]:
        found = Estimate(row["s"] / row["v"], 1 / row["v"], row["v"])
        assert log_evalue(found, Design(row["v_opt"])) == near(row["value"])


def test_mixture_rate_is_the_approximation_that_peers_use(closed: Numbers) -> None:
    for row in closed["rho2"]:
        assert mixture_rate(row["t_opt"], 0.05) == near(row["approx"])
    for share, z in closed["effective_z_two_sided_alpha05"].items():
        assert boundary(float(share), mixture_rate(1.0, 0.05), 0.05) == near(z)


def test_interval_equals_eppo(closed: Numbers) -> None:
    for row in closed["eppo_sequential"]:
        design = Design(10_000)
        assert 1 / design.rate == near(row["rho"])
        assert boundary(row["t"], design.rate, 0.05) == near(row["B"])
        found = confidence_sequence(Estimate(row["estimate"], row["se"] ** 2, row["t"]), design)
        assert [found.lower, found.upper] == near(row["ci"])


def test_sample_ratio_equals_gbstats_and_ssrm(golden: Numbers) -> None:
    for row in golden["gbstats"]["srm_chi2"]:
        assert sample_ratio_chi_square_p(row["counts"], row["weights"]) == near(row["p"])
    for row in golden["gbstats"]["srm_sequential"]:
        found = sample_ratio_log_evalue(row["counts"], row["p"], [row["dirichlet_concentration"]])
        assert found == near(row["log_bayes_factor"])
        assert always_valid_p(found) == near(row["p_value"])


@pytest.mark.parametrize("counts", [(7_500, 2_500), (7_250, 2_750), (30, 30)])
def test_sample_ratio_evidence_is_that_of_beta_binomial_mixtures_around_the_plan(
    counts: tuple[int, int],
) -> None:
    first, users, share = counts[0], sum(counts), 0.75
    planned = stats.binom.logpmf(first, users, share)
    mixtures = [
        stats.betabinom.logpmf(first, users, each * share, each * (1 - share)) - planned
        for each in CONCENTRATIONS
    ]
    expected = special.logsumexp(mixtures) - math.log(len(CONCENTRATIONS))
    assert sample_ratio_log_evalue(counts, (3.0, 1.0)) == pytest.approx(expected, rel=1e-6)


def test_bucketed_variance_equals_the_delta_method(own: Numbers) -> None:
    tiny = own["buckets_tiny"]
    counts, sums = np.array(tiny["N"], np.int64), np.array(tiny["S"], np.int64)
    found = estimate(UserBuckets(counts, sums, sums, unit=1))
    assert [found.value, found.variance] == near([tiny["ratio"], tiny["var_linearised"]])
    assert found.stderr == near(tiny["se_linearised"])


def test_buckets_give_the_difference_of_the_file(own: Numbers) -> None:
    """From the two arms on: their users are not in the file."""
    for buckets, row in own["user_hash_buckets"]["K"].items():
        arms = [
            Estimate(row[name]["ratio"], row[name]["se_linearised"] ** 2, 0)
            for name in ("control", "treatment")
        ]
        end = welch_at_planned_end(*arms, units=(int(buckets), int(buckets)))
        expected = row["difference"]
        assert end.estimate.value == near(expected["estimate"])
        assert [end.estimate.stderr, end.degrees] == near([expected["se"], expected["dof"]])
        assert [end.interval.lower, end.interval.upper] == near(expected["ci95"])


def test_discoveries_equal_the_file(own: Numbers) -> None:
    row = own["e_bh"]
    found = discoveries(np.log(row["e"]), row["alpha"])
    assert found.tolist() == [True] * row["rejections"] + [False] * (
        len(row["e"]) - row["rejections"]
    )
    assert discoveries(np.log(row["e"]), 0.1).sum() == row["rejections_alpha_0_1"]
    # An e-value right on the first threshold is a discovery, one just below it is not.
    only = np.full(len(row["e"]), -5.0)
    for factor, expected in ((1.0, 1), (1.0 - 1e-9, 0)):
        only[3] = math.log(row["thresholds_m_over_k_alpha"][0] * factor)
        assert discoveries(only, row["alpha"]).sum() == expected


def interleaved(row: Numbers) -> UserBuckets:
    credits = np.repeat([1.0, 0.0, -1.0], [row["wins_treatment"], row["ties"], row["wins_control"]])
    return UserBuckets.of(credits, np.arange(len(credits)) % 64)


def test_interleaving_equals_scipy_and_gbstats(own: Numbers) -> None:
    row = own["interleaving"]
    tallies = interleaved(row)
    found = preference(tallies, Design(row["cs_tune"]))
    assert (found.wins, found.ties, found.losses) == (610, 1870, 520)
    assert found.delta == near(row["delta_AB_chapelle"])
    assert [found.sign_test_p, found.win_share] == near([row["sign_test_p"], row["win_share"]])
    decided = found.wins + found.losses
    assert (found.wins - found.losses) / math.sqrt(decided) == near(row["z"])
    assert list(wilson_interval(found.wins, decided)) == near(row["win_share_ci"])
    naive = Estimate(row["mean_score"], float(independent_variance(tallies)), 3000)
    interval = confidence_sequence(naive, Design(row["cs_tune"]))
    assert [interval.lower, interval.upper] == near(row["asymptotic_cs_mean_score"])
    assert found.credit.estimate.value == near(row["mean_score"])
    assert found.credit.estimate.variance == near(float(mean_variance(tallies)))


def test_inverse_propensities_equal_the_file(own: Numbers) -> None:
    row = own["ips_dcg"]
    table = Propensities("web", "1", tuple(row["propensity"]))
    clicks = np.array([row["clicks"]], np.float64)
    weights = table.weights(10)
    assert ips_dcg(clicks, 10, np.ones(10))[0] == near(row["raw_click_dcg"])
    assert ips_dcg(clicks, 10, weights)[0] == near(row["ips_dcg"])
    assert ips_dcg(clicks, 10, table.weights(10, clip=5.0))[0] == near(row["ips_dcg_clip5"])
    ideal = best_dcg(clicks * weights, 10, linear_gain)
    assert (ips_dcg(clicks, 10, weights) / ideal)[0] == near(row["ips_ndcg"])
    lists = Lists.of([row["clicks"]], weights=weights[None])
    assert parse("IPS-DCG@10").values(lists)[0] == near(row["ips_dcg"])
    sums = weight_sums(np.array(row["clicks"]), table)
    assert effective_sample_size(sums) == near(row["effective_sample_size"])


def test_harvest_equals_the_file(own: Numbers) -> None:
    row = own["intervention_harvesting"]
    lines = [
        [item, item, rank, pair[f"n_{key}"], pair[f"c_{key}"]]
        for item, pair in enumerate(row["pairs"])
        for rank, key in ((1, "k"), (2, "kp"))
    ]
    exposures = Exposures(*np.array(lines).T)
    rates = pair_rates(exposures, 2)
    assert [rates[0, 1], rates[1, 0]] == near([row["c_hat_k"], row["c_hat_kprime"]])
    ratio = row["propensity_ratio_kprime_over_k"]
    assert harvest(exposures, 2).values.tolist() == near([1.0, ratio])
