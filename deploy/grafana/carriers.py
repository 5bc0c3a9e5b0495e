"""Which segments carry the change of the whole: the part from their scores, and that from their
shares of the traffic."""

from grafana_foundation_sdk.builders import table, timeseries

from deploy.grafana.parts import lines, rows
from deploy.grafana.promql import IN_GROUPING, METRIC, WINDOW, top

SUM = (
    "Over all segments of the grouping the two parts add up to the change of the whole score, in"
    " its own unit, if its segments had the same shares in each earlier week. After a week with"
    " other shares they do not: the baseline of a score weighs weeks alike, its shares of traffic"
    " weigh weeks by their searches. Known for the windows 1h, 6h and 24h."
)


def carriers() -> tuple[timeseries.Panel, table.Panel]:
    """The panels: the sums over time, and the segments now."""
    return _sums(), _by_segment()


def _sums() -> timeseries.Panel:
    return lines(
        "Change of the whole: scores and shares of traffic",
        "How much of the change against the baseline comes from scores within the segments of the"
        " grouping, and how much from traffic that moved between them. Where the second prevails,"
        f" nothing is wrong with the ranking. {SUM}",
        "none",
        {
            "within segments": f"sum({_part('within')})",
            "from shares of traffic": f"sum({_part('mix')})",
        },
    ).span(24)


def _by_segment() -> table.Panel:
    return rows(
        "Which segments carry the change",
        f"The segment that pulls the whole down most comes first. {SUM}",
        {
            "Within": ("none", _part("within")),
            "From its share": ("none", _part("mix")),
        },
        {"segment": "Segment"},
        "Within",
    )


def _part(part: str) -> str:
    """The part of each segment."""
    recent, usual = (_of(side, "score") for side in ("recent", "baseline"))
    share, share_before = (
        f"({_of(side, 'scored_impressions')} / scalar(sum({_of(side, 'scored_impressions')})))"
        for side in ("recent", "baseline")
    )
    now, before = f"({recent} or {usual})", f"({usual} or {recent})"
    share = f"({share} or {share_before} * 0)"
    share_before = f"({share_before} or {share} * 0)"
    if part == "within":
        return f"({share} + {share_before}) / 2 * ({now} - {before})"
    return f"({share} - {share_before}) * ({now} + {before}) / 2"


def _of(side: str, what: str) -> str:
    return top("segment", f"{side}_{what}", METRIC, IN_GROUPING, WINDOW)
