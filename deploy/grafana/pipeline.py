"""Pipeline: is the data behind the dashboards fresh and complete, and if not, what is the cause?"""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders, stat, timeseries

from deploy.grafana.frame import framed
from deploy.grafana.parts import GOOD_AT_ZERO, Steps, counts, lines, number, several, variable
from deploy.grafana.promql import OURS, own, per_second, select, top

AGE_STEPS: Final[Steps] = ((None, "green"), (60, "orange"), (300, "red"))


def pipeline() -> builders.Dashboard:
    """The dashboard."""
    built = framed(
        "relevanced-pipeline",
        "relevanced: pipeline",
        "Is the data behind the other dashboards fresh and complete? If not, what is the cause?",
        "now-3h",
    )
    instances = variable(
        "instance",
        "Process",
        f"label_values(relevanced_build_info{{{OURS}}}, instance)",
        hint="Processes of relevanced, by the address that Prometheus scrapes.",
    )
    built = built.with_variable(several(instances, ".+"))
    for panel in (*_freshness(), *_risks(), *_lag(), *_ages(), *_events(), *_commits()):
        built = built.with_panel(panel)
    for panel in (*_state(), *_exporters(), *_processes()):
        built = built.with_panel(panel)
    return built


def _freshness() -> list[stat.Panel]:
    as_of = "max(" + select("as_of_timestamp_seconds") + ")"
    lost = f"increase({select('gap_records_total')}[$__range])"
    return [
        number(
            "Newest data",
            "Age of the event time up to which every lane has been processed.",
            "s",
            f"time() - {as_of}",
            steps=AGE_STEPS,
        ),
        number(
            "Unread records",
            "Records in Kafka that have not been read yet.",
            "short",
            f"sum({own('lag_records')})",
        ),
        number(
            "Lost records",
            "Records that Kafka deleted before they were read, in the time range of the dashboard."
            " They are missing from every score and count.",
            "short",
            f"sum({lost}) or 0 * {as_of}",
            steps=GOOD_AT_ZERO,
        ),
    ]


def _risks() -> list[stat.Panel]:
    # 0 where processes answer and none of them has the series.
    stopped = f"sum({own('lane_stopped')}) or 0 * sum({own('owned_lanes')})"
    return [
        number(
            "Stopped lanes",
            "Lanes that need manual action, as after a topic was recreated. /readyz says why.",
            "short",
            stopped,
            steps=GOOD_AT_ZERO,
        ),
        number(
            "Redis may evict state",
            "yes: the maxmemory-policy of Redis allows it to evict keys that do not expire, which"
            " loses stored state.",
            "none",
            f"max by (policy) ({own('redis_may_evict_state')})",
            steps=GOOD_AT_ZERO,
            texts={0: ("no", "green"), 1: ("yes", "red")},
        ),
        number(
            "Exporters",
            "Processes that hold the exporter lease and serve the series of all the traffic. More"
            " than one is possible only for a moment; with none, no scores are served.",
            "none",
            f"sum({own('exporter_lease_held')})",
            steps=((None, "red"), (1, "green"), (2, "orange")),
        ),
    ]


def _lag() -> list[timeseries.Panel]:
    window_end = select("window_end_timestamp_seconds")
    return [
        lines(
            "Age of the windows",
            "Time since the end of each window. Settled windows are older by the time that feedback"
            " is waited for.",
            "s",
            {"{{window}} {{view}}": f"time() - max by (window, view) ({window_end})"},
        ),
        counts(
            "Lag",
            "Records in Kafka that have not been read yet.",
            "short",
            {"{{topic}} {{partition}}": f"sum by (topic, partition) ({own('lag_records')})"},
        ),
    ]


def _ages() -> list[timeseries.Panel]:
    return [
        lines(
            "Age of the lanes",
            "Age of the event time up to which each lane has been processed; all windows wait for"
            " the oldest lane. And age of its watermark, which decides when its panes settle.",
            "s",
            {
                "lane {{lane}}": f"time() - {top('lane', 'lane_time_timestamp_seconds')}",
                "lane {{lane}}, watermark": "time() - "
                + top("lane", "lane_watermark_timestamp_seconds"),
            },
        ),
        lines(
            "Age of the partitions",
            "Age of the latest event time read from each partition. A topic without new events"
            " delays the settling of its lanes.",
            "s",
            {
                "{{topic}} {{partition}}": "time() - max by (topic, partition) ("
                f"{own('partition_watermark_timestamp_seconds')})"
            },
        ),
    ]


