"""The one table of what Prometheus sees: every family of series, its type, its labels and its help.

The snapshot's families describe all the traffic and come from one process, the process's families
from each one. Dashboards, rules and both renderers are held to this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from relevanced.daemon.series_of_time import of_time

Kind: TypeAlias = Literal["gauge", "counter", "histogram", "info"]
Source: TypeAlias = Literal["snapshot", "process"]

SEGMENT: Final = ("grouping", "segment")
"""Followed by one label per attribute of the grouping."""
VIEW: Final = ("window", "view")
ARM: Final = ("experiment", "variant")
TREATED: Final = (*ARM, "metric")
IN_SEGMENT: Final = (*TREATED, *SEGMENT)
SCORE: Final = ("metric", *SEGMENT, *VIEW)


@dataclass(frozen=True)
class Family:
    """One family of series. A counter's name carries its `_total`, an info's its `_info`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    source: Source = "snapshot"


def _gauge(name: str, labels: tuple[str, ...], text: str) -> Family:
    return Family(f"relevanced_{name}", "gauge", labels, text)


def _counter(name: str, labels: tuple[str, ...], text: str) -> Family:
    return Family(f"relevanced_{name}_total", "counter", labels, text)


def _process(name: str, kind: Kind, labels: tuple[str, ...], text: str) -> Family:
    return Family(f"relevanced_{name}", kind, labels, text, "process")


_IN_VIEW: Final = (
    "View live: up to now, still gathering feedback; view settled: complete, as long ago as "
    "feedback is waited for."
)
_SETTLED: Final = (
    "of impressions that no feedback can change any more. Counted when they settle, not when they "
    "happen."
)

