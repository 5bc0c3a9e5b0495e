"""Overview: is search better or worse than in the last weeks, and which segment moved most?"""

from typing import Final

from grafana_foundation_sdk.builders import (
    dashboard as builders,
    stat,
    statetimeline,
    table,
    timeseries,
)

from deploy.grafana import frame, judged
from deploy.grafana.carriers import carriers
from deploy.grafana.frame import ALERTS, SEGMENT_URL, framed, rowed
from deploy.grafana.fresh import noticeable
from deploy.grafana.parts import (
    GOOD_AT_ZERO,
    counts,
    in_colour,
    lines,
    mapped,
    number,
    properties,
    rows,
    states,
    threshold,
    variable,
    with_band,
)
from deploy.grafana.promql import (
    CLEAR_Z,
    IN_GROUPING,
    METRIC,
    OURS,
    WHOLE,
    WINDOW,
    band,
    change,
    recent_with_states,
    setting,
    share,
    top,
    verdict,
    z,
)
from deploy.grafana.states import STATES, VERDICTS

SEGMENT: Final = "grouping, segment"
LIVE: Final = 'view="live"'
ALERT_ROWS: Final = "count by (alertname, severity, metric, grouping, segment)"
SMALLEST: Final = "smallest_drop_ratio"
FAR_BELOW: Final = "far_below_ratio"
COMPARED: Final = (
    "The baseline is the mean over the same period one, two and three weeks earlier (on the last"
    " days, before the first week is complete), without outages."
)


def overview() -> builders.Dashboard:
    """The dashboard."""
    built = framed(
        "relevanced-overview",
        "relevanced: overview",
        "Is search better or worse than in the last weeks, and which segment moved most?",
        "now-24h",
    )
    built = built.with_variable(
        variable(
            "grouping",
            "Grouping",
            f'label_values(relevanced_recent_impressions{{{OURS},grouping!="all"}}, grouping)',
            hint="The attributes that define the segments below.",
        )
    )
    built = built.with_variable(frame.metric("relevanced_recent_score"))
    built = built.with_variable(frame.window("relevanced_recent_impressions"))
    built = rowed(built, "Now", (*_now(), *_current(), _alerts()))
    compared = (_against_baseline(), _changes(), _verdicts(), _by_metric())
    built = rowed(built, "Against the baseline", compared)
    built = rowed(built, "Which segments", (_by_segment(), *carriers()))
    built = rowed(built, judged.TITLE, judged.judged())
    built = rowed(built, "What would be noticed", noticeable())
    return rowed(built, "Traffic", (_traffic(), _shares()))


def _now() -> list[stat.Panel]:
    return [
        number(
            "Search is",
            "Recent score of the selected metric over all traffic, compared with its baseline. A"
            f" change is clear from {CLEAR_Z} standard errors on, which include the measured design"
            " effect and the setting drift_ratio. For metrics where lower is better, swap better"
            f" and worse. {COMPARED}",
            "none",
            verdict(WHOLE),
            texts=VERDICTS,
        ),
        number(
            "Score",
            "Mean of the selected metric over all traffic in the last complete window.",
            "none",
            recent_with_states(SEGMENT, WHOLE),
            texts=STATES,
        ),
        number("Baseline", COMPARED, "none", top(SEGMENT, "baseline_score", METRIC, WINDOW, WHOLE)),
        number(
            "Change",
            "Change of the score, relative to the baseline.",
            "percentunit",
            change(SEGMENT, METRIC, WHOLE),
            steps=((None, "red"), (-0.02, "text"), (0.02, "green")),
        ),
    ]


def _current() -> list[stat.Panel]:
    late = f'time() - {top("view", "window_end_timestamp_seconds", LIVE)}'
    firing = f"count({ALERTS}) or vector(0)"
    return [
        number(
            "Newest data",
            "Time since the end of the live windows. If it grows, the pipeline is late or has"
            " stopped, and this dashboard shows outdated values.",
            "s",
            late,
            steps=((None, "green"), (300, "orange"), (900, "red")),
        ),
        number(
            "Alerts firing",
            "Number of relevanced alerts that are firing in Prometheus.",
            "none",
            firing,
            steps=GOOD_AT_ZERO,
        ),
    ]


def _alerts() -> table.Panel:
    panel = rows(
        "Firing alerts",
        "What fires now, by severity: page means that somebody must act now. What each alert means"
        " and what to do is in the runbook under its name: /runbook of the page.",
        {"Firing": ("none", f"{ALERT_ROWS} ({ALERTS})")},
        {
            "alertname": "Alert",
            "severity": "Severity",
            "metric": "Metric",
            "grouping": "Grouping",
            "segment": "Segment",
        },
        "Severity",
    )
    return panel.height(6)


