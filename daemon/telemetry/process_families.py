"""The families that each process exposes of itself. Pure.

What a family of series is: its name, its type, its labels and its help.

The families of dated files in lanes: of judgements, and of classes of queries.

The families of layouts: which columns the rows of lanes have, and since when.

The families of tables of queries. They never have the text of a query.

The families of changes that are called, and of what could be noticed.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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

    @property
    def openmetrics_name(self) -> str:
        """The name that OpenMetrics declares: a counter's without the `_total` of its samples."""
        return self.name.removesuffix("_total")


def gauge(name: str, labels: tuple[str, ...], text: str) -> Family:
    """A gauge of the snapshot."""
    return Family(f"relevanced_{name}", "gauge", labels, text)


def counter(name: str, labels: tuple[str, ...], text: str) -> Family:
    """A counter of the snapshot."""
    return Family(f"relevanced_{name}_total", "counter", labels, text)


def of_process(name: str, kind: Kind, labels: tuple[str, ...], text: str) -> Family:
    """A family that each process exposes of itself."""
    return Family(f"relevanced_{name}", kind, labels, text, "process")


OF_PROCESSES: Final = (
    of_process(
        "build_info",
        "info",
        ("version", "python", "role"),
        "The version of this program and of Python, and the role of the process: `all`, `worker` "
        "or `exporter`.",
    ),
    of_process(
        "batch_duration_seconds",
        "histogram",
        (),
        "Time to decode, attribute, score and commit one batch.",
    ),
    of_process("commits_total", "counter", ("outcome",), "Commits to Redis by how they ended."),
    of_process(
        "lag_records",
        "gauge",
        ("topic", "partition"),
        "Records in Kafka that have not been read yet, the next one to read included.",
    ),
    of_process(
        "partition_watermark_timestamp_seconds",
        "gauge",
        ("topic", "partition"),
        "Highest event time read of the partition that others confirm. A topic without new events "
        "keeps its lanes from settling.",
    ),
    of_process(
        "watermark_ahead_seconds",
        "gauge",
        ("topic", "partition"),
        "How far the watermark of the partition is ahead of this process's clock: producers have "
        "wrong clocks, or this machine has.",
    ),
    of_process(
        "topic_partitions",
        "gauge",
        ("topic",),
        "Partitions of the input topic, of a process that reads it; 0: it has not been found.",
    ),
    of_process(
        "last_poll_timestamp_seconds",
        "gauge",
        (),
        "When Kafka last answered a fetch, for the partition that has waited longest; 0: never.",
    ),
    of_process(
        "partition_unreadable",
        "gauge",
        ("topic", "partition"),
        "1 where the partition cannot be read (a damaged batch, an unknown codec, no permission); "
        "the log gives the reason and what to do.",
    ),
    of_process(
        "kafka_faults_total",
        "counter",
        ("fault",),
        "Faults of the input topics, by kind; the log gives the details and what to do.",
    ),
    of_process(
        "event_loop_stall_seconds",
        "gauge",
        (),
        "Longest time within the last minute for which one piece of work blocked the event loop.",
    ),
    of_process(
        "memory_bound_bytes",
        "gauge",
        (),
        "Resident memory at which a worker stops reading; +Inf without a bound.",
    ),
    of_process(
        "memory_bound_met",
        "gauge",
        (),
        "1 while the worker is at its memory bound: it reads nothing, and nothing is lost.",
    ),
    of_process(
        "open_impressions", "gauge", ("lane",), "Impressions that feedback can still change."
    ),
    of_process(
        "waiting_feedback", "gauge", ("lane",), "Feedback that waits for its impression or item."
    ),
    of_process("owned_lanes", "gauge", (), "Lanes that this process writes."),
    of_process(
        "lane_stopped",
        "gauge",
        ("lane",),
        "1 where the lane cannot go on without help, for example after its topic was recreated.",
    ),
    of_process(
        "lane_damaged",
        "gauge",
        ("lane",),
        "1 where Redis lost parts of the lane. The series of all the traffic are absent, or stand "
        "still where the process that serves them read the lane before.",
    ),
    of_process(
        "lane_repairs_total",
        "counter",
        (),
        "Damaged lanes that their owner wrote again from its memory: Redis loses keys.",
    ),
    of_process(
        "lanes_begun_anew_total",
        "counter",
        (),
        "Damaged lanes that were removed and read again from the log.",
    ),
    of_process(
        "lane_state_lost_total",
        "counter",
        ("rebuilt_from",),
        "Lanes whose state Redis lost, by what they are rebuilt from: `kafka_start`, where all of "
        "it is gone and reading begins at kafka.start; `stored_offsets`, where older state is "
        "left.",
    ),
    of_process(
        "lane_rebuilt_from_timestamp_seconds",
        "gauge",
        ("lane",),
        "Of a lane whose state this worker found lost: from when on the records are read again.",
    ),
    of_process(
        "lost_history_seconds",
        "gauge",
        ("lane",),
        "How much of the lane's history Redis lost, by whole hours; no baseline contains them.",
    ),
    of_process(
        "wrong_lane_feedback_total",
        "counter",
        (),
        "Sampled unjoined feedback whose impression is in another lane: the producers of the "
        "topics use different keys or partitioners.",
    ),
    of_process(
        "dead_letters_total",
        "counter",
        (),
        "Refused records that the dead-letter topic acknowledged.",
    ),
    of_process(
        "mapped_records_total",
        "counter",
        ("topic",),
        "Records that `[[sources]]` read by expressions.",
    ),
    of_process(
        "mapped_slowly_total",
        "counter",
        ("topic",),
        "Those of them that the compiled form of the expressions could not read: they take ten "
        "times as long, and are refused or read by the interpreter.",
    ),
    of_process(
        "redis_may_evict_state",
        "gauge",
        ("policy",),
        "1 where the maxmemory-policy of Redis allows it to evict keys without a time to live, and "
        "so to lose state.",
    ),
    of_process(
        "schemas",
        "gauge",
        (),
        "Schemas of the registry, or of files, that this process has read.",
    ),
    of_process(
        "registry_requests_total",
        "counter",
        ("outcome",),
        "Questions to the schema registry: ok; missing (it has no such schema); failed (none of "
        "its addresses answered, or they refused). A lane asks again until there is an answer.",
    ),
    of_process(
        "exporter_lease_held",
        "gauge",
        (),
        "1 in the one process that serves the series of all the traffic.",
    ),
    of_process(
        "catching_up",
        "gauge",
        (),
        "1 in an exporter of a namespace that has not caught up with its logs yet: its windows are "
        "still in the past. That happens once, and again where Redis lost the state.",
    ),
    of_process(
        "catch_up_behind_seconds",
        "gauge",
        (),
        "How far such a namespace is behind the clock; NaN while a lane has read nothing, 0 once "
        "it has caught up.",
    ),
    of_process(
        "snapshot_timestamp_seconds",
        "gauge",
        (),
        "When this process last made a snapshot for the series of all the traffic; 0: never.",
    ),
    of_process(
        "snapshot_duration_seconds",
        "gauge",
        (),
        "Time to unpack, sum, render and compress the last snapshot; reading it is not included.",
    ),
    of_process("snapshot_errors_total", "counter", (), "Snapshots that failed."),
    of_process(
        "setting",
        "gauge",
        ("setting",),
        "A number of the section [changes] of the configuration: what the alert rules compare "
        "with.",
    ),
    of_process(
        "drift_ratio",
        "gauge",
        ("metric",),
        "Standard deviation of the drift of the metric from week to week, as a share of its score: "
        "drift_ratio of the section [changes], or its entry in metric_drift_ratios.",
    ),
    of_process(
        "score_floor",
        "gauge",
        ("metric", "grouping", "segment"),
        "Floor of the score, whatever is usual: an entry in score_floors of the section [changes].",
    ),
    of_process(
        "links_info",
        "gauge",
        ("runbook", "page", "dashboards"),
        "Addresses that the texts of alerts link to: the section [links] of the configuration.",
    ),
    of_process(
        "query_classes_info",
        "gauge",
        ("attribute", "name", "sha256", "start"),
        "1 for each file of classes of queries that is in force by the clock or starts later, and "
        "that this process has read for the attribute: processes must have the same.",
    ),
)


