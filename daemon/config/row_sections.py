"""The sections of the settings that shape rows: attribution, metrics, segments, history. Pure."""

from dataclasses import dataclass
from typing import Final

from .kinds import JOIN, LAYOUT, duration, integer, number, optional, setting, text
from .lists import groupings, several, table

HIGHEST_GRADE: Final = 1000
"""Up to this grade the sum of exponential gains, 2 ** grade, over a list is finite."""
_GRADE = number(
    f"must be a number between 0 and {HIGHEST_GRADE}", lambda v: 0 <= v <= HIGHEST_GRADE
)
_POSITIVE = number(f"must be > 0 and <= {HIGHEST_GRADE}", lambda v: 0 < v <= HIGHEST_GRADE)


@dataclass(frozen=True)
class AttributionSection:
    """Which feedback counts for which impression, and how much."""

    window_s: int = setting(
        "30m", duration(1000, 1000), "How long after its impression feedback counts.", shapes=JOIN
    )
    lateness_s: int = setting(
        "1m",
        duration(1000, 0),
        "How late an event may be, compared with the events before it.",
        shapes=JOIN,
    )
    pane_s: int | None = setting(
        None,
        optional(duration(1000, 1000)),
        "Length of a base pane, the unit of lateness. Default: a 30th of the shortest window.",
        shapes=JOIN,
    )
    grades: dict[str, float] = setting(
        {"click": 1, "add_to_cart": 2, "purchase": 3},
        table("table of kind to grade", _GRADE),
        "Grade of each kind of feedback. A table that is given replaces the whole default.",
        shapes=JOIN,
    )


@dataclass(frozen=True)
class MetricsSection:
    """The metrics that are computed."""

    names: tuple[str, ...] = setting(
        ["P@1", "P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10"],
        several(text(rule="must be the name of a metric"), "list of metrics"),
        "Metrics, spelled as `nDCG@10` or `nDCG(gain=linear)@10`.",
        shapes=LAYOUT,
    )
    relevant_from: float = setting(
        1,
        _POSITIVE,
        "Lowest gain of a relevant item, for P, RR, Success and the like.",
        shapes=LAYOUT,
    )
    max_grade: float | None = setting(
        None,
        optional(_POSITIVE),
        "Highest grade that can be given. Default: the highest of attribution.grades.",
        shapes=JOIN,
    )
    depth: int = setting(100, integer(1, 1000), "Ranks of a list that are kept.", shapes=JOIN)


@dataclass(frozen=True)
class SegmentsSection:
    """The breakdown of traffic into segments."""

    groupings: tuple[tuple[str, ...], ...] = setting(
        [["country"], ["device"], ["country", "device"]],
        groupings(),
        "Lists of attribute names. `experiment:NAME` stands for the variant of an experiment.",
        shapes=LAYOUT,
    )
    max_segments: int = setting(
        100,
        integer(1, 100_000),
        "Largest number of segments of a grouping that get series.",
    )
    version_attribute: str | None = setting(
        None, optional(text()), "Attribute, a grouping of its own, whose new values are releases."
    )
    max_values: int | None = setting(
        None,
        optional(integer(1, 1_000_000)),
        "Distinct values of a grouping that are admitted. Default: 10 times max_segments, at least"
        " 1000.",
        shapes=LAYOUT,
    )
    discovered_experiments: int = setting(
        8,
        integer(0, 1_000),
        "Number of experiments that are taken from events besides [experiments.NAME]; 0: none.",
        shapes=LAYOUT,
    )


@dataclass(frozen=True)
class HistorySection:
    """The history that baselines are computed from."""

    days: int = setting(
        35,
        integer(0, 400),
        "Days of settled hourly rows that are kept for baselines; 0 keeps none. A new namespace "
        'begins at kafka.start: "earliest" fills the history from all records that Kafka retains.',
        shapes=LAYOUT,
    )