def _against_baseline() -> timeseries.Panel:
    by = "metric"
    recent, recent_error, baseline, baseline_error = (
        top(by, name, METRIC, WINDOW, WHOLE)
        for name in ("recent_score", "recent_score_stderr")
        + ("baseline_score", "baseline_score_stderr")
    )
    panel = lines(
        "Score and baseline",
        f"Over all traffic, with bands of two standard errors. {COMPARED}",
        "none",
        {
            "now": recent,
            "now, upper": band(recent, recent_error, "+"),
            "now, lower": band(recent, recent_error, "-"),
            "baseline": baseline,
            "baseline, upper": band(baseline, baseline_error, "+"),
            "baseline, lower": band(baseline, baseline_error, "-"),
        },
    )
    for name, colour in (("now", "blue"), ("baseline", "orange")):
        panel = in_colour(panel, name, colour)
        panel = with_band(panel, f"{name}, lower", f"{name}, upper", colour)
    return panel


def _changes() -> timeseries.Panel:
    panel = lines(
        "Change by segment",
        "Change of the selected metric, relative to the baseline of the same segment. Losses above"
        f" the upper dashed line ({SMALLEST}) raise no alert; below the lower one ({FAR_BELOW})"
        f" every metric of the whole pages. {COMPARED}",
        "percentunit",
        {
            "{{segment}}": change(SEGMENT, METRIC, IN_GROUPING),
            SMALLEST: f"-{setting(SMALLEST)}",
            FAR_BELOW: f"-{setting(FAR_BELOW)}",
        },
    )
    return threshold(threshold(panel, SMALLEST), FAR_BELOW)


def _verdicts() -> statetimeline.Panel:
    return states(
        "Better or worse, over time",
        "All traffic compared with its baseline. No traffic, undefined and no baseline yet are"
        " separate states; none of them is a score of 0.",
        {"all traffic": verdict(WHOLE)},
        VERDICTS,
    )


def _by_metric() -> table.Panel:
    by = "metric"
    return rows(
        "Every metric against its baseline",
        "Over all traffic. Certainty is the change in standard errors: from"
        f" {CLEAR_Z} on, above or below 0, the change is clear. {COMPARED}",
        {
            "Now": ("none", top(by, "recent_score", WINDOW, WHOLE)),
            "Baseline": ("none", top(by, "baseline_score", WINDOW, WHOLE)),
            "Change": ("percentunit", change(by, WHOLE)),
            "Certainty": ("none", z(by, WHOLE)),
        },
        {"metric": "Metric"},
        "Change",
    )


def _by_segment() -> table.Panel:
    by = "segment"
    here = (METRIC, IN_GROUPING)
    panel = rows(
        "Which segment moved most",
        "Worst first. Segments without traffic or without a defined score show that instead of a"
        f" score. Click a segment to open its dashboard. {COMPARED}",
        {
            "Now": ("none", recent_with_states(by, IN_GROUPING)),
            "Baseline": ("none", top(by, "baseline_score", WINDOW, *here)),
            "Change": ("percentunit", change(by, *here)),
            "Certainty": ("none", z(by, *here)),
            "Impressions": ("short", top(by, "recent_impressions", WINDOW, IN_GROUPING)),
        },
        {"segment": "Segment"},
        "Certainty",
    )
    url = f"{SEGMENT_URL}&var-segment=${{__value.raw:percentencode}}"
    link = [{"title": "Open segment ${__value.raw}", "url": url}]
    panel = panel.override_by_name("Segment", properties(links=link))
    return panel.override_by_name("Now", properties(mappings=mapped(STATES)))


def _traffic() -> timeseries.Panel:
    return counts(
        "Impressions",
        f"Impressions in the window, and their baseline. {COMPARED}",
        "short",
        {
            "now": top(SEGMENT, "recent_impressions", WINDOW, WHOLE),
            "baseline": top(SEGMENT, "baseline_impressions", WINDOW, WHOLE),
        },
    )


def _shares() -> timeseries.Panel:
    def of(which: str, name: str) -> str:
        part, whole = (
            top(SEGMENT, f"{which}_{count}", WINDOW, WHOLE) for count in (name, "impressions")
        )
        return share(part, whole)

    return counts(
        "Shares of impressions",
        "Impressions with feedback on an item, and with an empty result list. If feedback stops"
        f" while impressions continue, tracking is broken, not the ranking. {COMPARED}",
        "percentunit",
        {
            "with feedback": of("recent", "impressions_with_feedback"),
            "with feedback, baseline": of("baseline", "impressions_with_feedback"),
            "without results": of("recent", "zero_result_impressions"),
            "without results, baseline": of("baseline", "zero_result_impressions"),
        },
    )