CLASSES_REFUSED: Final = gauge(
    "query_classes_refused_lanes",
    ("attribute", "name", "start"),
    "Lanes that refused this file of classes of queries, because they had read an event that it "
    "would have classed before they could know it.",
)
EARLIEST_START: Final = gauge(
    "refused_file_earliest_start_timestamp_seconds",
    ("files", "name", "start", "lane"),
    "From when on a lane would take a file that it refused, put in place again, by the events that "
    "it has read. files: judgements, or classes of an attribute.",
)
OF_FILES: Final = (CLASSES_REFUSED, EARLIEST_START)


COLUMN_SINCE: Final = gauge(
    "column_since_timestamp_seconds",
    ("metric", "grouping", "window"),
    "Event time from which on a metric is counted by a grouping, while the window begins earlier: "
    "until then it is not shown. Absent where the window has all of it.",
)
LAYOUT_LANES: Final = gauge(
    "layout_lanes",
    ("generation",),
    "Lanes by the generation of the layout that they are under.",
)
OF_LAYOUTS: Final = (COLUMN_SINCE, LAYOUT_LANES)


QUERY_TABLES_BYTES: Final = gauge(
    "query_tables_bytes",
    (),
    "Bytes of all hours of queries that are over, in Redis: tables and examples.",
)
QUERY_OTHER_SHARE: Final = gauge(
    "query_other_share",
    (),
    "Share of the impressions of the last hour that is over whose queries the tables do not list: "
    "raise queries.kept to list more.",
)
OF_QUERIES: Final = (QUERY_TABLES_BYTES, QUERY_OTHER_SHARE)


