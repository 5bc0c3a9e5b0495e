"""The numbers that distinguish patterns: counts of segments along event time, logarithmic changes
between two sides, and their distances in errors. Pure; unknown is NaN.

Success says how many searches find a relevant item, RR also at which rank: ln RR = ln Success + ln
shape, where shape is the mean of 1 / rank over the searches that succeed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from relevanced.metrics import Floats

UNKNOWN: Final = math.nan
RATIO_DRIFT: Final = 0.25
"""Share of the drift variance of a score that a ratio within the same searches has."""
STANDS_Z: Final = -2.0
"""A level that is less low than this is not low."""
WHOLE_FELL_Z: Final = -3.0
"""MIX is only asked for where the whole is so many errors low."""


@dataclass(frozen=True)
class Side:
    """What one side of the comparison, or a mean over its periods, says of one segment."""

    impressions: float
    with_feedback: float
    """Impressions with feedback."""
    feedback: float
    """Items with feedback."""
    zero_results: float
    """Impressions with an empty list."""
    success: float = UNKNOWN
    success_stderr: float = UNKNOWN
    rr: float = UNKNOWN
    """Mean of RR with the parameters of Success."""
    rr_stderr: float = UNKNOWN
    list_length: float = UNKNOWN
    list_length_stderr: float = UNKNOWN
    judged: tuple[tuple[float, float], ...] = ()
    """(mean, standard error) of each judged metric that is better where it is higher."""
    judged_best_case: tuple[tuple[float, float], ...] = ()
    """The same in the best case of the items without a judgement."""
    judged_impressions: float = UNKNOWN
    """Impressions whose query is judged."""


@dataclass(frozen=True)
class Noise:
    """How much numbers vary where nothing is wrong."""

    design_effect: float
    drift_ratio: float
    """Standard deviation of a score's drift, as a share of the score; that between days of the week
    included, while the baseline is made of other days."""
    share_drift_ratio: float
    """The same of the shares of impressions with feedback and without results."""

    def drift_variance(self, periods: float) -> float:
        """Relative, of a score less its mean over earlier periods."""
        return self.drift_ratio**2 * (1 + 1 / periods)


def evidence(
    recent: Side,
    baseline: Side,
    periods: float,
    noise: Noise,
    *,
    mix_share: float = UNKNOWN,
) -> dict[str, float]:
    """Name of a number → number, for `patterns.pattern_of`; NaN where it is unknown.

    `baseline` is a mean over `periods`; `mix_share` is as `largest_mix_share` gives it.
    """
    found = {
        **_of_shares(recent, baseline, periods, noise),
        **_of_ranks(recent, baseline, periods, noise),
        **_of_clicks(recent, baseline, periods, noise),
        **_of_lengths(recent, baseline, periods, noise),
        "mix_share": mix_share,
    }
    success = found["success"]
    found |= _of_judgements(recent, baseline, periods, noise, success)
    fell = success if success < 0 else UNKNOWN
    found["clicks_of_success"] = _ratio(found["clicks"], fell)
    found["shape_of_success"] = _ratio(found["shape"], fell)
    return found


def largest_mix_share(parts: Iterable[tuple[float, float, float]]) -> float:
    """The largest mix / (mix + within) of the metrics and groupings of which the whole is low.

    `parts` are (z of the whole, mix, within), of the metrics RR and Success where there are any.
    NaN for none.
    """
    shares = (_ratio(mix, mix + within) for z, mix, within in parts if z < WHOLE_FELL_Z)
    return max((share for share in shares if not math.isnan(share)), default=UNKNOWN)


def _successes(
    recent: Side, baseline: Side, periods: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(Success, its squared relative standard error) of both sides. Without a metric Success the
    share of impressions with feedback stands in."""
    if not math.isnan(recent.success) and not math.isnan(baseline.success):
        sides = (recent, baseline)
        found = [(s.success, _ratio(s.success_stderr, s.success) ** 2) for s in sides]
        return found[0], found[1]
    return _share_with_feedback(recent, 1), _share_with_feedback(baseline, periods)


def _share_with_feedback(side: Side, periods: float) -> tuple[float, float]:
    share = _ratio(side.with_feedback, side.impressions)
    return share, _ratio(1 - share, share * side.impressions * periods)