def _events() -> list[timeseries.Panel]:
    growth = (
        ("Events", "Valid events that were read, by kind.", "kind", "events_total"),
        (
            "Impressions",
            "Impression records by outcome. Only accepted ones are new impressions.",
            "outcome",
            "impression_outcomes_total",
        ),
        (
            "Feedback",
            "Feedback by outcome. rank_mismatch is counted in addition to joined; unjoined feedback"
            " never found its impression; off_list feedback names an item that was not shown.",
            "outcome",
            "feedback_outcomes_total",
        ),
        (
            "Rejected and skipped records",
            "Records that are not valid events, by reason. tombstone and no_list are legitimate.",
            "reason",
            "rejected_events_total",
        ),
        (
            "Segment overflow",
            "Impressions counted in segment other, because their grouping had no capacity for"
            " another segment.",
            "grouping",
            "segment_overflow_total",
        ),
    )
    return [
        counts(
            title,
            description,
            "cps",
            {f"{{{{{label}}}}}": per_second(label, select(name))},
        )
        for title, description, label, name in growth
    ]


def _commits() -> list[timeseries.Panel]:
    buckets = own("batch_duration_seconds_bucket")

    def quantile(q: float) -> str:
        return f"histogram_quantile({q}, sum by (le) (rate({buckets}[$__rate_interval])))"

    return [
        counts(
            "Commits",
            "Commits to Redis by outcome. The records of a lost commit are read and counted again"
            " by the next owner of the lane.",
            "cps",
            {"{{outcome}}": per_second("outcome", own("commits_total"))},
        ),
        counts(
            "Duration of a batch",
            "Time to decode, attribute, score and commit a batch, by quantile.",
            "s",
            {"p50": quantile(0.5), "p95": quantile(0.95), "p99": quantile(0.99)},
        ),
    ]


def _state() -> list[timeseries.Panel]:
    return [
        counts(
            "Open state",
            "Impressions that feedback can still change, and feedback that waits for one.",
            "short",
            {
                "open impressions": f"sum by (job) ({own('open_impressions')})",
                "waiting feedback": f"sum by (job) ({own('waiting_feedback')})",
            },
        ),
        counts(
            "Dead letters and feedback in the wrong lane",
            "Rejected records sent to the dead-letter topic; and sampled unjoined feedback whose"
            " impression is in another lane: the producers use different keys or"
            " partitioners.",
            "cps",
            {
                "dead letters": per_second("job", own("dead_letters_total")),
                "in the wrong lane": per_second("job", own("wrong_lane_feedback_total")),
            },
        ),
    ]


def _exporters() -> list[timeseries.Panel]:
    return [
        counts(
            "Snapshots",
            "Time to unpack, sum, render and compress all scores, and age of the last snapshot.",
            "s",
            {
                "{{instance}}, duration": own("snapshot_duration_seconds"),
                "{{instance}}, age": "time() - (" + own("snapshot_timestamp_seconds") + " > 0)",
            },
        ),
        counts(
            "Failed snapshots",
            "Snapshots that failed, per second.",
            "cps",
            {"{{instance}}": per_second("instance", own("snapshot_errors_total"))},
        ),
    ]


def _processes() -> list[timeseries.Panel]:
    return [
        counts(
            "Event loop stalls",
            "Longest time for which each process blocked its event loop since the previous scrape.",
            "s",
            {"{{instance}}": own("event_loop_stall_seconds")},
        ),
        counts(
            "Lanes by process",
            "Lanes that each process owns.",
            "short",
            {"{{instance}}": own("owned_lanes")},
        ),
        counts(
            "Last answer from Kafka",
            "Time since Kafka last answered a fetch of each worker.",
            "s",
            {"{{instance}}": "time() - (" + own("last_poll_timestamp_seconds") + " > 0)"},
        ),
        *_machine(),
    ]


def _machine() -> list[timeseries.Panel]:
    selected = f'{{{OURS},instance=~"$instance"}}'
    processor = f"process_cpu_seconds_total{selected}"
    resident = f"process_resident_memory_bytes{selected}"
    bound = own("memory_bound_bytes")
    return [
        counts(
            "CPU",
            "CPU time of each process per second.",
            "percentunit",
            {"{{instance}}": f"sum by (instance) (rate({processor}[$__rate_interval]))"},
        ),
        counts(
            "Memory",
            "Resident memory of each process.",
            "bytes",
            {"{{instance}}": resident},
        ),
        counts(
            "Memory bound",
            "Resident memory as a share of the worker's memory bound (0: no bound). The second"
            " curve is 1 while the bound is met and the worker reads nothing.",
            "percentunit",
            {
                "{{instance}}": f"{resident} / on (job, instance) {bound}",
                "{{instance}}, reading has stopped": own("memory_bound_met"),
            },
        ),
    ]
