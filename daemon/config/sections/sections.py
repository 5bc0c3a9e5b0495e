"""The table of settings: a frozen class per section, with default, kind and help of each key. Those
that need more have files of their own beside this one. Pure.

Reading, writing and the namespace hash are all made from this table.
"""

from dataclasses import dataclass
from typing import Final

from ...events import BY_ID, JOINS, LISTS, LOGGED
from ..values.kinds import (
    JOIN,
    LAYOUT,
    PATH,
    TOPIC,
    choice,
    duration,
    flag,
    groupings,
    integer,
    number,
    optional,
    setting,
    several,
    table,
    text,
)

_LISTEN = text(
    r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]*):\d{1,5}",
    'must be host:port or :port, such as "0.0.0.0:9465"',
)


@dataclass(frozen=True)
class EventsSection:
    """How records are decoded."""

    format: str = setting("native", text(), "Format of the records.", shapes=JOIN)
    max_future_s: int = setting(
        "5m",
        duration(1000, 0),
        "How far an event may be ahead of the Kafka timestamp of its record.",
        shapes=JOIN,
    )
    max_record_bytes: int = setting(
        1_048_576, integer(1, 2**31 - 1), "Larger records are refused.", shapes=JOIN
    )
    dead_letter_topic: str | None = setting(
        None, optional(TOPIC), "Topic to which refused records are sent. Default: none."
    )
    rank_base: int = setting(
        1,
        integer(0, 1),
        "Rank of the first item, in formats that leave it to the producer.",
        shapes=JOIN,
    )
    ubi_lists: str = setting(
        LOGGED,
        choice(*LISTS),
        "Lists of ubi: logged with the query, or made of the items shown.",
        shapes=JOIN,
    )


@dataclass(frozen=True)
class WorkerSection:
    """Limits of a process that reads events."""

    max_memory_mib: int | None = setting(
        None,
        optional(integer(1, 1 << 30)),
        "Memory (MiB) at which reading pauses. Default: 85 % of the container's limit, if any.",
    )


@dataclass(frozen=True)
class HttpSection:
    """The HTTP server."""

    listen: str = setting("0.0.0.0:9465", _LISTEN, "Address and port to listen on.")
    web_config: str | None = setting(
        None,
        PATH,
        "Web configuration file (TLS, passwords), in the format of Prometheus exporters.",
    )

    @property
    def host(self) -> str:
        """Address to listen on; empty for all of them."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Port to listen on; 0 for any free one."""
        return int(self.listen.rpartition(":")[2])


@dataclass(frozen=True)
class LogSection:
    """The log on the standard error stream."""

    level: str = setting(
        "info", choice("debug", "info", "warning", "error"), "Lowest severity that is logged."
    )
    format: str = setting(
        "auto", choice("auto", "console", "json"), "auto is console on a terminal, else json."
    )
    record_values: bool = setting(
        False,
        flag(),
        "Whether lines on refused records show the refused value, which may be personal data.",
    )


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
        "Grade of each kind of feedback. A table replaces the whole default.",
        shapes=JOIN,
    )
    join: str = setting(
        BY_ID,
        choice(*JOINS),
        "By what feedback joins: its id, or the visitor's latest list that had the item.",
        shapes=JOIN,
    )
    touch_wait_s: int = setting(
        "10s",
        duration(1000, 5000),
        "How long last touch waits for lists that come later: 5s to attribution.lateness.",
        shapes=JOIN,
    )

    @property
    def is_by_id(self) -> bool:
        """Whether all feedback joins by its id."""
        return self.join == BY_ID


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
        "Values of a grouping that are admitted. Default: 10 times max_segments, at least 1000.",
        shapes=LAYOUT,
    )
    discovered_experiments: int = setting(
        8,
        integer(0, 1_000),
        "Experiments that are taken from events beside those declared; 0: none.",
        shapes=LAYOUT,
    )


@dataclass(frozen=True)
class HistorySection:
    """The history that baselines are computed from."""

    days: int = setting(
        35,
        integer(0, 400),
        "Days of settled hourly rows that are kept for baselines; 0: none.",
        shapes=LAYOUT,
    )
