"""The one table of what Prometheus sees: every family of series, its type, its labels and its help.
Pure.

The snapshot's families describe all the traffic and come from one process, the process's families
from each one. Tests compare dashboards, rules and both renderers with this table.

The families of the last hours and of their baselines, the same nine for each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .process_families import (
    OF_CHANGES,
    OF_FILES,
    OF_LAYOUTS,
    OF_PROCESSES,
    OF_QUERIES,
    SCORE,
    SEGMENT,
    VIEW,
    Family,
    counter,
    gauge,
)
from .score_families import JUDGEMENTS_INFO, OF_EXPERIMENTS, OF_JUDGED

_RECENT: Final = "over the window that ends where no feedback can change it any more"
_BASELINE: Final = (
    "over the same period of the last three weeks (of the last days, while there are no weeks "
    "yet), on average, outages left out"
)


@dataclass(frozen=True)
class PeriodFamilies:
    """The families of one side of the comparison."""

    score: Family
    score_stderr: Family
    scored_impressions: Family
    counts: tuple[Family, Family, Family, Family]
    """Of impressions, of those with feedback, of those without a result, and of items with
    feedback."""
    list_length: Family
    list_length_stderr: Family

    @property
    def all(self) -> tuple[Family, ...]:
        """Every family of this side, in the order of the table."""
        of_scores = (self.score, self.score_stderr, self.scored_impressions)
        return (*of_scores, *self.counts, self.list_length, self.list_length_stderr)


def _families(side: str, when: str) -> PeriodFamilies:
    labels = (*SEGMENT, "window")
    score = gauge(
        f"{side}_score", ("metric", *labels), f"Mean of the search-quality metric {when}."
    )
    length = gauge(
        f"{side}_list_length",
        labels,
        f"Mean number of items of a result list, empty lists and later pages included, {when}.",
    )
    return PeriodFamilies(
        score=score,
        score_stderr=gauge(
            f"{side}_score_stderr",
            ("metric", *labels),
            f"Standard error of {score.name}, as if impressions were independent. That of a "
            "mean of three periods or more is not below the standard error of their differences.",
        ),
        scored_impressions=gauge(
            f"{side}_scored_impressions",
            ("metric", *labels),
            f"Impressions for which the metric is defined, {when}.",
        ),
        counts=(
            gauge(f"{side}_impressions", labels, f"Impressions {when}."),
            gauge(
                f"{side}_impressions_with_feedback", labels, f"Impressions with feedback {when}."
            ),
            gauge(
                f"{side}_zero_result_impressions", labels, f"Impressions without a result {when}."
            ),
            gauge(f"{side}_feedback", labels, f"Items with feedback {when}."),
        ),
        list_length=length,
        list_length_stderr=gauge(
            f"{side}_list_length_stderr",
            labels,
            f"Standard error of {length.name}, as that of a score is computed.",
        ),
    )


RECENT: Final = _families("recent", _RECENT)
BASELINE: Final = _families("baseline", _BASELINE)


_IN_VIEW: Final = (
    "View live: up to now, still gathering feedback; view settled: complete, as long ago as "
    "feedback is waited for."
)
_SETTLED: Final = (
    "of impressions that no feedback can change any more. Counted when they settle, not when they "
    "happen."
)

# Gauges over sliding windows of event time.
SCORE_MEAN: Final = gauge(
    "score",
    SCORE,
    "Mean of the search-quality metric over the impressions of the window; the mean of RR is "
    f"what is called MRR. Absent where no impression has a defined value. {_IN_VIEW}",
)
SCORE_STDERR: Final = gauge(
    "score_stderr",
    SCORE,
    "Standard error of relevanced_score, as if impressions were independent: too small where "
    "few users make many of them. Absent below two scored impressions.",
)
SCORED_IMPRESSIONS: Final = gauge(
    "scored_impressions",
    SCORE,
    "Impressions of the window for which the metric is defined: those that relevanced_score "
    "is the mean of. relevanced_impressions less these were left out as undefined.",
)
IMPRESSIONS: Final = gauge(
    "impressions", (*SEGMENT, *VIEW), f"Impressions in the window. {_IN_VIEW}"
)
IMPRESSIONS_WITH_FEEDBACK: Final = gauge(
    "impressions_with_feedback",
    (*SEGMENT, *VIEW),
    "Impressions of the window with feedback on at least one item.",
)
ZERO_RESULT_IMPRESSIONS: Final = gauge(
    "zero_result_impressions",
    (*SEGMENT, *VIEW),
    "Impressions of the window whose result list is empty.",
)
FEEDBACK: Final = gauge(
    "feedback", (*SEGMENT, *VIEW), "Items with feedback, over the window's impressions."
)
IPS_ITEMS: Final = gauge(
    "ips_items",
    (*SEGMENT, *VIEW),
    "Items with a gain, over the window's impressions, at the ranks that the metrics weighted "
    "by inverse propensities count: those on a surface whose propensities are configured.",
)
IPS_EFFECTIVE_SAMPLE_SIZE: Final = gauge(
    "ips_effective_sample_size",
    (*SEGMENT, *VIEW),
    "How many items of equal weight would be as much evidence as relevanced_ips_items are.",
)
IPS_CLIPPED_SHARE: Final = gauge(
    "ips_clipped_share",
    (*SEGMENT, *VIEW),
    "Share of relevanced_ips_items whose weight was clipped: above a few percent the weighted "
    "metrics are biased towards the top ranks. Absent without items.",
)
PROPENSITIES_INFO: Final = gauge(
    "propensities_info",
    ("surface", "version"),
    "1 for each table of propensities: weighted scores of two versions cannot be compared.",
)
WINDOW_END: Final = gauge(
    "window_end_timestamp_seconds",
    VIEW,
    "Event time at which the window ends: its events up to here have been read. Far behind "
    "the clock means that the pipeline is late.",
)
WINDOW_INCOMPLETE: Final = gauge(
    "window_incomplete",
    VIEW,
    "1 where the window is left out because a lane that is far ahead of the slowest no longer "
    "keeps a part of it.",
)

# The last hours, and their baselines in earlier weeks or days.
BASELINE_PERIODS: Final = gauge(
    "baseline_periods",
    ("window", "unit"),
    "How many earlier weeks, or days, the baseline of the window is averaged over.",
)
DESIGN_EFFECT: Final = gauge(
    "design_effect",
    ("kind",),
    "Variance of a mean score, as a multiple of that of independent impressions: because one "
    "user's searches resemble one another. Kind measured: from the hours of up to three weeks, "
    "absent until a week of them is known; kind used: the setting, or the measured one if larger, "
    "and at least 1.5 while none is measured.",
)

# Counters of what has settled.
SETTLED_SCORE_SUM: Final = counter(
    "settled_score_sum",
    ("metric", *SEGMENT),
    f"Sum of the metric {_SETTLED} Divided by relevanced_settled_scored_impressions_total it "
    "is the mean.",
)
SETTLED_SCORE_SQUARES: Final = counter(
    "settled_score_squares",
    ("metric", *SEGMENT),
    f"Sum of the squared metric, for standard deviations, {_SETTLED}",
)
SETTLED_SCORED_IMPRESSIONS: Final = counter(
    "settled_scored_impressions",
    ("metric", *SEGMENT),
    f"Number, as far as the metric is defined, {_SETTLED}",
)
SETTLED_IMPRESSIONS: Final = counter("settled_impressions", SEGMENT, f"Number {_SETTLED}")
SETTLED_IMPRESSIONS_WITH_FEEDBACK: Final = counter(
    "settled_impressions_with_feedback",
    SEGMENT,
    f"Number, with feedback on at least one item, {_SETTLED}",
)
SETTLED_ZERO_RESULT_IMPRESSIONS: Final = counter(
    "settled_zero_result_impressions",
    SEGMENT,
    f"Number, with an empty result list, {_SETTLED}",
)
SETTLED_FEEDBACK: Final = counter("settled_feedback", SEGMENT, f"Items with feedback {_SETTLED}")

# Counters of events, as stored with the lanes.
EVENTS: Final = counter(
    "events", ("kind",), "Impression and feedback records that were read and understood."
)
REJECTED_EVENTS: Final = counter(
    "rejected_events",
    ("reason",),
    "Records that were refused or skipped, by reason (tombstone and no_list are legitimate: "
    "only skipped).",
)
SKIPPED_EVENTS: Final = counter(
    "skipped_events",
    ("topic", "reason"),
    "Records, and elements of records, of [[sources]] that are no event, by topic and reason: "
    "not_mapped, no_list, no_item, no_query_id, tombstone, and the reasons of sources.drop.",
)
DROPPED_ATTRIBUTE_VALUES: Final = counter(
    "dropped_attribute_values",
    ("reason",),
    "Values of attributes and experiments that impressions count without, by reason: "
    "long_value, long_name (256 bytes are allowed), bad_value (no text, number or boolean). "
    "The segment of the impression is (none) there. And queries that are no text: bad_query.",
)
IMPRESSION_OUTCOMES: Final = counter(
    "impression_outcomes",
    ("outcome",),
    "What became of impression records. Only accepted ones are new impressions.",
)
FEEDBACK_OUTCOMES: Final = counter(
    "feedback_outcomes",
    ("outcome",),
    "What became of feedback. rank_mismatch is counted beside joined; unjoined never found "
    "its impression.",
)
SEGMENT_OVERFLOW: Final = counter(
    "segment_overflow",
    ("grouping",),
    "Impressions that count in segment other: no more segments of the grouping are admitted.",
)
GAP_RECORDS: Final = counter(
    "gap_records",
    ("topic",),
    "Records that Kafka deleted before they were read: they are missing from every number.",
)
AHEAD_EVENTS: Final = counter(
    "ahead_events",
    ("topic",),
    "Events more than 5 minutes ahead of the watermark of their partition: after a pause, or from "
    "a clock that is wrong. They count, and move the watermark only once others confirm them.",
)
REPLACED_LOGS: Final = counter(
    "replaced_logs",
    ("topic",),
    "Times a lane began another log of a topic, by `relevanced lane accept-new-log`.",
)
JUDGED_IMPRESSIONS_LATE: Final = counter(
    "judged_impressions_late",
    ("record",),
    "Impressions of judged queries, and later pages of them, that came too late for judged scores.",
)
EXPERIMENT_OVERFLOW_IMPRESSIONS: Final = counter(
    "experiment_overflow_impressions",
    ("place",),
    "Settled impressions that count in no arm: no more experiments, or variants, are admitted.",
)

# Lanes.
AS_OF: Final = gauge(
    "as_of_timestamp_seconds",
    (),
    "Event time up to which every lane has been read, at most the clock: live windows end here.",
)
LANE_TIME: Final = gauge(
    "lane_time_timestamp_seconds",
    ("lane",),
    "Event time up to which the lane has been read. The windows wait for the lane with the least.",
)
LANE_WATERMARK: Final = gauge(
    "lane_watermark_timestamp_seconds",
    ("lane",),
    "Event time by which the lane judges lateness and settles: the least over its topics.",
)

FAMILIES: Final = (
    # Gauges over sliding windows of event time.
    SCORE_MEAN,
    SCORE_STDERR,
    SCORED_IMPRESSIONS,
    IMPRESSIONS,
    IMPRESSIONS_WITH_FEEDBACK,
    ZERO_RESULT_IMPRESSIONS,
    FEEDBACK,
    IPS_ITEMS,
    IPS_EFFECTIVE_SAMPLE_SIZE,
    IPS_CLIPPED_SHARE,
    PROPENSITIES_INFO,
    WINDOW_END,
    WINDOW_INCOMPLETE,
    # The last hours, and their baselines in earlier weeks or days.
    *RECENT.all,
    *BASELINE.all,
    BASELINE_PERIODS,
    DESIGN_EFFECT,
    # Changes that are called, and what could be noticed.
    *OF_CHANGES,
    *OF_LAYOUTS,
    *OF_QUERIES,
    *OF_JUDGED,
    *OF_FILES,
    # Counters of what has settled.
    SETTLED_SCORE_SUM,
    SETTLED_SCORE_SQUARES,
    SETTLED_SCORED_IMPRESSIONS,
    SETTLED_IMPRESSIONS,
    SETTLED_IMPRESSIONS_WITH_FEEDBACK,
    SETTLED_ZERO_RESULT_IMPRESSIONS,
    SETTLED_FEEDBACK,
    # Counters of events, as stored with the lanes.
    EVENTS,
    REJECTED_EVENTS,
    SKIPPED_EVENTS,
    DROPPED_ATTRIBUTE_VALUES,
    IMPRESSION_OUTCOMES,
    FEEDBACK_OUTCOMES,
    SEGMENT_OVERFLOW,
    GAP_RECORDS,
    AHEAD_EVENTS,
    REPLACED_LOGS,
    JUDGED_IMPRESSIONS_LATE,
    EXPERIMENT_OVERFLOW_IMPRESSIONS,
    *OF_EXPERIMENTS,
    # Lanes.
    AS_OF,
    LANE_TIME,
    LANE_WATERMARK,
    *OF_PROCESSES,
    JUDGEMENTS_INFO,
)

BY_NAME: Final[Mapping[str, Family]] = {family.name: family for family in FAMILIES}
