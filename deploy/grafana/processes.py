"""The processes of an installation: the second half of the dashboard Pipeline."""

from grafana_foundation_sdk.builders import timeseries

from deploy.grafana.parts import counts
from deploy.grafana.promql import OURS, own, per_second


def commits() -> list[timeseries.Panel]:
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


def state() -> list[timeseries.Panel]:
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


def registry() -> list[timeseries.Panel]:
    return [
        counts(
            "Schema registry",
            "Questions to the schema registry by outcome: missing are schemas that it does not"
            " have; while questions fail, the lanes that ask wait.",
            "cps",
            {"{{outcome}}": per_second("outcome", own("registry_requests_total"))},
        ),
        counts(
            "Schemas",
            "Schemas that each process has read.",
            "short",
            {"{{instance}}": own("schemas")},
        ),
    ]


def exporters() -> list[timeseries.Panel]:
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


def processes() -> list[timeseries.Panel]:
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
