"""`[changes]`: how scores and the pipeline are judged, with the bounds and the help of each key.
Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ...changes import ChangeSettings, ScoreFloor
from ...mapping import Zone
from ...plan import ALL
from ..values.kinds import (
    InvalidValue,
    Kind,
    integer,
    json_or_text,
    number,
    number_text,
    quoted,
    read_each,
    setting,
    table,
    text,
)
from ..values.shared_rules import ConfigFault
from .source_keys import time_zone

SECTION: Final = "changes"
HIGHEST_DESIGN_EFFECT: Final = 1000
LONGEST_S: Final = 366 * 86_400

_FLOOR_KEYS: Final = ("metric", "grouping", "segment", "floor")
_SHARE = number("must be a number between 0 and 1", lambda v: 0 <= v <= 1)
_RATIO = number("must be a number > 0 and < 1", lambda v: 0 < v < 1)
_NOT_NEGATIVE = number("must be a number >= 0", lambda v: v >= 0)
_POSITIVE = number("must be a number > 0", lambda v: v > 0)
_DESIGN_EFFECT = number(
    f"must be a number between 1 and {HIGHEST_DESIGN_EFFECT}",
    lambda v: 1 <= v <= HIGHEST_DESIGN_EFFECT,
)


def _read_floor(value: object) -> ScoreFloor:
    rule = "must be a table with the keys metric, grouping, segment and floor"
    if not isinstance(value, dict) or not {"metric", "floor"} <= value.keys() <= set(_FLOOR_KEYS):
        raise InvalidValue((value, rule))
    name = text(rule=f"{rule}: each name a text, the floor a number")
    floor = number("floor must be a number", lambda _: True).read(value["floor"])
    names = (value["metric"], value.get("grouping", ALL), value.get("segment", ALL))
    metric, grouping, segment = map(name.read, names)
    return ScoreFloor(metric, grouping, segment, floor)


def _written_floor(floor: ScoreFloor) -> str:
    names = (floor.metric, floor.grouping, floor.segment)
    written = [*map(quoted, names), number_text(floor.floor)]
    pairs = zip(_FLOOR_KEYS, written, strict=True)
    return "{ " + ", ".join(f"{key} = {value}" for key, value in pairs) + " }"


def _floors() -> Kind[tuple[ScoreFloor, ...]]:
    """A list of tables. In the environment: JSON."""

    def read(value: object) -> tuple[ScoreFloor, ...]:
        if not isinstance(value, list):
            rule = "must be a list of tables {metric, grouping, segment, floor}"
            raise InvalidValue((value, rule))
        return tuple(read_each(value, _read_floor))

    def write(floors: tuple[ScoreFloor, ...]) -> str:
        return f"[{', '.join(map(_written_floor, floors))}]"

    return Kind("list of tables", read, write, json_or_text)


@dataclass(frozen=True)
class ChangesSection(ChangeSettings):
    """How scores and the pipeline are judged. The alert rules, the API and the page use the same
    settings; none of them shapes what is stored."""

    design_effect: float = setting(
        ChangeSettings.design_effect,
        _DESIGN_EFFECT,
        "Least design effect to judge with: variance of a mean over impressions, as a multiple "
        "of that of independent ones. A larger measured one counts.",
    )
    smallest_drop_ratio: float = setting(
        ChangeSettings.smallest_drop_ratio,
        _SHARE,
        "A loss of a smaller share of the usual score raises no alert.",
    )
    smallest_drop: float = setting(
        ChangeSettings.smallest_drop, _NOT_NEGATIVE, "A smaller absolute loss raises no alert."
    )
    smallest_sample: int = setting(
        ChangeSettings.smallest_sample,
        integer(2, 10**9),
        "Fewer scored impressions in a window raise no alert.",
    )
    far_below_ratio: float = setting(
        ChangeSettings.far_below_ratio,
        _RATIO,
        "A loss of this share of the usual score pages for every metric of the whole.",
    )
    drift_ratio: float = setting(
        ChangeSettings.drift_ratio,
        _RATIO,
        "Least standard deviation of a score's drift from week to week beyond its sampling "
        "error, as a share of the score.",
    )
    weekday_drift_ratio: float = setting(
        ChangeSettings.weekday_drift_ratio,
        _SHARE,
        "The same between days of the week: added while the usual is made of other weekdays.",
    )
    share_drift_ratio: float = setting(
        ChangeSettings.share_drift_ratio,
        _SHARE,
        "The same of the shares of impressions with feedback and without results.",
    )
    feedback_share_drop_ratio: float = setting(
        ChangeSettings.feedback_share_drop_ratio,
        _RATIO,
        "A loss of this share of the usual share of impressions with feedback raises an alert.",
    )
    zero_results_rise_ratio: float = setting(
        ChangeSettings.zero_results_rise_ratio,
        _POSITIVE,
        "A rise of the share of impressions without results by this ratio raises an alert.",
    )
    no_data_ratio: float = setting(
        ChangeSettings.no_data_ratio,
        _RATIO,
        "Traffic below this share of the usual raises an alert.",
    )
    feedback_stopped_ratio: float = setting(
        ChangeSettings.feedback_stopped_ratio,
        _RATIO,
        "Feedback per impression below this share of that of the last day raises an alert.",
    )
    bad_feedback_rise: float = setting(
        ChangeSettings.bad_feedback_rise,
        _SHARE,
        "Feedback that is unjoined, off the list, or of another rank raises an alert where its "
        "share exceeds twice that of the day before by this.",
    )
    late_seconds: int = setting(
        ChangeSettings.late_seconds,
        integer(1, LONGEST_S),
        "Live windows that ended longer ago raise an alert.",
    )
    lag_records: int = setting(
        ChangeSettings.lag_records,
        integer(1, 10**12),
        "More unread records of a topic raise an alert.",
    )
    rejected_ratio: float = setting(
        ChangeSettings.rejected_ratio, _SHARE, "A larger share of rejected records raises an alert."
    )
    dead_letters_per_hour: float = setting(
        ChangeSettings.dead_letters_per_hour,
        _NOT_NEGATIVE,
        "More dead letters in an hour raise an alert.",
    )
    forget_after_seconds: int = setting(
        ChangeSettings.forget_after_seconds,
        integer(3600, LONGEST_S),
        "An installation that no longer answers raises an alert for this long.",
    )
    guardrail_log_evalue: float = setting(
        ChangeSettings.guardrail_log_evalue,
        _POSITIVE,
        "ln e-value that raises an alert on a guardrail: with ln 100, at most 1 in 100 "
        "guardrails ever raises a false one.",
    )
    sample_ratio_log_evalue: float = setting(
        ChangeSettings.sample_ratio_log_evalue,
        _POSITIVE,
        "The same for a sample ratio mismatch: with ln 1000, at most 1 in 1,000 experiments.",
    )
    time_zone: Zone = setting(
        "UTC",
        time_zone(),
        "The local time of most searches: days and weeks are compared by its hours.",
    )
    metric_drift_ratios: dict[str, float] = setting(
        {},
        table("table of metric to ratio", _RATIO),
        "Metrics whose drift_ratio differs.",
    )
    score_floors: tuple[ScoreFloor, ...] = setting(
        [
            {"metric": f.metric, "grouping": f.grouping, "segment": f.segment, "floor": f.floor}
            for f in ChangeSettings.score_floors
        ],
        _floors(),
        "Floors of scores, whatever is usual: raise them to the level that you guarantee.",
    )


def resolved(given: ChangeSettings, canonical: Mapping[str, str]) -> ChangeSettings:
    """The settings with the names that series have: a drift for each metric, and the floors of
    metrics that are computed. `canonical`: each spelling of a configured metric → its name."""
    own = {canonical[name]: ratio for name, ratio in given.metric_drift_ratios.items()}
    drifts = {name: own.get(name, given.drift_ratio) for name in canonical.values()}
    floors = tuple(
        replace(floor, metric=canonical[floor.metric])
        for floor in given.score_floors
        if floor.metric in canonical
    )
    return ChangeSettings(**{**vars(given), "metric_drift_ratios": drifts, "score_floors": floors})


def faults_of(
    given: ChangeSettings, metrics: Collection[str], groupings: Collection[str]
) -> Iterator[ConfigFault]:
    """Every fault of the names that the settings contain. `metrics` are the configured metrics by
    each of their spellings, `groupings` the names of the configured groupings."""
    for metric in given.metric_drift_ratios:
        if metric not in metrics:
            key = f"{SECTION}.metric_drift_ratios"
            yield ConfigFault(key, metric, "must be one of metrics.names")
    for floor in given.score_floors:
        written = _written_floor(floor)
        key = f"{SECTION}.score_floors"
        # The default floor stays without effect where its metric is not computed.
        if floor.metric not in metrics and floor not in ChangeSettings.score_floors:
            yield ConfigFault(key, written, "metric must be one of metrics.names")
        if floor.grouping not in (ALL, *groupings):
            yield ConfigFault(key, written, "grouping must be all or one of segments.groupings")
        if (floor.grouping == ALL) != (floor.segment == ALL):
            yield ConfigFault(key, written, "needs both grouping and segment, or neither")
    of = [(floor.metric, floor.grouping, floor.segment) for floor in given.score_floors]
    for floor, names in zip(given.score_floors, of, strict=True):
        if of.count(names) > 1:
            yield ConfigFault(f"{SECTION}.score_floors", _written_floor(floor), "is there twice")
