"""The slow twin of the stream: the same numbers, from the whole log at once.

Nothing here is incremental. Each topic-partition is read in offset order and each event notes the
watermark it met; the accepted impressions and their lists are decided id by id; every feedback is
judged against the finished lists; gains, rows and totals are counted last. How the topics
interleave therefore cannot matter. It shares no code with the daemon, and must not.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from tests import oracle_arms
from tests.oracle_metrics import score

GRACE_MS = 5_000
NEVER = float("-inf")
FIELD_BYTES = 256
DEFAULT_METRICS = ("P@1", "P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10")
UNITS = {"IPS-P": 100_000, "IPS-DCG": 1_000}
"""Steps of a value of 1, where that is not a million."""
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)", re.ASCII)

RowKey = tuple[int, int, str, str]
WaitingFeedback = tuple[str, int, str | None, int | None, str | None, float | None]


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    value: bytes | None


@dataclass(frozen=True)
class OracleConfig:
    windows_s: tuple[int, ...] = (300, 3600, 86400)
    attribution_window_s: int = 1800
    lateness_s: int = 60
    grades: Mapping[str, float] = field(
        default_factory=lambda: {"click": 1, "add_to_cart": 2, "purchase": 3}
    )
    metric_names: tuple[str, ...] = DEFAULT_METRICS
    relevant_from: float = 1
    max_grade: float | None = None
    depth: int = 100
    groupings: tuple[tuple[str, ...], ...] = (("country",), ("device",), ("country", "device"))
    max_segments: int = 100
    max_future_s: int = 300
    max_record_bytes: int = 1048576
    units: Mapping[str, str] = field(default_factory=dict)
    """Declared experiments, and what they are dealt to."""
    stratify: Mapping[str, str] = field(default_factory=dict)
    """Some of them, and the grouping whose segments are counted apart."""
    discovered: int = 0
    """How many others are taken from events."""
    history_hours: int = 840
    hour_s: int = 3600
    propensities: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By surface, from rank 1 on."""
    surface: str = "surface"
    """The attribute that tells the surface."""
    default_surface: str | None = None
    clip: float = 10
    weighed_ranks: int = 0
    """Of the deepest weighed metric."""

    @property
    def highest_grade(self) -> float:
        return max(self.grades.values()) if self.max_grade is None else self.max_grade


@dataclass(frozen=True)
class Impression:
    id: str
    time_ms: int
    items: tuple[str, ...]
    first_rank: int
    attributes: Mapping[str, str]
    experiments: Mapping[str, str]
    grades: Mapping[str, float]
    user_id: str | None
    teams: tuple[str | None, ...]
    dropped: tuple[str, ...]
    """Why a value of an attribute or experiment was left out, one by one."""


@dataclass(frozen=True)
class Feedback:
    id: str
    time_ms: int
    kind: str | None
    item: str | None
    rank: int | None
    grade: float | None


@dataclass(frozen=True)
class Met:
    """An event and the watermark of its topic-partition just before it."""

    event: Impression | Feedback
    watermark: float


@dataclass
class Shown:
    """An accepted impression. None in `items` is a blank; the other lists go by place too."""

    id: str
    time_ms: int
    items: list[str | None] = field(default_factory=list)
    explicit: list[list[tuple[int, float]]] = field(default_factory=list)
    implicit: list[list[float]] = field(default_factory=list)
    segments: dict[str, str] = field(default_factory=dict)
    first_joined_ms: int | None = None
    dealt: Impression | None = None
    """The record that told whom it was shown to, and in which arms."""


