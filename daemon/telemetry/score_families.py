"""The families of experiments: what has settled, since each began to be counted. Pure.

The families of judged scores: windows, the last hours beside earlier ones, and the files that
graded them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .process_families import ARM, IN_SEGMENT, SEGMENT, TREATED, Family, gauge, of_process

INFO: Final = gauge(
    "experiment_info",
    ("experiment", "control", "unit"),
    "1 for each experiment: the variant that others are compared with, and the unit that is "
    "assigned to variants.",
)
METRIC_INFO: Final = gauge(
    "experiment_metric_info",
    ("experiment", "metric", "role"),
    "1 for each metric of an experiment; role is primary, secondary or guardrail.",
)
PLANNED_IMPRESSIONS: Final = gauge(
    "experiment_planned_impressions",
    ("experiment",),
    "Impressions of all variants at which the decision is due.",
)
IMPRESSIONS: Final = gauge("experiment_impressions", ARM, "Settled impressions of the variant.")
USERS: Final = gauge(
    "experiment_users",
    ARM,
    "Distinct users of the variant: exact up to 65,535, with a standard error of 0.4 % above.",
)
CROSSOVER_USERS: Final = gauge(
    "experiment_crossover_users",
    ("experiment",),
    "Users seen in two variants or more: they dilute every difference.",
)
SRM_LOG_EVALUE: Final = gauge(
    "experiment_srm_log_evalue",
    ("experiment",),
    "Natural logarithm of the evidence that users are not assigned to the variants as planned, "
    "valid at every look: alarm from 6.9, which one sound experiment in 1,000 reaches. Absent "
    "where the experiment is not declared.",
)
WITHOUT_CONTROL: Final = gauge(
    "experiment_without_control",
    ("experiment",),
    "1 where the experiment has traffic and its control has none, or no variant is the control.",
)
SCORED_IMPRESSIONS: Final = gauge(
    "experiment_scored_impressions",
    TREATED,
    "Settled impressions of the variant, control included, for which the metric is defined; the "
    "others count as its worst value: 0, or the highest where less is better.",
)
INTERLEAVING_IMPRESSIONS: Final = gauge(
    "experiment_interleaving_impressions",
    ("experiment", "outcome"),
    "Settled lists that two rankers shared (team draft): win where the items of the ranker "
    "that is not the control gathered more gain, loss where the control's did, tie elsewhere.",
)

BY_METRIC_FIELD: Final[Mapping[str, Family]] = {
    "difference": gauge(
        "experiment_difference",
        TREATED,
        "Mean of the metric in the variant less that in the control. Absent where there is too "
        "little traffic for a statement.",
    ),
    "lower": gauge(
        "experiment_lower",
        TREATED,
        "Lower end of the 95 % confidence sequence of the difference: it holds at every look "
        "together, with users, or what else is assigned to variants, as the units.",
    ),
    "upper": gauge("experiment_upper", TREATED, "Upper end of the same."),
    "relative_difference": gauge(
        "experiment_relative_difference",
        TREATED,
        "The difference as a share of the control's mean. Absent, with its bounds, where the "
        "control is too near 0 for a relative statement.",
    ),
    "relative_lower": gauge(
        "experiment_relative_lower",
        TREATED,
        "Lower end of its confidence sequence, which leaves out 0 exactly where that of the "
        "difference does.",
    ),
    "relative_upper": gauge(
        "experiment_relative_upper", TREATED, "Upper end of its confidence sequence."
    ),
    "log_evalue": gauge(
        "experiment_log_evalue",
        TREATED,
        "Natural logarithm of the evidence for any difference, valid at every look: 3.0 is a 5 % "
        "level.",
    ),
    "p_value": gauge("experiment_p_value", TREATED, "Always-valid p-value of the difference."),
    "guardrail_log_evalue": gauge(
        "experiment_guardrail_log_evalue",
        TREATED,
        "Natural logarithm of the one-sided evidence that the variant is worse, valid at every "
        "look. Absent for a metric without a direction.",
    ),
    "minimum_detectable_effect": gauge(
        "experiment_minimum_detectable_effect",
        TREATED,
        "Least true difference that is detected at the planned total with a probability of 0.8.",
    ),
    "design_effect": gauge(
        "experiment_design_effect",
        TREATED,
        "Factor by which the variance grows because impressions of one user are alike.",
    ),
    "mean": gauge(
        "experiment_score",
        TREATED,
        "Mean of the metric over all impressions of the variant that have a unit, control "
        "included.",
    ),
    "discovery": gauge(
        "experiment_discovery",
        TREATED,
        "1 where the difference holds up among all that the experiment compares: e-BH over its "
        "variants and metrics, with a false discovery rate of at most 5 %. Absent while users are "
        "not assigned as planned.",
    ),
}
"""Field of a metric's finding → its family."""

