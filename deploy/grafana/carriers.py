"""Which segments carry the change of the whole: the part from their scores, and that from their
shares of the traffic."""

from grafana_foundation_sdk.builders import table, timeseries

from deploy.grafana.parts import lines, rows
from deploy.grafana.promql import IN_GROUPING, METRIC, WINDOW, recorded

_HERE = (METRIC, IN_GROUPING, WINDOW)
EXACT = (
    "Over all segments of the grouping the two parts add up exactly to the change of the whole"
    " score, in its own unit. The recording rules make them, for the windows 1h, 6h and 24h."
)


def carriers() -> tuple[timeseries.Panel, table.Panel]:
    """The panels: the sums over time, and the segments now."""
    return _sums(), _by_segment()


def _sums() -> timeseries.Panel:
    return lines(
        "Change of the whole: scores and shares of traffic",
        "How much of the change against the baseline comes from scores within the segments of the"
        " grouping, and how much from traffic that moved between them. Where the second prevails,"
        f" nothing is wrong with the ranking. {EXACT}",
        "none",
        {
            "within segments": _part("change_within:sum", "grouping"),
            "from shares of traffic": _part("change_mix:sum", "grouping"),
        },
    ).span(24)


def _by_segment() -> table.Panel:
    return rows(
        "Which segments carry the change",
        f"The segment that pulls the whole down most comes first. {EXACT}",
        {
            "Within": ("none", _part("change_within", "segment")),
            "From its share": ("none", _part("change_mix", "segment")),
        },
        {"segment": "Segment"},
        "Within",
    )


def _part(name: str, by: str) -> str:
    return f"max by ({by}) ({recorded(f'score:{name}', *_HERE)})"