FAMILIES: Final = (
    # Gauges over sliding windows of event time.
    _gauge(
        "score",
        SCORE,
        "Mean of the search-quality metric over the impressions of the window; the mean of RR is "
        f"what is called MRR. Absent where no impression has a defined value. {_IN_VIEW}",
    ),
    _gauge(
        "score_stderr",
        SCORE,
        "Standard error of relevanced_score, as if impressions were independent: too small where "
        "few users make many of them. Absent below two scored impressions.",
    ),
    _gauge(
        "scored_impressions",
        SCORE,
        "Impressions of the window for which the metric is defined: those that relevanced_score "
        "is the mean of. relevanced_impressions less these were left out as undefined.",
    ),
    _gauge("impressions", (*SEGMENT, *VIEW), f"Impressions in the window. {_IN_VIEW}"),
    _gauge(
        "impressions_with_feedback",
        (*SEGMENT, *VIEW),
        "Impressions of the window with feedback on at least one item.",
    ),
    _gauge(
        "zero_result_impressions",
        (*SEGMENT, *VIEW),
        "Impressions of the window whose result list is empty.",
    ),
    _gauge("feedback", (*SEGMENT, *VIEW), "Items with feedback, over the window's impressions."),
    _gauge(
        "ips_items",
        (*SEGMENT, *VIEW),
        "Items with a gain, over the window's impressions, at the ranks that the metrics weighed "
        "by inverse propensities count: those on a surface whose propensities are configured.",
    ),
    _gauge(
        "ips_effective_sample_size",
        (*SEGMENT, *VIEW),
        "How many items of equal weight would tell as much as relevanced_ips_items do.",
    ),
    _gauge(
        "ips_clipped_share",
        (*SEGMENT, *VIEW),
        "Share of relevanced_ips_items whose weight was cut: above a few percent the weighed "
        "metrics lean to the top ranks. Absent without items.",
    ),
    _gauge(
        "propensities_info",
        ("surface", "version"),
        "1 for each table of propensities: numbers of two versions do not compare.",
    ),
    _gauge(
        "window_end_timestamp_seconds",
        VIEW,
        "Event time at which the window ends: its events up to here have been read. Far behind "
        "the clock means that the pipeline is late.",
    ),
    _gauge(
        "window_incomplete",
        VIEW,
        "1 where the window is left out because a lane that is far ahead of the slowest no longer "
        "keeps a part of it.",
    ),
    # The last hours, and what is usual for them.
    *(_gauge(*of_time) for of_time in of_time(SEGMENT)),
    _gauge(
        "baseline_periods",
        ("window", "unit"),
        "How many earlier weeks, or days, the usual values of the window are averages over.",
    ),
    # Counters of what has settled.
    _counter(
        "settled_score_sum",
        ("metric", *SEGMENT),
        f"Sum of the metric {_SETTLED} Divided by relevanced_settled_scored_impressions_total it "
        "is the mean.",
    ),
    _counter(
        "settled_score_squares",
        ("metric", *SEGMENT),
        f"Sum of the squared metric, for standard deviations, {_SETTLED}",
    ),
    _counter(
        "settled_scored_impressions",
        ("metric", *SEGMENT),
        f"Number, as far as the metric is defined, {_SETTLED}",
    ),
    _counter("settled_impressions", SEGMENT, f"Number {_SETTLED}"),
    _counter(
        "settled_impressions_with_feedback",
        SEGMENT,
        f"Number, with feedback on at least one item, {_SETTLED}",
    ),
    _counter(
        "settled_zero_result_impressions",
        SEGMENT,
        f"Number, with an empty result list, {_SETTLED}",
    ),
    _counter("settled_feedback", SEGMENT, f"Items with feedback {_SETTLED}"),
    # Counters of events, as stored with the lanes.
    _counter("events", ("kind",), "Impression and feedback records that were read and understood."),
    _counter(
        "rejected_events",
        ("reason",),
        "Records that were refused or skipped, by reason (tombstone and no_list are legitimate: "
        "only skipped).",
    ),
    _counter(
        "dropped_attribute_values",
        ("reason",),
        "Values of attributes and experiments that impressions count without, by reason: "
        "long_value, long_name (256 bytes are allowed), bad_value (no text, number or boolean). "
        "The segment of the impression is (none) there.",
    ),
    _counter(
        "impression_outcomes",
        ("outcome",),
        "What became of impression records. Only accepted ones are new impressions.",
    ),
    _counter(
        "feedback_outcomes",
        ("outcome",),
        "What became of feedback. rank_mismatch is counted beside joined; unjoined never found "
        "its impression.",
    ),
    _counter(
        "segment_overflow",
        ("grouping",),
        "Impressions whose segment found no place and that count in segment other.",
    ),
    _counter(
        "gap_records",
        ("topic",),
        "Records that Kafka deleted before they were read: they are missing from every number.",
    ),
    _counter(
        "experiment_overflow_impressions",
        ("place",),
        "Settled impressions that count in no arm: their experiment, or variant, found no place.",
    ),
    # Experiments: what has settled, since the experiment began to be counted.
    _gauge(
        "experiment_info",
        ("experiment", "control", "unit"),
        "1 for each experiment: the variant that others are compared with, and whom variants are "
        "dealt to.",
    ),
    _gauge(
        "experiment_metric_info",
        ("experiment", "metric", "role"),
        "1 for each metric of an experiment; role is primary, secondary or guardrail.",
    ),
    _gauge(
        "experiment_planned_impressions",
        ("experiment",),
        "Impressions of all variants at which the decision is due.",
    ),
    _gauge("experiment_impressions", ARM, "Settled impressions of the variant."),
    _gauge(
        "experiment_users",
        ARM,
        "Different users of the variant: exact up to 65,535 a lane, then within 0.4 %.",
    ),
    _gauge(
        "experiment_crossover_users",
        ("experiment",),
        "Users seen in two variants or more: they dilute every difference.",
    ),
    _gauge(
        "experiment_srm_log_evalue",
        ("experiment",),
        "Natural logarithm of the evidence that users are not dealt to the variants as planned, "
        "good at every look: alarm from 6.9, one sound experiment in 1,000. Absent where nobody "
        "declared the experiment.",
    ),
    _gauge(
        "experiment_without_control",
        ("experiment",),
        "1 where the experiment has traffic and its control has none, or is not known.",
    ),
    _gauge("experiment_score", TREATED, "Mean of the metric in the variant, control included."),
    _gauge(
        "experiment_difference",
        TREATED,
        "Mean of the metric in the variant less that in the control. Absent where there is too "
        "little traffic for a statement.",
    ),
    _gauge(
        "experiment_lower",
        TREATED,
        "Lower end of the 95 % confidence sequence of the difference: it holds at every look "
        "together, with users as the units.",
    ),
    _gauge("experiment_upper", TREATED, "Upper end of the same."),
    _gauge(
        "experiment_relative_difference",
        TREATED,
        "The difference as a share of the control's mean.",
    ),
    _gauge("experiment_relative_lower", TREATED, "Lower end of its confidence sequence."),
    _gauge("experiment_relative_upper", TREATED, "Upper end of its confidence sequence."),
    _gauge(
        "experiment_log_evalue",
        TREATED,
        "Natural logarithm of the evidence for any difference, good at every look: 3.0 is a 5 % "
        "level.",
    ),
    _gauge("experiment_p_value", TREATED, "Always-valid p-value of the difference."),
    _gauge(
        "experiment_guardrail_log_evalue",
        TREATED,
        "Natural logarithm of the one-sided evidence that the variant is worse, good at every "
        "look. Absent for a metric without a direction.",
    ),
    _gauge(
        "experiment_minimum_detectable_effect",
        TREATED,
        "Least true difference that the planned total finds with a probability of 0.8.",
    ),
    _gauge(
        "experiment_design_effect",
        TREATED,
        "How many times as large the variance is for users' impressions being alike.",
    ),
    _gauge(
        "experiment_discovery",
        TREATED,
        "1 where the difference stands among all that the experiment compares: e-BH over its "
        "variants and metrics, with a false discovery rate of at most 5 %.",
    ),
    _gauge(
        "experiment_stratified_difference",
        TREATED,
        "The difference as if both arms had the same mix of the segments of stratify_by: what is "
        "left when the arms' traffic differs.",
    ),
    _gauge("experiment_stratified_lower", TREATED, "Lower end of its confidence sequence."),
    _gauge("experiment_stratified_upper", TREATED, "Upper end of its confidence sequence."),
    _gauge(
        "experiment_stratified_share",
        TREATED,
        "Share of the scored impressions that it covers: in segments where both arms have some.",
    ),
    _gauge(
        "experiment_segment_difference",
        IN_SEGMENT,
        "Mean of the metric in the variant less that in the control, within a segment of "
        "stratify_by. Absent where there is too little traffic for a statement.",
    ),
    _gauge("experiment_segment_lower", IN_SEGMENT, "Lower end of its confidence sequence."),
    _gauge("experiment_segment_upper", IN_SEGMENT, "Upper end of its confidence sequence."),
    _gauge(
        "experiment_segment_discovery",
        IN_SEGMENT,
        "1 where the segment's difference stands among all segments, variants and metrics of the "
        "experiment: e-BH, with a false discovery rate of at most 5 %.",
    ),
    _gauge(
        "experiment_interleaving_impressions",
        ("experiment", "outcome"),
        "Settled lists that two rankers shared (team draft): win where the items of the ranker "
        "that is not the control gathered more gain, loss where the control's did, tie elsewhere.",
    ),
    _gauge(
        "experiment_interleaving_preference",
        ("experiment",),
        "(wins + ties / 2) / lists - 1/2: above 0 where users prefer the ranker that is not the "
        "control, from -0.5 to 0.5.",
    ),
    _gauge(
        "experiment_interleaving_lower",
        ("experiment",),
        "Lower end of the 95 % confidence sequence of the preference: it holds at every look "
        "together, with users as the units. Absent with too few users.",
    ),
    _gauge("experiment_interleaving_upper", ("experiment",), "Upper end of the same."),
    _gauge(
        "experiment_interleaving_log_evalue",
        ("experiment",),
        "Natural logarithm of the evidence for any preference, good at every look: 3.0 is a 5 % "
        "level.",
    ),
    # Lanes.
    _gauge(
        "as_of_timestamp_seconds",
        (),
        "Event time up to which every lane is known: the live windows end here.",
    ),
    _gauge(
        "lane_time_timestamp_seconds",
        ("lane",),
        "Event time up to which the lane is known. The lane with the least holds all windows back.",
    ),
    _gauge(
        "lane_watermark_timestamp_seconds",
        ("lane",),
        "Event time by which the lane judges lateness and settles: the least over its topics.",
    ),
    # Each process, of itself.
    _process(
        "build_info",
        "info",
        ("version", "python"),
        "The program that runs here.",
    ),
    _process(
        "batch_duration_seconds",
        "histogram",
        (),
        "Time to decode, attribute, score and commit one batch.",
    ),
    _process("commits_total", "counter", ("outcome",), "Commits to Redis by how they ended."),
    _process(
        "lag_records",
        "gauge",
        ("topic", "partition"),
        "Records in Kafka behind the next one to read.",
    ),
    _process(
        "partition_watermark_timestamp_seconds",
        "gauge",
        ("topic", "partition"),
        "Highest event time read of the partition. A topic that stays silent holds its lanes' "
        "settling back.",
    ),
    _process(
        "last_poll_timestamp_seconds",
        "gauge",
        (),
        "When Kafka last answered a fetch, for the partition that waits longest; 0 is never.",
    ),
    _process(
        "partition_unreadable",
        "gauge",
        ("topic", "partition"),
        "1 where the partition cannot be read (a damaged batch, an unknown codec, no permission): "
        "the log says why, and what to do.",
    ),
    _process(
        "kafka_faults_total",
        "counter",
        ("fault",),
        "What was wrong with the input topics, each time it was met; the log says more.",
    ),
    _process(
        "event_loop_stall_seconds",
        "gauge",
        (),
        "Longest time within the last minute that the event loop kept others waiting.",
    ),
    _process(
        "memory_bound_bytes",
        "gauge",
        (),
        "Memory of a worker at which it reads no more; +Inf where there is no bound.",
    ),
    _process(
        "memory_bound_met",
        "gauge",
        (),
        "1 while the memory bound is met: nothing is read, and nothing is lost.",
    ),
    _process("open_impressions", "gauge", ("lane",), "Impressions that feedback can still change."),
    _process(
        "waiting_feedback", "gauge", ("lane",), "Feedback that waits for its impression or item."
    ),
    _process("owned_lanes", "gauge", (), "Lanes that this process writes."),
    _process(
        "lane_stopped",
        "gauge",
        ("lane",),
        "1 where the lane cannot go on without help, as after its topic was created anew.",
    ),
    _process(
        "wrong_lane_feedback_total",
        "counter",
        (),
        "Unjoined feedback, of those sampled, whose impression is in another lane: producers "
        "disagree on key or partitioner.",
    ),
    _process(
        "dead_letters_total", "counter", (), "Refused records that the dead-letter topic took."
    ),
    _process(
        "redis_may_evict_state",
        "gauge",
        ("policy",),
        "1 where the maxmemory-policy of Redis lets it remove keys that do not expire, and so "
        "lose numbers.",
    ),
    _process(
        "exporter_lease_held",
        "gauge",
        (),
        "1 in the one process that serves the series of all the traffic.",
    ),
    _process(
        "snapshot_timestamp_seconds",
        "gauge",
        (),
        "When this process last made a snapshot; 0 is never.",
    ),
    _process(
        "snapshot_duration_seconds",
        "gauge",
        (),
        "Time to read, sum and render the last snapshot.",
    ),
    _process("snapshot_errors_total", "counter", (), "Snapshots that failed."),
)

BY_NAME: Final[Mapping[str, Family]] = {family.name: family for family in FAMILIES}