BY_DEFINED_FIELD: Final[Mapping[str, Family]] = {
    "mean": gauge(
        "experiment_defined_score",
        TREATED,
        "Mean of the metric over those lists of the variant for which it is defined. Absent where "
        "it is defined for all lists of variant and control.",
    ),
    "difference": gauge(
        "experiment_defined_difference",
        TREATED,
        "Mean over defined lists in the variant less that in the control. Which lists are defined "
        "is itself a result of the treatment: no verdict follows.",
    ),
    "lower": gauge(
        "experiment_defined_lower", TREATED, "Lower end of the confidence sequence of the same."
    ),
    "upper": gauge("experiment_defined_upper", TREATED, "Upper end of the same."),
    "shares_differ": gauge(
        "experiment_defined_shares_differ",
        TREATED,
        "1 where the share of defined lists is known to differ from that of the control.",
    ),
}
"""Field of the comparison over defined lists → its family."""

BY_STRATIFIED_FIELD: Final[Mapping[str, Family]] = {
    "difference": gauge(
        "experiment_stratified_difference",
        TREATED,
        "The difference as if both arms had the same mix of the segments of stratify_by: what is "
        "left when the arms' traffic differs.",
    ),
    "lower": gauge("experiment_stratified_lower", TREATED, "Lower end of its confidence sequence."),
    "upper": gauge("experiment_stratified_upper", TREATED, "Upper end of its confidence sequence."),
    "covered": gauge(
        "experiment_stratified_share",
        TREATED,
        "Share of the impressions that it covers: in segments where both arms have at least 16 "
        "effective buckets of users. Below a half there is no difference.",
    ),
}
"""Field of the difference under a common mix of segments → its family."""

BY_SEGMENT_FIELD: Final[Mapping[str, Family]] = {
    "difference": gauge(
        "experiment_segment_difference",
        IN_SEGMENT,
        "Mean of the metric in the variant less that in the control, within a segment of "
        "stratify_by. Absent where there is too little traffic for a statement.",
    ),
    "lower": gauge("experiment_segment_lower", IN_SEGMENT, "Lower end of its confidence sequence."),
    "upper": gauge("experiment_segment_upper", IN_SEGMENT, "Upper end of its confidence sequence."),
    "discovery": gauge(
        "experiment_segment_discovery",
        IN_SEGMENT,
        "1 where the segment's difference holds up among all segments, variants and metrics of "
        "the experiment: e-BH, with a false discovery rate of at most 5 %.",
    ),
}
"""Field of a segment's finding → its family."""

BY_INTERLEAVING_FIELD: Final[Mapping[str, Family]] = {
    "delta": gauge(
        "experiment_interleaving_preference",
        ("experiment",),
        "(wins + ties / 2) / lists - 1/2: above 0 where users prefer the ranker that is not the "
        "control, from -0.5 to 0.5.",
    ),
    "lower": gauge(
        "experiment_interleaving_lower",
        ("experiment",),
        "Lower end of the 95 % confidence sequence of the preference: it holds at every look "
        "together, with users, or what else is assigned, as the units. Absent with too few.",
    ),
    "upper": gauge("experiment_interleaving_upper", ("experiment",), "Upper end of the same."),
    "log_evalue": gauge(
        "experiment_interleaving_log_evalue",
        ("experiment",),
        "Natural logarithm of the evidence for any preference, valid at every look: 3.0 is a 5 % "
        "level.",
    ),
}
"""Field of the comparison of interleaved lists → its family."""

OF_EXPERIMENTS: Final = (
    INFO,
    METRIC_INFO,
    PLANNED_IMPRESSIONS,
    IMPRESSIONS,
    USERS,
    CROSSOVER_USERS,
    SRM_LOG_EVALUE,
    WITHOUT_CONTROL,
    SCORED_IMPRESSIONS,
    *BY_METRIC_FIELD.values(),
    *BY_DEFINED_FIELD.values(),
    *BY_STRATIFIED_FIELD.values(),
    *BY_SEGMENT_FIELD.values(),
    INTERLEAVING_IMPRESSIONS,
    *BY_INTERLEAVING_FIELD.values(),
)


_LABELS: Final = (*SEGMENT, "window")
_IN_WINDOW: Final = (
    "over the window that ends where judged scores are final, which wait for no feedback"
)
_SINCE: Final = "A window that is longer than the file has been in force begins with it."
_RECENT: Final = f"{_IN_WINDOW}. Absent where the file began within the window, or lanes disagree"
_BASELINE: Final = (
    "over the same period of the last three weeks on average; of the last days, or hours, while "
    "the file has not been in force for so long. Absent without hours that the same file graded"
)

