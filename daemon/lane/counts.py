"""What a lane counts: families of counts, and the outcomes of impressions and feedback."""

from typing import Final

COUNT_FAMILIES: Final = (
    "events",  # impression, feedback
    "rejected",  # by reason
    "dropped_values",  # by reason: readers split them off the rejected ones
    "impression_outcomes",
    "feedback_outcomes",
    "segment_overflow",  # by grouping
    "experiment_overflow",  # by what was not admitted: experiment, variant
    "gap_records",  # by topic: records that the log lost before they were read
    "ahead_events",  # by topic: events too far ahead of the watermark to move it alone
    "replaced_logs",  # by topic: other logs that lanes began, as an operator permitted
    "judged_late",  # impression, page: of a judged query, and too late for judged rows
    "skipped",  # by topic and reason, as `skip_label` writes them: what mappings leave out
)
IMPRESSION_OUTCOMES: Final = (
    "accepted",
    "duplicate",
    "filled",
    "extended",
    "conflicting",
    "late",
    "later_page",
)
FEEDBACK_OUTCOMES: Final = (
    "joined",
    "rank_mismatch",
    "out_of_window",
    "beyond_depth",
    "off_list",
    "unjoined",
    "late",
    "ignored_kind",
)
"""`rank_mismatch` is counted in addition to `joined`; each event has exactly one of the others."""


def skip_label(topic: str, reason: str) -> str:
    """Return the label under which `skipped` counts. Names of topics have no slash."""
    return f"{topic}/{reason}"


def topic_and_reason(label: str) -> tuple[str, str]:
    """Return the parts of a label of `skipped`."""
    topic, _, reason = label.partition("/")
    return topic, reason
