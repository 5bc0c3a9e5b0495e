"""The families that each process exposes of itself. Pure."""

from typing import Final

from .family import of_process

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
        "A number of the section [judging] of the configuration: what the alert rules compare "
        "with.",
    ),
    of_process(
        "drift_ratio",
        "gauge",
        ("metric",),
        "Standard deviation of the drift of the metric from week to week, as a share of its score: "
        "drift_ratio of the section [judging], or its entry in metric_drift_ratios.",
    ),
    of_process(
        "score_floor",
        "gauge",
        ("metric", "grouping", "segment"),
        "Floor of the score, whatever is usual: an entry in score_floors of the section [judging].",
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