@dataclass
class LaneResult:
    rows: dict[RowKey, dict[str, int]] = field(default_factory=dict)
    totals: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    hours: dict[tuple[int, str, str], dict[str, int]] = field(default_factory=dict)
    """(start of the hour in s, grouping, segment) → what has settled of it."""
    events: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    impression_outcomes: Counter[str] = field(default_factory=Counter)
    feedback_outcomes: Counter[str] = field(default_factory=Counter)
    segment_overflow: Counter[str] = field(default_factory=Counter)
    watermarks: dict[str, int | None] = field(default_factory=dict)
    open: dict[tuple[str, int], tuple[tuple[str | None, ...], tuple[float, ...]]] = field(
        default_factory=dict
    )
    waiting: list[WaitingFeedback] = field(default_factory=list)
    experiments: oracle_arms.Arms = field(default_factory=dict)
    experiment_overflow: Counter[str] = field(default_factory=Counter)


class Rejected(Exception):
    """One record or element cannot be used; the argument is the reason."""


# Events ---------------------------------------------------------------------------------------


def elements(record: Record, config: OracleConfig) -> list[object]:
    """The JSON values of a record: one, or as many as its array holds."""
    if record.value is None:
        raise Rejected("tombstone")
    if len(record.value) > config.max_record_bytes:
        raise Rejected("too_large")
    try:
        value: object = json.loads(record.value.decode("utf-8"), parse_constant=no_constant)
    except ValueError as error:
        raise Rejected("not_json") from error
    return value if isinstance(value, list) else [value]


def no_constant(name: str) -> float:
    raise ValueError(f"{name}: is not JSON")


def decode(value: object, config: OracleConfig) -> Impression | Feedback:
    if not isinstance(value, dict):
        raise Rejected("wrong_type")
    kind = required(value, "type")
    if not isinstance(kind, str):
        raise Rejected("wrong_type")
    if kind == "impression":
        return decode_impression(value, config)
    if kind == "feedback":
        return decode_feedback(value, config)
    raise Rejected("unknown_type")


def decode_impression(value: Mapping[str, object], config: OracleConfig) -> Impression:
    items = required(value, "items")
    if not isinstance(items, list):
        raise Rejected("wrong_type")
    first_rank = whole_number(value.get("first_rank"))
    if first_rank is None:
        first_rank = 1
    if first_rank < 1:
        raise Rejected("bad_rank")
    user = value.get("user_id")
    grades = object_field(value, "grades").items()
    shown = tuple(identifier(item) for item in items)
    grouped = {name for names in config.groupings for name in names} | {*config.units.values()}
    grouped |= {config.surface} if config.propensities else set()
    given = object_field(value, "attributes").items()
    asked = {n: v for n, v in given if n in grouped and not n.startswith("experiment:")}
    attributes, dropped = texts(asked)
    experiments, dropped_too = texts(object_field(value, "experiments"))
    return Impression(
        id=identifier(required(value, "impression_id")),
        time_ms=time_ms(required(value, "timestamp")),
        items=shown[: max(0, config.depth - first_rank + 1)],
        first_rank=first_rank,
        attributes=attributes,
        experiments=experiments,
        grades={identifier(item): grade_value(grade, config) for item, grade in grades},
        user_id=None if user is None else identifier(user),
        teams=teams_of(value.get("teams")),
        dropped=(*dropped, *dropped_too),
    )


