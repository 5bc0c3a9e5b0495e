"""The families of experiments: what has settled, since each began to be counted."""

from typing import Final

from .family import ARM, IN_SEGMENT, TREATED, gauge

OF_EXPERIMENTS: Final = (
    gauge(
        "experiment_info",
        ("experiment", "control", "unit"),
        "1 for each experiment: the variant that others are compared with, and whom variants are "
        "dealt to.",
    ),
    gauge(
        "experiment_metric_info",
        ("experiment", "metric", "role"),
        "1 for each metric of an experiment; role is primary, secondary or guardrail.",
    ),
    gauge(
        "experiment_planned_impressions",
        ("experiment",),
        "Impressions of all variants at which the decision is due.",
    ),
    gauge("experiment_impressions", ARM, "Settled impressions of the variant."),
    gauge(
        "experiment_users",
        ARM,
        "Different users of the variant: exact up to 65,535 a lane, then within 0.4 %.",
    ),
    gauge(
        "experiment_crossover_users",
        ("experiment",),
        "Users seen in two variants or more: they dilute every difference.",
    ),
    gauge(
        "experiment_srm_log_evalue",
        ("experiment",),
        "Natural logarithm of the evidence that users are not dealt to the variants as planned, "
        "good at every look: alarm from 6.9, one sound experiment in 1,000. Absent where nobody "
        "declared the experiment.",
    ),
    gauge(
        "experiment_without_control",
        ("experiment",),
        "1 where the experiment has traffic and its control has none, or is not known.",
    ),
    gauge("experiment_score", TREATED, "Mean of the metric in the variant, control included."),
    gauge(
        "experiment_difference",
        TREATED,
        "Mean of the metric in the variant less that in the control. Absent where there is too "
        "little traffic for a statement.",
    ),
    gauge(
        "experiment_lower",
        TREATED,
        "Lower end of the 95 % confidence sequence of the difference: it holds at every look "
        "together, with users as the units.",
    ),
    gauge("experiment_upper", TREATED, "Upper end of the same."),
    gauge(
        "experiment_relative_difference",
        TREATED,
        "The difference as a share of the control's mean.",
    ),
    gauge("experiment_relative_lower", TREATED, "Lower end of its confidence sequence."),
    gauge("experiment_relative_upper", TREATED, "Upper end of its confidence sequence."),
    gauge(
        "experiment_log_evalue",
        TREATED,
        "Natural logarithm of the evidence for any difference, good at every look: 3.0 is a 5 % "
        "level.",
    ),
    gauge("experiment_p_value", TREATED, "Always-valid p-value of the difference."),
    gauge(
        "experiment_guardrail_log_evalue",
        TREATED,
        "Natural logarithm of the one-sided evidence that the variant is worse, good at every "
        "look. Absent for a metric without a direction.",
    ),
    gauge(
        "experiment_minimum_detectable_effect",
        TREATED,
        "Least true difference that the planned total finds with a probability of 0.8.",
    ),
    gauge(
        "experiment_design_effect",
        TREATED,
        "How many times as large the variance is for users' impressions being alike.",
    ),
    gauge(
        "experiment_discovery",
        TREATED,
        "1 where the difference stands among all that the experiment compares: e-BH over its "
        "variants and metrics, with a false discovery rate of at most 5 %.",
    ),
    gauge(
        "experiment_stratified_difference",
        TREATED,
        "The difference as if both arms had the same mix of the segments of stratify_by: what is "
        "left when the arms' traffic differs.",
    ),
    gauge("experiment_stratified_lower", TREATED, "Lower end of its confidence sequence."),
    gauge("experiment_stratified_upper", TREATED, "Upper end of its confidence sequence."),
    gauge(
        "experiment_stratified_share",
        TREATED,
        "Share of the scored impressions that it covers: in segments where both arms have some.",
    ),
    gauge(
        "experiment_segment_difference",
        IN_SEGMENT,
        "Mean of the metric in the variant less that in the control, within a segment of "
        "stratify_by. Absent where there is too little traffic for a statement.",
    ),
    gauge("experiment_segment_lower", IN_SEGMENT, "Lower end of its confidence sequence."),
    gauge("experiment_segment_upper", IN_SEGMENT, "Upper end of its confidence sequence."),
    gauge(
        "experiment_segment_discovery",
        IN_SEGMENT,
        "1 where the segment's difference stands among all segments, variants and metrics of the "
        "experiment: e-BH, with a false discovery rate of at most 5 %.",
    ),
    gauge(
        "experiment_interleaving_impressions",
        ("experiment", "outcome"),
        "Settled lists that two rankers shared (team draft): win where the items of the ranker "
        "that is not the control gathered more gain, loss where the control's did, tie elsewhere.",
    ),
    gauge(
        "experiment_interleaving_preference",
        ("experiment",),
        "(wins + ties / 2) / lists - 1/2: above 0 where users prefer the ranker that is not the "
        "control, from -0.5 to 0.5.",
    ),
    gauge(
        "experiment_interleaving_lower",
        ("experiment",),
        "Lower end of the 95 % confidence sequence of the preference: it holds at every look "
        "together, with users as the units. Absent with too few users.",
    ),
    gauge("experiment_interleaving_upper", ("experiment",), "Upper end of the same."),
    gauge(
        "experiment_interleaving_log_evalue",
        ("experiment",),
        "Natural logarithm of the evidence for any preference, good at every look: 3.0 is a 5 % "
        "level.",
    ),
)
