"""The form in which findings are told: of the API, of reports, and of what is exported. Pure."""

import math
from typing import Final

import msgspec

from relevanced.metrics.inference import Verdict

from .specs import Role


class SegmentFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of one variant against the control in one segment; null where it is undefined."""

    segment: str
    difference: float | None
    lower: float | None
    upper: float | None
    log_evalue: float | None
    discovery: bool
    """Whether it stands among all segments, variants and metrics of the experiment: e-BH, with a
    false discovery rate of at most 5 %."""
    verdict: Verdict
    """Of this segment, as if it were the only question."""


class Stratified(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The difference as if both arms had the same mix of segments; null where it is undefined."""

    difference: float | None
    lower: float | None
    upper: float | None
    covered: float | None
    """Share of the scored impressions in segments where both arms have some."""
    segments: tuple[SegmentFinding, ...]


class MetricFinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One metric of one variant against the control; null where it is undefined."""

    metric: str
    role: Role
    mean: float | None
    control_mean: float | None = None
    difference: float | None = None
    lower: float | None = None
    """Of the difference: holds at every look together, at 95 %."""
    upper: float | None = None
    relative_difference: float | None = None
    relative_lower: float | None = None
    relative_upper: float | None = None
    log_evalue: float | None = None
    """Natural logarithm of the evidence for any difference."""
    p_value: float | None = None
    """Always valid."""
    guardrail_log_evalue: float | None = None
    """The same of the evidence that it is worse."""
    minimum_detectable_effect: float | None = None
    """At the planned total, with a probability of 0.8."""
    design_effect: float | None = None
    further_impressions: float | None = None
    """Until a verdict, if the difference stays as it is."""
    discovery: bool | None = None
    """Whether the difference stands among all that the experiment compares: e-BH over its variants
    and metrics, with a false discovery rate of at most 5 %. Null for the control."""
    verdict: Verdict = "undecided"
    words: str = ""
    stratified: Stratified | None = None
    """Null where the experiment is not stratified."""


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One arm. The control's metrics have a mean alone."""

    variant: str
    impressions: int
    users: float
    metrics: tuple[MetricFinding, ...]


class Interleaving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lists that two rankers shared: whose items gathered more gain."""

    wins: int
    """Of the ranker that is not the control."""
    ties: int
    losses: int
    delta: float | None
    """(wins + ties / 2) / lists - 1/2."""
    lower: float | None
    """Of delta, good at every look, with users as the units."""
    upper: float | None
    log_evalue: float | None
    p_value: float | None
    sign_test_p: float
    """For one look, as if each list had a user of its own."""
    verdict: Verdict


class SampleRatio(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the users were dealt as planned."""

    log_evalue: float
    p_value: float


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One experiment."""

    experiment: str
    control: str
    unit: str
    status: str
    """waiting (nothing has settled), running, or ended."""
    declared: bool
    planned_impressions: int
    impressions: int
    warnings: tuple[str, ...]
    srm: SampleRatio | None
    """Null where it is not finite_or_none how the traffic is dealt."""
    crossover_users: float
    without_control: bool
    variants: tuple[Variant, ...]
    """By name, the control first."""
    interleaving: Interleaving | None = None
    """Null without interleaved lists."""
    stratify_by: str | None = None
    """The grouping of the segments."""


class Findings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All experiments, by name."""

    as_of: str | None
    experiments: tuple[Finding, ...] = ()


NOTHING: Final = Findings(None)


def finite_or_none(value: float) -> float | None:
    """What JSON can hold of it."""
    return value if math.isfinite(value) else None