def teams_of(value: object) -> tuple[str | None, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Rejected("wrong_type")
    return tuple(None if one is None else identifier(one) for one in value)


def decode_feedback(value: Mapping[str, object], config: OracleConfig) -> Feedback:
    kind, item, grade = value.get("kind"), value.get("item"), value.get("grade")
    rank = whole_number(value.get("rank"))
    if (kind is None and grade is None) or (item is None and rank is None):
        raise Rejected("missing_field")
    if kind is not None and not isinstance(kind, str):
        raise Rejected("wrong_type")
    if kind is not None and byte_length(kind) > FIELD_BYTES:
        raise Rejected("bad_attribute")
    if item is None and rank is not None and rank < 1:
        raise Rejected("bad_rank")
    return Feedback(
        id=identifier(required(value, "impression_id")),
        time_ms=time_ms(required(value, "timestamp")),
        kind=kind,
        item=None if item is None else identifier(item),
        rank=rank,
        grade=None if grade is None else grade_value(grade, config),
    )


def required(value: Mapping[str, object], name: str) -> object:
    if value.get(name) is None:
        raise Rejected("missing_field")
    return value[name]


def object_field(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    inner = value.get(name)
    if inner is None:
        return {}
    if not isinstance(inner, dict):
        raise Rejected("wrong_type")
    return inner


def byte_length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def identifier(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Rejected("wrong_type")
    if not 1 <= byte_length(str(value)) <= FIELD_BYTES:
        raise Rejected("bad_id")
    return str(value)


def whole_number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, type(None))):
        raise Rejected("bad_rank")
    return value


def grade_value(value: object, config: OracleConfig) -> float:
    """Negative grades become 0; those above the scale are refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Rejected("bad_grade")
    if not math.isfinite(value) or value > config.highest_grade:
        raise Rejected("bad_grade")
    return max(0.0, float(value))


def texts(values: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """Attributes or experiments as text, and why others are left out; null is missing."""
    result, dropped = {}, []
    for name, value in values.items():
        told = text(value)
        if told is None and value is not None:
            dropped.append("bad_value")
        elif told is not None and byte_length(name) > FIELD_BYTES:
            dropped.append("long_name")
        elif told is not None and byte_length(told) > FIELD_BYTES:
            dropped.append("long_value")
        elif told is not None:
            result[name] = told
    return result, dropped


def text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    return repr(value) if isinstance(value, float) and math.isfinite(value) else None


def time_ms(value: object) -> int:
    """Milliseconds since the epoch, from seconds, milliseconds or microseconds by magnitude."""
    if isinstance(value, str):
        return iso_time_ms(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e17:
        raise Rejected("bad_timestamp")
    if value < 1e11:
        return math.floor(value * 1000)
    return math.floor(value) if value < 1e14 else math.floor(value // 1000)


def iso_time_ms(value: str) -> int:
    match = _ISO.fullmatch(value)
    if match is None:
        raise Rejected("bad_timestamp")
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone}")
    except ValueError as error:
        raise Rejected("bad_timestamp") from error
    whole_s = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(seconds=1)
    if not 0 <= whole_s < 10**11:
        raise Rejected("bad_timestamp")
    return whole_s * 1000 + int(((fraction or "") + "000")[:3])


def read_partition(
    records: Iterable[Record], config: OracleConfig, result: LaneResult
) -> list[Met]:
    """The events of one topic-partition, each with the watermark that it met."""
    met: list[Met] = []
    watermark = NEVER
    for record in records:
        for event in usable_events(record, config, result.rejected):
            met.append(Met(event, watermark))
            watermark = max(watermark, event.time_ms)
            result.watermarks[record.topic] = int(watermark)
            result.events["impressions" if isinstance(event, Impression) else "feedback"] += 1
    return met


def usable_events(
    record: Record, config: OracleConfig, rejected: Counter[str]
) -> Iterator[Impression | Feedback]:
    """What decodes and is not too far ahead of the record's own timestamp."""
    try:
        values = elements(record, config)
    except Rejected as fault:
        rejected[str(fault)] += 1
        return
    for value in values:
        try:
            event = decode(value, config)
            check_not_future(event.time_ms, record.timestamp_ms, config)
        except Rejected as fault:
            rejected[str(fault)] += 1
        else:
            rejected.update(event.dropped if isinstance(event, Impression) else ())
            yield event


def check_not_future(event_ms: int, record_ms: int | None, config: OracleConfig) -> None:
    if record_ms is not None and event_ms > record_ms + config.max_future_s * 1000:
        raise Rejected("future")


# Time -----------------------------------------------------------------------------------------


def pane_s(window_s: int) -> int:
    """The least whole number of seconds that is at least window/30 and divides the window."""
    thirtieth_s = math.ceil(window_s / 30)
    return next(s for s in range(thirtieth_s, window_s + 1) if window_s % s == 0)


def base_pane_ms(config: OracleConfig) -> int:
    return pane_s(min(config.windows_s)) * 1000


def closes_ms(impression_ms: int, config: OracleConfig) -> int:
    """From this watermark on an impression of that time is closed, and its pane settled."""
    base = base_pane_ms(config)
    pane_end = impression_ms // base * base + base
    return pane_end + (config.attribution_window_s + config.lateness_s) * 1000


def dies_ms(feedback_ms: int, config: OracleConfig) -> int:
    """From this watermark on feedback of that time cannot join any more."""
    waits_s = config.attribution_window_s + config.lateness_s
    return feedback_ms + GRACE_MS + base_pane_ms(config) + waits_s * 1000


# Impressions ----------------------------------------------------------------------------------


def judge_impression(
    event: Impression, watermark: float, of_id: list[Shown], config: OracleConfig
) -> str:
    """The outcome of one record; `of_id` holds the id's accepted impressions, and grows."""
    is_open = [shown for shown in of_id if closes_ms(shown.time_ms, config) > watermark]
    if is_open and event.first_rank == 1:
        return repeat_first_page(event, is_open[0])
    if is_open:
        return add_later_page(event, is_open[0])
    if closes_ms(event.time_ms, config) <= watermark:
        return "late"
    if event.first_rank > 1:
        return "later_page"
    of_id.append(Shown(event.id, event.time_ms))
    bring(of_id[-1], event.items, event)
    return "accepted"


def repeat_first_page(event: Impression, shown: Shown) -> str:
    if list(event.items) == shown.items:
        return "duplicate"
    if shown.items:
        first_page_again = event.items and list(event.items) == shown.items[: len(event.items)]
        return "duplicate" if first_page_again else "conflicting"
    bring(shown, event.items, event)
    return "filled"


def add_later_page(event: Impression, shown: Shown) -> str:
    before, known = event.first_rank - 1, len(shown.items)
    if before > known:
        return "conflicting"
    page = [None if item in shown.items[:before] else item for item in event.items]
    overlap = known - before
    if page[:overlap] != shown.items[before:][: len(page)]:
        return "conflicting"
    rest = [None if item in shown.items else item for item in page[overlap:]]
    if not rest:
        return "duplicate"
    bring(shown, rest, event)
    return "extended"


def bring(shown: Shown, items: Sequence[str | None], event: Impression) -> None:
    """Append places; the record's own judgements go to the first place of each item in them."""
    for number, item in enumerate(items):
        first = item is not None and item not in items[:number]
        grade = event.grades.get(item) if first and item is not None else None
        shown.items.append(item)
        shown.explicit.append([] if grade is None else [(event.time_ms, grade)])
        shown.implicit.append([])


# Segments -------------------------------------------------------------------------------------


def admit(
    event: Impression,
    watermark: float,
    seen: dict[str, dict[str, int]],
    overflow: Counter[str],
    config: OracleConfig,
) -> dict[str, str]:
    """The segment of an accepted impression in each grouping; `seen` is kept per partition."""
    longest_s = max(config.windows_s)
    moment_ms = event.time_ms if watermark == NEVER else int(watermark)
    pane = moment_ms // (pane_s(longest_s) * 1000)
    segments = {"all": "all"}
    for names in config.groupings:
        grouping, value = ",".join(names), segment_value(names, event)
        last_seen = seen.setdefault(grouping, {})
        make_room(value, last_seen, pane - longest_s // pane_s(longest_s), config)
        if value in last_seen or len(last_seen) < 10 * config.max_segments:
            last_seen[value] = max(pane, last_seen.get(value, pane))
            segments[grouping] = value
        else:
            overflow[grouping] += 1
            segments[grouping] = "other"
    return segments


def make_room(value: str, last_seen: dict[str, int], oldest: int, config: OracleConfig) -> None:
    """Only a new value that finds no place drives out those not seen for the longest window."""
    if value in last_seen or len(last_seen) < 10 * config.max_segments:
        return
    for known in [known for known, pane in last_seen.items() if pane < oldest]:
        del last_seen[known]


def segment_value(names: tuple[str, ...], event: Impression) -> str:
    return ",".join(escaped(attribute(name, event)) for name in names)


def attribute(name: str, event: Impression) -> str | None:
    if name.startswith("experiment:"):
        return event.experiments.get(name.removeprefix("experiment:"))
    return event.attributes.get(name)


def escaped(value: str | None) -> str:
    if value is None:
        return "(none)"
    if value in ("all", "other"):
        return "\\" + value
    return value.replace("\\", "\\\\").replace(",", "\\,")


# Feedback -------------------------------------------------------------------------------------


def judge_feedback(
    event: Feedback,
    met_watermark: float,
    shown: Shown | None,
    lane_watermark: float,
    config: OracleConfig,
) -> str:
    """The final outcome, or `waiting`; `shown` is the candidate with its finished list."""
    dead = lane_watermark >= dies_ms(event.time_ms, config)
    if event.grade is None and event.kind not in config.grades:
        return "ignored_kind"
    if met_watermark >= dies_ms(event.time_ms, config):
        return "late"
    if shown is None:
        return "unjoined" if dead else "waiting"
    if event.time_ms > shown.time_ms + config.attribution_window_s * 1000:
        return "out_of_window"
    if find_place(event, shown.items) is not None:
        return "joined"
    too_deep = event.rank is not None and event.rank > config.depth
    if too_deep and (dead or event.item is None):
        return "beyond_depth"
    return "off_list" if dead else "waiting"


def candidate(
    feedback_ms: int, watermark: float, of_id: Sequence[Shown], config: OracleConfig
) -> Shown | None:
    """The earliest impression open to the feedback and not later than its time and the grace."""
    fitting = [
        shown
        for shown in of_id
        if closes_ms(shown.time_ms, config) > watermark and shown.time_ms <= feedback_ms + GRACE_MS
    ]
    return min(fitting, key=lambda shown: shown.time_ms, default=None)


def find_place(event: Feedback, items: Sequence[str | None]) -> int | None:
    """The place (rank - 1) of the feedback in the list; the id wins over the rank."""
    if event.item is None:
        assert event.rank is not None
        return event.rank - 1 if event.rank <= len(items) else None
    places = [place for place, item in enumerate(items) if item == event.item]
    if event.rank is not None and event.rank - 1 in places:
        return event.rank - 1
    return places[0] if places else None


def join(event: Feedback, shown: Shown, place: int, config: OracleConfig) -> None:
    if shown.first_joined_ms is None or event.time_ms < shown.first_joined_ms:
        shown.first_joined_ms = event.time_ms
    if event.grade is not None:
        shown.explicit[place].append((event.time_ms, event.grade))
    elif event.kind is not None:
        shown.implicit[place].append(float(config.grades[event.kind]))


# Rows -----------------------------------------------------------------------------------------


def gains(shown: Shown) -> list[float]:
    """Per place the latest explicit grade (of equal times the higher), else the best implicit."""
    return [
        max(explicit)[1] if explicit else max(implicit, default=0.0)
        for explicit, implicit in zip(shown.explicit, shown.implicit)
    ]


def contribution(shown: Shown, config: OracleConfig) -> dict[str, int]:
    """What one impression adds to each of its rows."""
    known = [bool(e or i) for e, i in zip(shown.explicit, shown.implicit)]
    row = {
        "impressions": 1,
        "impressions_with_feedback": int(any(known)),
        "zero_result_impressions": int(not shown.items),
        "items_with_feedback": sum(known),
    }
    weights, cut = weights_of(shown, config)
    for name in config.metric_names:
        if name == "FirstFeedbackSeconds":
            row |= delay_columns(name, shown)
            continue
        value = score(
            name,
            gains(shown)[: config.depth],
            relevant_from=config.relevant_from,
            max_grade=config.highest_grade,
            weights=weights,
        )
        row[f"{name}:scored"] = int(value is not None)
        number, unit = 0.0 if value is None else value, unit_of(name)
        row[f"{name}:sum"] = steps(number, unit)
        row[f"{name}:squares"] = steps(number * number, unit)
    if config.propensities:
        row |= weight_columns(shown, weights, cut, config)
    return row


def weights_of(shown: Shown, config: OracleConfig) -> tuple[list[float] | None, list[bool]]:
    """1 / propensity by rank, and where it was cut; None where no table is for the surface."""
    told = None if shown.dealt is None else shown.dealt.attributes.get(config.surface)
    surface = told if told in config.propensities else config.default_surface
    if surface is None:
        return None, []
    known = config.propensities[surface]
    ranks = range(config.depth)
    inverse = [known[0] / known[min(rank, len(known) - 1)] for rank in ranks]
    return [min(one, config.clip) for one in inverse], [one > config.clip for one in inverse]


def weight_columns(
    shown: Shown, weights: list[float] | None, cut: list[bool], config: OracleConfig
) -> dict[str, int]:
    """How many items were weighed, and how much, in ten thousandths."""
    gained = [at for at, gain in enumerate(gains(shown)[: config.weighed_ranks]) if gain > 0]
    told = [] if weights is None else gained
    return {
        "weighted_items": len(told),
        "clipped_items": sum(cut[at] for at in told),
        "weights": steps(sum(weights[at] for at in told) if weights else 0.0, 10_000),
        "squared_weights": steps(sum(weights[at] ** 2 for at in told) if weights else 0.0, 10_000),
    }


def delay_columns(name: str, shown: Shown) -> dict[str, int]:
    """Seconds from the impression to the earliest joined feedback, in thousandths."""
    if shown.first_joined_ms is None:
        return {f"{name}:scored": 0, f"{name}:sum": 0, f"{name}:squares": 0}
    seconds = max(shown.first_joined_ms - shown.time_ms, 0) / 1000
    numbers = (1, math.floor(1000 * seconds + 0.5001), math.floor(1000 * seconds**2 + 0.5001))
    return dict(zip((f"{name}:scored", f"{name}:sum", f"{name}:squares"), numbers))


def unit_of(name: str) -> int:
    """Steps for a value of 1."""
    return UNITS.get(re.split("[(@]", name)[0], 10**6)


def steps(value: float, unit: int) -> int:
    return math.floor(unit * value + 0.5001)


def add_to(row: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        row[name] = row.get(name, 0) + number


def count_rows(
    shown: Shown, lane_watermark: float, config: OracleConfig, result: LaneResult
) -> None:
    """The impression's rows in every window, and the totals once its base pane has settled."""
    numbers = contribution(shown, config)
    settled = closes_ms(shown.time_ms, config) <= lane_watermark
    for grouping, segment in shown.segments.items():
        for window_s in config.windows_s:
            start_s = shown.time_ms // 1000 // pane_s(window_s) * pane_s(window_s)
            add_to(result.rows.setdefault((window_s, start_s, grouping, segment), {}), numbers)
        if settled:
            add_to(result.totals.setdefault((grouping, segment), {}), numbers)
            hour_s = hour_start_s(shown.time_ms, config)
            if config.history_hours and hour_s >= first_hour_s(lane_watermark, config):
                add_to(result.hours.setdefault((hour_s, grouping, segment), {}), numbers)
    if not settled:
        result.open[shown.id, shown.time_ms] = (tuple(shown.items), tuple(gains(shown)))


def hour_start_s(time_ms: int, config: OracleConfig) -> int:
    """The hour that holds the start of the base pane that holds the instant."""
    base = base_pane_ms(config)
    return time_ms // base * base // 1000 // config.hour_s * config.hour_s


def first_hour_s(lane_watermark: float, config: OracleConfig) -> int:
    """The first hour that is kept: so many before the one where settling has arrived."""
    waits_s = config.attribution_window_s + config.lateness_s
    settling_s = hour_start_s(int(lane_watermark) - waits_s * 1000, config)
    return settling_s - config.history_hours * config.hour_s


# The whole ------------------------------------------------------------------------------------


def run(
    records: Iterable[Record], topics: Sequence[str], config: OracleConfig
) -> dict[int, LaneResult]:
    """The final state of every lane that has a record."""
    partitions: dict[int, dict[str, list[Record]]] = {}
    for record in records:
        lane = partitions.setdefault(record.partition, {topic: [] for topic in topics})
        lane[record.topic].append(record)
    return {lane: run_lane(of_topic, config) for lane, of_topic in sorted(partitions.items())}


def run_lane(of_topic: Mapping[str, Sequence[Record]], config: OracleConfig) -> LaneResult:
    result = LaneResult(watermarks={topic: None for topic in of_topic})
    met = [read_partition(records, config, result) for records in of_topic.values()]
    lane_watermark = min(NEVER if mark is None else mark for mark in result.watermarks.values())
    shown = accept_impressions(met, config, result)
    for one in (one for events in met for one in events):
        if isinstance(one.event, Feedback):
            of_id = shown.get(one.event.id, [])
            count_feedback(one.event, one.watermark, of_id, lane_watermark, config, result)
    for impression in (impression for of_id in shown.values() for impression in of_id):
        count_rows(impression, lane_watermark, config, result)
    everything = (impression for of_id in shown.values() for impression in of_id)
    settled = settled_of(everything, lane_watermark, config)
    overflow = result.experiment_overflow
    result.experiments = oracle_arms.run(
        settled, config.units, config.discovered, overflow, config.stratify
    )
    result.waiting.sort(key=lambda one: [(part is not None, part) for part in one])
    return result


def settled_of(
    shown: Iterable[Shown], lane_watermark: float, config: OracleConfig
) -> Iterator[oracle_arms.Settled]:
    base = base_pane_ms(config)
    for one in shown:
        event = one.dealt
        if event is not None and closes_ms(one.time_ms, config) <= lane_watermark:
            yield oracle_arms.Settled(
                one.time_ms // base * base,
                one.id,
                event.user_id,
                event.attributes,
                event.experiments,
                contribution(one, config),
                tuple(gains(one)),
                event.teams,
                one.segments,
            )


def accept_impressions(
    met: Sequence[Sequence[Met]], config: OracleConfig, result: LaneResult
) -> dict[str, list[Shown]]:
    """The accepted impressions of every id, oldest first, with their final lists and segments."""
    shown: dict[str, list[Shown]] = {}
    home: dict[str, int] = {}
    for number, events in enumerate(met):
        seen: dict[str, dict[str, int]] = {}
        for event, watermark in ((one.event, one.watermark) for one in events):
            if not isinstance(event, Impression):
                continue
            if home.setdefault(event.id, number) != number:
                raise ValueError(f"impression_id={event.id}: must come from one topic only")
            of_id = shown.setdefault(event.id, [])
            outcome = judge_impression(event, watermark, of_id, config)
            result.impression_outcomes[outcome] += 1
            if outcome == "accepted":
                overflow = result.segment_overflow
                of_id[-1].dealt = event
                of_id[-1].segments = admit(event, watermark, seen, overflow, config)
    return shown


def count_feedback(
    event: Feedback,
    met_watermark: float,
    of_id: Sequence[Shown],
    lane_watermark: float,
    config: OracleConfig,
    result: LaneResult,
) -> None:
    shown = candidate(event.time_ms, met_watermark, of_id, config)
    outcome = judge_feedback(event, met_watermark, shown, lane_watermark, config)
    if outcome == "waiting":
        waits = (event.id, event.time_ms, event.item, event.rank, event.kind, event.grade)
        result.waiting.append(waits)
        return
    result.feedback_outcomes[outcome] += 1
    place = find_place(event, shown.items) if outcome == "joined" and shown is not None else None
    if place is None or shown is None:
        return
    join(event, shown, place, config)
    if event.rank is not None and event.rank != place + 1:
        result.feedback_outcomes["rank_mismatch"] += 1
