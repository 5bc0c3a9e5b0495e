"""Pipeline: is what the other dashboards show fresh and whole, and if not, where does it hang?"""

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
        "Is what the other dashboards show fresh and whole, and if not, where does it hang?",
        "now-3h",
    )
    instances = variable(
        "instance",
        "Process",
        f"label_values(relevanced_build_info{{{OURS}}}, instance)",
        hint="Processes, by the address that Prometheus scrapes.",
    )
    built = built.with_variable(several(instances, ".+"))
    for panel in (*_freshness(), *_dangers(), *_lag(), *_ages(), *_events(), *_commits()):
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
            "How long ago the event time is up to which every lane is known.",
            "s",
            f"time() - {as_of}",
            steps=AGE_STEPS,
        ),
        number(
            "Behind",
            "Records in Kafka that are not read yet.",
            "short",
            f"sum({own('lag_records')})",
        ),
        number(
            "Lost records",
            "Deleted by Kafka before they were read, in the time range of this page: they are"
            " missing from every number.",
            "short",
            f"sum({lost}) or 0 * {as_of}",
            steps=GOOD_AT_ZERO,
        ),
    ]


def _dangers() -> list[stat.Panel]:
    # 0 where processes answer and none of them has such a series.
    stopped = f"sum({own('lane_stopped')}) or 0 * sum({own('owned_lanes')})"
    return [
        number(
            "Stopped lanes",
            "They cannot go on without help, as after their topic was made anew. /readyz says why.",
            "short",
            stopped,
            steps=GOOD_AT_ZERO,
        ),
        number(
            "Redis may evict state",
            "1 where its maxmemory-policy lets it remove keys that do not expire, and so lose"
            " numbers.",
            "none",
            f"max by (policy) ({own('redis_may_evict_state')})",
            steps=GOOD_AT_ZERO,
            texts={0: ("no", "green"), 1: ("yes", "red")},
        ),
        number(
            "Exporters",
            "Processes that hold the lease to serve the series of all the traffic. More than one"
            " can only be for a moment; none is an outage of every score.",
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
            "Now less the end of each window. Settled windows are older by as long as feedback is"
            " waited for.",
            "s",
            {"{{window}} {{view}}": f"time() - max by (window, view) ({window_end})"},
        ),
        counts(
            "Lag",
            "Records in Kafka that are not read yet.",
            "short",
            {"{{topic}} {{partition}}": f"sum by (topic, partition) ({own('lag_records')})"},
        ),
    ]


def _ages() -> list[timeseries.Panel]:
    return [
        lines(
            "Age of the lanes",
            "Now less the event time up to which a lane is known: the oldest holds all windows"
            " back. And less its watermark, by which it settles.",
            "s",
            {
                "lane {{lane}}": f"time() - {top('lane', 'lane_time_timestamp_seconds')}",
                "lane {{lane}}, watermark": "time() - "
                + top("lane", "lane_watermark_timestamp_seconds"),
            },
        ),
        lines(
            "Age of the partitions",
            "Now less the latest event time that was read of each. A topic that stays silent holds"
            " the settling of its lanes back.",
            "s",
            {
                "{{topic}} {{partition}}": "time() - max by (topic, partition) ("
                f"{own('partition_watermark_timestamp_seconds')})"
            },
        ),
    ]


def _events() -> list[timeseries.Panel]:
    growth = (
        ("Events", "Records that were read and understood.", "kind", "events_total"),
        (
            "Impressions",
            "What became of impression records. Only accepted ones are new impressions.",
            "outcome",
            "impression_outcomes_total",
        ),
        (
            "Feedback",
            "What became of feedback. rank_mismatch is counted beside joined; unjoined never found"
            " its impression, and off_list an item that was not shown.",
            "outcome",
            "feedback_outcomes_total",
        ),
        (
            "Refused and skipped",
            "Records that were no events, by reason. tombstone and no_list are legitimate.",
            "reason",
            "rejected_events_total",
        ),
        (
            "Beyond the most segments",
            "Impressions whose segment found no place and that count in segment other.",
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

    def slowest(quantile: float) -> str:
        return f"histogram_quantile({quantile}, sum by (le) (rate({buckets}[$__rate_interval])))"

    return [
        counts(
            "Commits",
            "Commits to Redis by how they ended: lost ones are read and counted again by whoever"
            " owns the lane then.",
            "cps",
            {"{{outcome}}": per_second("outcome", own("commits_total"))},
        ),
        counts(
            "Time of a batch",
            "To decode, attribute, score and commit it.",
            "s",
            {"half": slowest(0.5), "19 of 20": slowest(0.95), "99 of 100": slowest(0.99)},
        ),
    ]


def _state() -> list[timeseries.Panel]:
    return [
        counts(
            "Open state",
            "What later feedback can still change, and feedback that waits for its impression.",
            "short",
            {
                "open impressions": f"sum by (job) ({own('open_impressions')})",
                "waiting feedback": f"sum by (job) ({own('waiting_feedback')})",
            },
        ),
        counts(
            "Dead letters and strayed feedback",
            "Refused records that the dead-letter topic took; and unjoined feedback, of those"
            " sampled, whose impression is in another lane: producers disagree on key or"
            " partitioner.",
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
            "Time to read, sum and render all scores; failures per second; age of the last one.",
            "s",
            {
                "{{instance}}, time": own("snapshot_duration_seconds"),
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
            "Longest time that each process kept its tasks waiting since the scrape before.",
            "s",
            {"{{instance}}": own("event_loop_stall_seconds")},
        ),
        counts(
            "Lanes by process",
            "Lanes that each process writes.",
            "short",
            {"{{instance}}": own("owned_lanes")},
        ),
        counts(
            "Last answer of Kafka",
            "How long ago Kafka last answered a fetch of each worker.",
            "s",
            {"{{instance}}": "time() - (" + own("last_poll_timestamp_seconds") + " > 0)"},
        ),
        *_machine(),
    ]


def _machine() -> list[timeseries.Panel]:
    chosen = f'{{{OURS},instance=~"$instance"}}'
    processor = f"process_cpu_seconds_total{chosen}"
    resident = f"process_resident_memory_bytes{chosen}"
    bound = own("memory_bound_bytes")
    return [
        counts(
            "Processor",
            "Seconds of processor time per second.",
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
            "Resident memory as a share of a worker's bound (0: it has none); 1 while it is met and"
            " nothing is read.",
            "percentunit",
            {
                "{{instance}}": f"{resident} / on (job, instance) {bound}",
                "{{instance}}, reading has stopped": own("memory_bound_met"),
            },
        ),
    ]