AGAINST: Final = ("hour", "day", "weeks")
"""Values of the label `against`: what lies just before, the same hours of the last days, or those
of the last weeks."""
BOUNDS: Final = ("earliest", "likely", "latest")
"""Values of the label `bound`."""

_OF_CHANGE: Final = ("metric", *SEGMENT, "against")

LOSS_RATIO: Final = gauge(
    "change_loss_ratio",
    _OF_CHANGE,
    "By how much settled scores are worse than what lay just before, as a share of that: of the "
    "instant at which the difference is clearest. Only while the change is called.",
)
Z: Final = gauge(
    "change_z",
    _OF_CHANGE,
    "The same change in standard errors, which contain the design effect and the drift of a "
    "healthy score; negative. Only while the change is called.",
)
ONSET: Final = gauge(
    "change_onset_timestamp_seconds",
    (*_OF_CHANGE, "bound"),
    "Event time at which a score became worse: bounds of the interval that contains it in 19 of 20 "
    "cases, and its likeliest instant. Bound earliest is absent where the change may be older than "
    "what is kept. While it is called, or low against earlier weeks or days.",
)
NOTICEABLE: Final = gauge(
    "noticeable_drop_ratio",
    _OF_CHANGE,
    "The smallest fall, as a share of the score, that would be noticed by now in 9 of 10 cases. "
    "Absent where none would be.",
)
HISTORY_BEGIN: Final = gauge(
    "history_begin_timestamp_seconds",
    (),
    "Event time at which what is known of the scores begins. Absent where no hours are kept.",
)
MARKER: Final = gauge(
    "marker_timestamp_seconds",
    ("kind", "text", "metric", "scope"),
    "Event time of a marker that was set by hand: the five latest of each kind within the last "
    "day. Labels metric and scope, such as country=DE, are empty where it is about everything.",
)
OF_CHANGES: Final = (LOSS_RATIO, Z, ONSET, NOTICEABLE, HISTORY_BEGIN, MARKER)