def _of_shares(recent: Side, baseline: Side, periods: float, noise: Noise) -> dict[str, float]:
    """Of the shares of impressions with feedback, and of those without results."""

    def z(now: float, before: float) -> float:
        sizes = np.array([recent.impressions]), np.array([baseline.impressions * periods])
        shares = np.array([now]), np.array([before])
        return float(share_z(*shares, *sizes, noise.design_effect, noise.share_drift_ratio)[0])

    with_feedback = _ratio(recent.with_feedback, recent.impressions)
    with_feedback_before = _ratio(baseline.with_feedback, baseline.impressions)
    empty = _ratio(recent.zero_results, recent.impressions)
    empty_before = _ratio(baseline.zero_results, baseline.impressions)
    (found, _), (found_before, _) = _successes(recent, baseline, periods)
    lost = 1 - _least(_ratio(found, found_before), _ratio(recent.rr, baseline.rr))
    made_empty = _ratio(empty - empty_before, 1 - empty_before)
    return {
        "feedback_z": z(with_feedback, with_feedback_before),
        "feedback_loss": 1 - _ratio(with_feedback, with_feedback_before),
        "empty": empty - empty_before,
        "empty_z": z(empty, empty_before),
        "empty_explains": _ratio(made_empty, lost if lost > 0 else UNKNOWN),
    }


