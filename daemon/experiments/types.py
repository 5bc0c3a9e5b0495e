"""Findings as the API, reports and Prometheus show them. Pure."""

import math
from typing import Final

import msgspec

from relevanced.metrics import ALARM_LOG_EVALUE, Verdict

from .spec import Role


class SegmentFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of one variant against the control in one segment; undefined values are null."""

    segment: str
    difference: float | None
    lower: float | None
    upper: float | None
    log_evalue: float | None
    discovery: bool
    """Whether the difference holds up among all segments, variants and metrics of the experiment:
    e-BH, with a false discovery rate of at most 5 %."""
    verdict: Verdict
    """For this segment, as if it were the only comparison."""


class Stratified(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The difference if both arms had the same mix of segments; undefined values are null."""

    difference: float | None
    lower: float | None
    upper: float | None
    covered: float | None
    """Share of the impressions in segments where both arms have enough buckets of users."""
    segments: tuple[SegmentFinding, ...]


class DefinedLists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same metric over the lists alone for which it is defined; undefined values are null.

    It has no verdict: which lists are defined is itself a result of the treatment.
    """

    mean: float | None
    control_mean: float | None
    share: float | None
    """Share of the variant's impressions for which the metric is defined."""
    control_share: float | None
    difference: float | None
    lower: float | None
    """Lower end of the 95 % confidence sequence of the difference."""
    upper: float | None
    shares_differ: bool
    """Whether the shares are known to differ, by a confidence sequence of their difference."""


class WithoutBusiest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The difference without the buckets of users that the busiest units are in; undefined values
    are null."""

    difference: float | None
    lower: float | None
    upper: float | None
    verdict: Verdict


class BusyUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A unit with more than 1 % of the impressions of a variant."""

    variant: str
    """Of which it has so much."""
    unit: str
    """Its hash, 16 hexadecimal digits: `relevanced.metrics.user_hashes` of its id."""
    share: float
    """Of the impressions of the variant with a unit."""


class MetricFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of one variant against the control; undefined values are null."""

    metric: str
    role: Role
    mean: float | None
    """Over all impressions with a unit, or over those of the variant's `periods`; where the metric
    is undefined they count as its worst value, which is 0, or the highest one where less is
    better."""
    scored: int = 0
    """Impressions for which the metric is defined."""
    control_mean: float | None = None
    control_scored: int | None = None
    difference: float | None = None
    lower: float | None = None
    """Lower end of the 95 % confidence sequence of the difference: valid at every look."""
    upper: float | None = None
    relative_difference: float | None = None
    relative_lower: float | None = None
    """It leaves out 0 exactly where the interval of the difference does."""
    relative_upper: float | None = None
    relative_words: str = ""
    """Why there is a difference and no relative one."""
    log_evalue: float | None = None
    """Natural logarithm of the evidence for any difference."""
    p_value: float | None = None
    """Valid at every look."""
    guardrail_log_evalue: float | None = None
    """Natural logarithm of the evidence that the variant is worse."""
    minimum_detectable_effect: float | None = None
    """The least true difference that the planned total finds with a probability of 0.8."""
    design_effect: float | None = None
    further_impressions: float | None = None
    """Impressions missing for a verdict, if the difference stays as it is."""
    discovery: bool | None = None
    """Whether the difference holds up among all comparisons of the experiment: e-BH over its
    variants and metrics, with a false discovery rate of at most 5 %. Null for the control."""
    verdict: Verdict = "undecided"
    words: str = ""
    defined: DefinedLists | None = None
    """Null where the metric is defined for all impressions of both arms."""
    without_busiest: WithoutBusiest | None = None
    """Null where no unit has more than 1 % of a variant."""
    stratified: Stratified | None = None
    """Null where the experiment is not stratified."""


class SharePeriod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Days, one after the other, in which a variant and the control had constant shares."""

    first_day: str
    """Its date (UTC)."""
    last_day: str
    """Its date, which is in the period."""
    shares: dict[str, float]
    """Of the control and the variant: the share of the impressions that they have together, with a
    unit."""


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One arm. The metrics of the control have only a mean."""

    variant: str
    impressions: int
    users: float
    metrics: tuple[MetricFinding, ...]
    periods: tuple[SharePeriod, ...] = ()
    """Empty where it and the control kept their shares. Else its differences are those within these
    periods, each with the weight of its information, and so are the means beside them."""
    mixed_days: tuple[str, ...] = ()
    """Dates (UTC) within which its share beside the control changed: they are in no period."""


class Interleaving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Interleaved lists of two rankers: whose items got more gain."""

    wins: int
    """Lists won by the ranker that is not the control."""
    ties: int
    losses: int
    delta: float | None
    """(wins + ties / 2) / lists - 1/2."""
    lower: float | None
    """Lower end of the confidence sequence of delta, with users as the units."""
    upper: float | None
    log_evalue: float | None
    p_value: float | None
    sign_test_p: float
    """Valid for a single look, as if each list had a user of its own."""
    verdict: Verdict