JUDGED_SCORE: Final = gauge(
    "judged_score",
    ("metric", *_LABELS),
    "Mean of the metric by the judgements in force, over the impressions whose query they judge, "
    f"{_IN_WINDOW}. {_SINCE} Another measure than relevanced_score, also under the same name.",
)
JUDGED_SCORE_STDERR: Final = gauge(
    "judged_score_stderr",
    ("metric", *_LABELS),
    "Standard error of relevanced_judged_score, as if impressions were independent. Absent below "
    "two scored impressions.",
)
JUDGED_SCORED_IMPRESSIONS: Final = gauge(
    "judged_scored_impressions",
    ("metric", *_LABELS),
    "Impressions that relevanced_judged_score is the mean of.",
)
JUDGED_IMPRESSIONS: Final = gauge(
    "judged_impressions", _LABELS, f"Impressions whose query is judged, {_IN_WINDOW}. {_SINCE}"
)
JUDGED_ITEMS_SHARE: Final = gauge(
    "judged_items_share",
    _LABELS,
    "Share of the first places of their lists, as deep as the deepest judged metric, whose item "
    'is judged. Below 0.6 a judged score says little; with judgements.unjudged = "zero" it is a '
    "lower bound.",
)
JUDGED_UNTIL: Final = gauge(
    "judged_until_timestamp_seconds",
    (),
    "Event time at which the windows of judged scores end: all before is final.",
)
JUDGED_SINCE: Final = gauge(
    "judged_since_timestamp_seconds",
    (),
    "Event time since when all lanes have graded by the files of now: nothing before is compared "
    "with what follows. Absent where no file is in force.",
)
JUDGEMENTS_MIXED: Final = gauge(
    "judgements_mixed",
    (),
    "1 while the lanes grade by different files, because some refused one: judged scores are shown "
    "and compared with nothing. Absent where no file is in force.",
)
JUDGEMENTS_REFUSED: Final = gauge(
    "judgements_refused_lanes",
    ("name", "start"),
    "Lanes that refused this file of judgements, because they had read an event that it would have "
    "graded before they could know it.",
)
JUDGED_BASELINE_PERIODS: Final = gauge(
    "judged_baseline_periods",
    ("window", "unit"),
    "How many earlier weeks, days or hours the baseline of judged scores is averaged over.",
)
JUDGEMENTS_INFO: Final = of_process(
    "judgements_info",
    "gauge",
    ("name", "sha256", "start"),
    "1 for each file of judgements that is in force by the clock or starts later, and that this "
    "process has read: processes must have the same, or their lanes may grade differently.",
)


@dataclass(frozen=True)
class JudgedPeriod:
    """The families of one side of the comparison."""

    score: Family
    score_stderr: Family
    scored_impressions: Family
    impressions: Family
    items_share: Family

    @property
    def all(self) -> tuple[Family, ...]:
        """Every family of this side, in the order of the table."""
        of_scores = (self.score, self.score_stderr, self.scored_impressions)
        return (*of_scores, self.impressions, self.items_share)


def _families(side: str, when: str) -> JudgedPeriod:
    score = gauge(
        f"{side}_judged_score", ("metric", *_LABELS), f"Mean of the judged metric {when}."
    )
    return JudgedPeriod(
        score=score,
        score_stderr=gauge(
            f"{side}_judged_score_stderr",
            ("metric", *_LABELS),
            f"Standard error of {score.name}, as if impressions were independent. That of a mean "
            "of three periods or more is not below the standard error of their differences.",
        ),
        scored_impressions=gauge(
            f"{side}_judged_scored_impressions",
            ("metric", *_LABELS),
            f"Impressions for which the judged metric is defined, {when}.",
        ),
        impressions=gauge(
            f"{side}_judged_impressions", _LABELS, f"Impressions whose query is judged, {when}."
        ),
        items_share=gauge(
            f"{side}_judged_items_share",
            _LABELS,
            f"Share of the first places of their lists whose item is judged, {when}.",
        ),
    )


JUDGED_RECENT: Final = _families("recent", _RECENT)
JUDGED_BASELINE: Final = _families("baseline", _BASELINE)

OF_JUDGED: Final = (
    JUDGED_SCORE,
    JUDGED_SCORE_STDERR,
    JUDGED_SCORED_IMPRESSIONS,
    JUDGED_IMPRESSIONS,
    JUDGED_ITEMS_SHARE,
    *JUDGED_RECENT.all,
    *JUDGED_BASELINE.all,
    JUDGED_BASELINE_PERIODS,
    JUDGED_UNTIL,
    JUDGED_SINCE,
    JUDGEMENTS_MIXED,
    JUDGEMENTS_REFUSED,
)
"""Of the snapshot; JUDGEMENTS_INFO is of each process."""