def share_z(
    now: Floats,
    before: Floats,
    impressions: Floats,
    impressions_before: Floats,
    design_effect: float,
    drift_ratio: float,
) -> Floats:
    """The change of shares of impressions in standard errors: sampling of both sides, widened by
    the design effect, and drift as a share of the share. NaN where unknown.

    `impressions_before` are those of all periods together. All are of one shape.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (now + before) / 2
        counts = [np.where(n > 0, n, np.nan) for n in (impressions, impressions_before)]
        variance = design_effect * (1 / counts[0] + 1 / counts[1]) * mean * (1 - mean)
        error = np.sqrt(variance + (drift_ratio * before) ** 2)
        return np.asarray((now - before) / np.where(error > 0, error, np.nan))


def _of_ranks(recent: Side, baseline: Side, periods: float, noise: Noise) -> dict[str, float]:
    """Of Success, and of the shape of RR."""
    (found, sampling), (found_before, before) = _successes(recent, baseline, periods)
    success = _change(found, found_before)
    shape = _change(recent.rr, baseline.rr) - success
    # RR is Success times shape and both vary independently: what the relative variance of RR has
    # beyond that of Success is that of the shape. Recent searches tell it for both sides.
    of_shape = max(_ratio(recent.rr_stderr, recent.rr) ** 2 - sampling, 0.0)
    both = recent.impressions * _inverse(recent.impressions, baseline.impressions * periods)
    drift = noise.drift_variance(periods)
    fell = success + shape
    return {
        "success": success,
        "success_z": _ratio(success, _root(noise.design_effect * (sampling + before) + drift)),
        "shape": shape,
        "shape_z": _ratio(
            shape, _root(noise.design_effect * of_shape * both + RATIO_DRIFT * drift)
        ),
        "shape_share": _ratio(shape, fell if fell < 0 else UNKNOWN),
    }


def _of_clicks(recent: Side, baseline: Side, periods: float, noise: Noise) -> dict[str, float]:
    """Of items with feedback per impression with feedback.

    Only counts are known of them: their variance is that of a geometric distribution of this mean.
    """
    now = _ratio(recent.feedback, recent.with_feedback)
    before = _ratio(baseline.feedback, baseline.with_feedback)
    inverse = _inverse(recent.with_feedback, baseline.with_feedback * periods)
    variance = (1 - _ratio(2, now + before)) * inverse
    error = _root(noise.design_effect * variance + RATIO_DRIFT * noise.drift_variance(periods))
    return {"clicks": _change(now, before), "clicks_z": _ratio(_change(now, before), error)}


def _of_lengths(recent: Side, baseline: Side, periods: float, noise: Noise) -> dict[str, float]:
    length = _change(recent.list_length, baseline.list_length)
    sampling = (
        _ratio(recent.list_length_stderr, recent.list_length) ** 2
        + _ratio(baseline.list_length_stderr, baseline.list_length) ** 2
    )
    error = _root(noise.design_effect * sampling + RATIO_DRIFT * noise.drift_variance(periods))
    return {"length": length, "length_z": _ratio(length, error)}


def _of_judgements(
    recent: Side, baseline: Side, periods: float, noise: Noise, success: float
) -> dict[str, float]:
    """Of judged scores: the metric that fell furthest, and what would be seen if they had fallen as
    Success did. Unknown where the best case of a metric says something else."""
    z, expected = [], []
    best_case = recent.judged_best_case, baseline.judged_best_case
    sides = (recent.judged, baseline.judged, *best_case)
    for now, before, best_now, best_before in zip(*sides, strict=False):
        of_score, distance = _judged_change(now, before, periods, noise)
        of_best_case, _ = _judged_change(best_now, best_before, periods, noise)
        if (of_score < STANDS_Z) == (of_best_case < STANDS_Z):
            z.append(max(of_score, of_best_case))
            expected.append(_ratio(success * before[0], distance))
    shares = [_ratio(side.judged_impressions, side.impressions) for side in (recent, baseline)]
    return {
        "judged_z": min(z, default=UNKNOWN),
        "judged_expected_z": min(expected, default=UNKNOWN),
        "judged_share": _change(*shares),
    }


def _judged_change(
    recent: tuple[float, float], baseline: tuple[float, float], periods: float, noise: Noise
) -> tuple[float, float]:
    """(change in errors, one error) of a score, (mean, standard error) each."""
    (now, error), (before, error_before) = recent, baseline
    drift = noise.drift_variance(periods) * before**2
    distance = _root(noise.design_effect * (error**2 + error_before**2) + drift)
    return _ratio(now - before, distance), distance


def _ratio(value: float, by: float) -> float:
    return value / by if by else UNKNOWN


def _inverse(count: float, other: float) -> float:
    return _ratio(1, count) + _ratio(1, other)


def _change(now: float, before: float) -> float:
    ratio = _ratio(now, before)
    return math.log(ratio) if ratio > 0 else UNKNOWN


def _root(variance: float) -> float:
    return math.sqrt(variance) if variance >= 0 else UNKNOWN


def _least(value: float, other: float) -> float:
    return other if other < value else value


COUNTS: Final = (
    "impressions",
    "impressions_with_feedback",
    "zero_result_impressions",
    "items_with_feedback",
    "items_listed",
    "squared_items_listed",
)
"""The columns of `Counts.values` of feedback, in their order."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts in the bins of a timeline."""

    segments: Mapping[tuple[str, str], int]
    values: Floats
    """(bins, segments, `names`)."""
    names: Sequence[str] = COUNTS

    def summed(self, grouping: str, segments: Sequence[str], share: Floats) -> Mapping[str, float]:
        """The sums of some segments of one grouping over a stretch; `share` is (bins, 1)."""
        at = [self.segments[grouping, name] for name in segments]
        sums = np.tensordot(share[:, 0], self.values[:, at].sum(axis=1), axes=1)
        return dict(zip(self.names, sums.tolist(), strict=True))

    def judged_share(self, grouping: str, segments: Sequence[str], share: Floats) -> float | None:
        """The share of the places whose item is judged, of judged rows; None without any place."""
        sums = self.summed(grouping, segments, share)
        return sums["judged_places"] / sums["places"] if sums["places"] else None


def side_of(
    counts: Mapping[str, float], success: tuple[float, float], rr: tuple[float, float]
) -> Side:
    """One side of the comparison; scores are (mean, standard error for independent
    impressions)."""
    impressions = counts["impressions"]
    length, error = UNKNOWN, UNKNOWN
    if impressions > 1 and counts["items_listed"]:
        length = counts["items_listed"] / impressions
        spread = max(counts["squared_items_listed"] / impressions - length**2, 0.0)
        error = sqrt(spread / impressions)
    return Side(
        impressions=impressions,
        with_feedback=counts["impressions_with_feedback"],
        feedback=counts["items_with_feedback"],
        zero_results=counts["zero_result_impressions"],
        success=success[0],
        success_stderr=success[1],
        rr=rr[0],
        rr_stderr=rr[1],
        list_length=length,
        list_length_stderr=error,
    )