class SampleRatio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The test whether users were assigned to the variants as planned."""

    log_evalue: float
    """Natural logarithm of the evidence against the planned shares: with segments, that of the
    average of the e-values of all units and of those within segments."""
    p_value: float
    segment: str | None = None
    """The segment with the most evidence, if that is more than there is in all."""


class DayEffect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of one variant against the control: on one UTC day, and up to its end; undefined
    values are null."""

    day: str
    """Its date, such as 2026-11-20."""
    variant: str
    metric: str
    day_control_impressions: int | None
    """Shown on this day, with a unit. Null, as are the other values of the day, where the days
    before it are not known by themselves."""
    day_impressions: int | None
    day_difference: float | None
    day_lower: float | None
    """Interval of the day as if it were the only one: a description, never a decision."""
    day_upper: float | None
    control_impressions: int
    """Shown up to the end of this day, with a unit."""
    impressions: int
    difference: float | None
    lower: float | None
    """Lower end of the 95 % confidence sequence at the end of this day: valid at all looks
    together."""
    upper: float | None


class ExcludedVariant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one arm lost to an exclusion."""

    variant: str
    impressions: int


class Excluded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The impressions that stretches of time left out of an experiment."""

    stretches: tuple[tuple[str, str], ...]
    """(from, to) in RFC 3339 and UTC; the end is not part of it."""
    impressions: int
    variants: tuple[ExcludedVariant, ...]
    srm: SampleRatio | None
    """Of the units left out. Null where nothing is, or the planned shares are not known."""
    words: str
    warning: str
    """Why the exclusion may bias the differences; empty where nothing speaks for it."""
    caution: str
    """What an exclusion must be for."""


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One experiment."""

    experiment: str
    control: str
    unit: str
    status: str
    """waiting (nothing has settled), running, or ended: all until its end has settled."""
    declared: bool
    planned_impressions: int
    impressions: int
    warnings: tuple[str, ...]
    srm: SampleRatio | None
    """Null where the planned shares are not known."""
    crossover_users: float
    without_control: bool
    variants: tuple[Variant, ...]
    """By name, the control first."""
    interleaving: Interleaving | None = None
    """Null without interleaved lists."""
    stratify_by: str | None = None
    """Name of the grouping by whose segments variants are compared too."""
    busiest: tuple[BusyUnit, ...] = ()
    """Units with more than 1 % of the impressions of a variant, and ten times as many as others
    have."""
    beyond_cap: int = 0
    """Impressions that are left out, because their unit had its most of the day."""
    users_since: str | None = None
    """Since when users are counted, for a change of the planned shares: they and their ratio are
    those since then. Null where they are counted from the beginning."""
    excluded: Excluded | msgspec.UnsetType = msgspec.UNSET
    """Absent where no stretch of time is excluded."""
    by_day: tuple[DayEffect, ...] | msgspec.UnsetType = msgspec.UNSET
    """By day, variant and metric. Absent where it is not asked for, or not known."""


class OverTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The effect of an experiment by UTC day of its impressions."""

    as_of: str | None
    experiment: str
    control: str
    warnings: tuple[str, ...]
    first_whole_day: str | None
    """Before this day, only the sum of all days is known: values of single days are null. Null
    where all days are known."""
    excluded: Excluded | None
    """What was left out of all that follows; null where nothing was asked for."""
    caution: str
    """Which of the intervals decides; or that interleaved lists alone have none."""
    days: tuple[DayEffect, ...]


class Findings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All experiments, by name."""

    as_of: str | None
    experiments: tuple[Finding, ...] = ()


NO_FINDINGS: Final = Findings(None)


def finite_or_none(value: float) -> float | None:
    """The value, or None where JSON cannot represent it."""
    return value if math.isfinite(value) else None


def mismatched(srm: SampleRatio | None) -> bool:
    """Whether the evidence of a sample-ratio mismatch has reached the level of an alarm."""
    return srm is not None and srm.log_evalue >= ALARM_LOG_EVALUE
