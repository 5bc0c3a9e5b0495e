"""Pipeline: is the data behind the dashboards fresh and complete, and if not, what is the cause?"""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders, stat, timeseries

from deploy.grafana.frame import framed, rowed
from deploy.grafana.parts import (
    GOOD_AT_ZERO,
    Steps,
    counts,
    lines,
    number,
    several,
    threshold,
    variable,
)
from deploy.grafana.processes import commits, exporters, processes, registry, state
from deploy.grafana.promql import (
    OBJECTIVE,
    OURS,
    own,
    own_setting,
    per_second,
    recorded,
    select,
    top,
)

LATE: Final = "late_seconds"
LAGGING: Final = "lag_records"
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
    built = rowed(built, "Now", (*_freshness(), *_risks()))
    built = rowed(built, "Freshness objective", _objective())
    built = rowed(built, "Lag and ages", (*_lag(), *_ages()))
    built = rowed(built, "Events", (*_events(), *commits(), *state(), *registry()))
    return rowed(built, "Processes", (*exporters(), *processes()))


def _freshness() -> list[stat.Panel]:
    as_of = "max(" + select("as_of_timestamp_seconds") + ")"
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
            f"sum({_lost()}) or 0 * {as_of}",
            steps=GOOD_AT_ZERO,
        ),
    ]


def _lost() -> str:
    """Records that were lost in the time range, by topic, whichever process counts them.

    The series appears with the first gap, and that of another process begins with all gaps so far:
    growth of single series would leave out the one or count the other twice. It is asked only where
    the count is not higher than at the beginning, as after lost state, with which it restarts.
    """
    gaps = select("gap_records_total")
    now = f"max by (topic) ({gaps})"
    before = f"max by (topic) (last_over_time({gaps}[1d] offset $__range))"
    more = f"{now} - ({before} or 0 * {now}) > 0"
    return f"{more} or max by (topic) (increase({gaps}[$__range]))"


def _risks() -> list[stat.Panel]:
    # 0 where processes answer and none of them has the series.
    both = f"sum({own('lane_stopped')} or {own('source_stopped')})"
    stopped = f"{both} or 0 * sum({own('owned_lanes')})"
    return [
        number(
            "Stopped lanes",
            "Lanes, and partitions that a stage reads, that need manual action, as after a topic"
            " was recreated. /readyz says why.",
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


def _objective() -> list[stat.Panel | timeseries.Panel]:
    def burnt(span: str, minutes: int) -> str:
        """How much of the budget of so many minutes is used up."""
        return f"sum_over_time({recorded('late')}[{span}]) / ({1 - OBJECTIVE:.3f} * {minutes})"

    late = f"{OBJECTIVE:.1%} of the minutes of 28 days, live windows younger than late_seconds"
    return [
        number(
            "Fresh minutes of 28 days",
            f"The objective: {late}. Minutes before the installation was first fresh, and those in"
            " which Prometheus evaluated nothing, do not count.",
            "percentunit",
            f"1 - avg_over_time({recorded('late')}[28d])",
            steps=((None, "red"), (OBJECTIVE, "green")),
        ),
        number(
            "Error budget left",
            f"Share of the minutes that may be late which is left. The objective: {late}.",
            "percentunit",
            f"1 - {burnt('28d', 40_320)}",
            steps=((None, "red"), (0, "orange"), (0.5, "green")),
        ),
        counts(
            "Burn of the error budget",
            "How many times faster than the objective allows the budget is used up. At 1 it lasts"
            " 28 days; RelevancedFreshnessBudgetBurns fires at 6 over 6 hours and 1 over 3 days.",
            "none",
            {
                f"over {span}": burnt(span, minutes)
                for span, minutes in (("1h", 60), ("6h", 360), ("3d", 4_320))
            },
        )
        .span(16)
        .height(8),
    ]


def _lag() -> list[timeseries.Panel]:
    window_end = select("window_end_timestamp_seconds")
    ages = {
        "{{window}} {{view}}": f"time() - max by (window, view) ({window_end})",
        LATE: own_setting("late_seconds"),
    }
    unread = {
        "{{topic}} {{partition}}": f"sum by (topic, partition) ({own('lag_records')})",
        LAGGING: own_setting("lag_records"),
    }
    panels = [
        lines(
            "Age of the windows",
            "Time since the end of each window. Settled windows are older by the time that feedback"
            " is waited for. Live windows as old as the setting late_seconds raise an alert.",
            "s",
            ages,
        ),
        counts(
            "Lag",
            "Records in Kafka that have not been read yet, and the setting lag_records: the lag of"
            " a topic that raises an alert.",
            "short",
            unread,
        ),
    ]
    return [threshold(panel, name) for panel, name in zip(panels, (LATE, LAGGING), strict=True)]


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
            "Records that are not valid events, by reason. tombstone, no_list, no_item and"
            " no_query_id are legitimate.",
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
