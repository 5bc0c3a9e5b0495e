"""The settings that scores and the pipeline are judged by: what depends on preference or on the
traffic of a site. Pure.

The thresholds of z are not among them: see `thresholds`.
"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Final


@dataclass(frozen=True)
class ScoreFloor:
    """An absolute floor of one score, independent of its baseline."""

    metric: str
    grouping: str
    segment: str
    floor: float


@dataclass(frozen=True)
class Judging:
    """The settings, with their defaults. `config.judging` has the help and the bounds of each."""

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
    metric_drift_ratios: dict[str, float] = field(default_factory=dict)
    """Metric → its own `drift_ratio`; the others have the common one."""
    score_floors: tuple[ScoreFloor, ...] = (ScoreFloor("Success@10", "all", "all", 0.05),)

    @property
    def numbers(self) -> dict[str, float]:
        """Name → value of each setting that is one number: the samples of `relevanced_setting`."""
        values = ((entry.name, getattr(self, entry.name)) for entry in fields(self))
        return {name: float(value) for name, value in values if isinstance(value, int | float)}

    @property
    def of_judged(self) -> "Judging":
        """The settings for judged scores: those of single metrics are of feedback."""
        return replace(self, metric_drift_ratios={})

    def drift_of(self, metric: str) -> float:
        """Standard deviation of the drift of a metric from week to week, as a share of it."""
        return self.metric_drift_ratios.get(metric, self.drift_ratio)


DEFAULTS: Final = Judging()
