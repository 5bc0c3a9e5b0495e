"""What scores and the pipeline are judged by: the settings, and which metrics tell a change or what
it looks like. Pure.

The z-scores beyond which a score is called worse stand here too, and are no settings: the tables of
false alarms and detection times in daemon/http/runbook.md were measured with them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timezone, tzinfo
from typing import Final, Literal, TypeAlias

from relevanced.metrics import Metric

WHOLE: Final = ("all", "all")
"""The segment that contains every search."""
Urgency: TypeAlias = Literal["page", "ticket", "none"]
"""Most urgent first; of `none` nobody is told."""


@dataclass(frozen=True)
class ScoreFloor:
    """An absolute floor of one score, independent of its baseline."""

    metric: str
    grouping: str
    segment: str
    floor: float


@dataclass(frozen=True)
class ChangeSettings:
    """The settings, with their defaults. `config.changes` has the help and the bounds of each."""

    design_effect: float = 1.2
    smallest_drop_ratio: float = 0.02
    smallest_drop: float = 0.002
    smallest_sample: int = 200
    far_below_ratio: float = 0.2
    drift_ratio: float = 0.006
    weekday_drift_ratio: float = 0.02
    share_drift_ratio: float = 0.05
    feedback_share_drop_ratio: float = 0.3
    zero_results_rise_ratio: float = 0.2
    no_data_ratio: float = 0.1
    feedback_stopped_ratio: float = 0.2
    bad_feedback_rise: float = 0.02
    late_seconds: int = 600
    lag_records: int = 10_000
    rejected_ratio: float = 0.01
    dead_letters_per_hour: float = 10
    forget_after_seconds: int = 604_800
    guardrail_log_evalue: float = math.log(100)
    sample_ratio_log_evalue: float = math.log(1000)
    time_zone: tzinfo = timezone.utc
    """The local time whose hours are compared."""
    metric_drift_ratios: dict[str, float] = field(default_factory=dict)
    """Metric → its own `drift_ratio`; the others have the common one."""
    score_floors: tuple[ScoreFloor, ...] = (ScoreFloor("Success@10", "all", "all", 0.05),)

    @property
    def numbers(self) -> dict[str, float]:
        """Name → value of each setting that is one number: the samples of `relevanced_setting`."""
        values = ((entry.name, getattr(self, entry.name)) for entry in fields(self))
        return {name: float(value) for name, value in values if isinstance(value, int | float)}

    @property
    def of_judged(self) -> "ChangeSettings":
        """The settings for judged scores: those of single metrics are of feedback."""
        return replace(self, metric_drift_ratios={})

    def drift_of(self, metric: str) -> float:
        """Standard deviation of the drift of a metric from week to week, as a share of it."""
        return self.metric_drift_ratios.get(metric, self.drift_ratio)


DEFAULTS: Final = ChangeSettings()


DROPPED_HOUR: Final = -4.0
"""The last hour, where the last six hours are beyond `DROPPED_SIX_HOURS` too."""
DROPPED_SIX_HOURS: Final = -3.0
DROPPED_THREE_HOURS: Final = -4.5
"""The last three hours, where the last one is beyond `LOW_HOUR`."""
LOW_HOUR: Final = -1.5
LIKELIER: Final = 7.5
"""Natural logarithm: how much likelier a loss of `SUSPECTED_RATIO` must make the last three hours
than no loss."""
SUSPECTED_RATIO: Final = 0.1
SINKING: Final = -4.0
"""The last day."""
SINKING_STEADILY: Final = -3.7
"""The last day, where its standard error is below `STEADY_ERROR_RATIO` of the baseline: most of it
is drift then, and a day averages drift out."""
STEADY_ERROR_RATIO: Final = 0.01
FAR_BELOW: Final = -5.0
"""The last hour, where `far_below_ratio` of the baseline is lost."""


FAMILIES: Final = ("RR", "Success", "P", "ERR", "nDCG")
"""The score that tells a change is of the first of these families that fell."""
_LEADING: Final = 2
"""So many of them lead."""
POOLED: Final = "nDCG(ideal=pool"
"""A judged nDCG comes before all: what a list lacks counts in it too, as the ideal is of all that
is judged. That of feedback comes last, as its ideal is of the list alone."""


def family(metric: str) -> int:
    """The rank of a metric among those that tell a change: the least tells it."""
    if metric.startswith(POOLED):
        return -1
    name = metric.partition("@")[0].partition("(")[0]
    order = {**{known: at for at, known in enumerate(FAMILIES)}, "nDCG": len(FAMILIES) + 1}
    return order.get(name, len(FAMILIES))


def is_of_failures(metric: Metric) -> bool:
    """Whether the metric is a share of searches or items that fail."""
    return metric.direction == "down" and metric.entry.range == (0.0, 1.0)


def is_leading(metric: str) -> bool:
    """Whether a metric falls when search loses its relevant items: RR, Success, and judged nDCG."""
    return family(metric) < _LEADING


def pair(metrics: Sequence[str]) -> tuple[str | None, str | None]:
    """The deepest Success for which there is an RR of the same parameters, and that RR; else the
    deepest Success alone."""
    names = dict.fromkeys(metrics)
    successes = [name for name in names if name.startswith("Success@")]
    successes.sort(key=lambda name: -int(name.rpartition("@")[2]))
    for name in successes:
        rr = name.replace("Success", "RR", 1)
        if rr in names:
            return name, rr
    return (successes[0] if successes else None), None
