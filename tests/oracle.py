"""The oracle: a slow, obvious twin of the daemon that computes the same state from the whole log.

Nothing here is incremental. Each topic-partition is read in offset order, and each event gets the
watermark of its topic-partition just before it. Then the accepted impressions and their final lists
are decided id by id, then the outcome of all feedback by these lists, and gains, rows and totals
last. So the result cannot depend on how the topics interleave. The oracle shares no code with the
daemon, and must not.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from hashlib import blake2b
from types import MappingProxyType

from aiokafka.partitioner import DefaultPartitioner

from tests import oracle_arms, oracle_queries, oracle_ubi
from tests.oracle_metrics import score

GRACE_MS = 5_000
JUMP_MS = 300_000
CONFIRMING = 4
CONFIRMED_OVER_MS = 60_000
MOST_NEAR = 24
NEVER = float("-inf")
FIELD_BYTES = 256
MAX_ELEMENTS = 50_000
DEFAULT_METRICS = ("P@1", "P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10")
UNITS = {"IPS-P": 100_000, "IPS-DCG": 1_000}
"""Integer steps of a value of 1, of metrics for which it is not a million."""
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
    """Declared experiment → the unit that is assigned to its variants."""
    stratify: Mapping[str, str] = field(default_factory=dict)
    """Declared experiment → the grouping by whose segments it is counted as well."""
    discovered: int = 0
    """Highest number of undeclared experiments that are taken from events."""
    history_hours: int = 840
    hour_s: int = 3600
    propensities: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Surface → propensities from rank 1 on."""
    surface: str = "surface"
    """The attribute with the surface."""
    default_surface: str | None = None
    clip: float = 10
    weighted_ranks: int = 0
    """The deepest cut-off of the metrics weighted by propensities."""
    derive: Mapping[str, oracle_queries.Rule] = field(default_factory=dict)
    """Attribute → the rule by which it is derived from the query."""
    join: str = "id"
    touch_wait_s: int = 5
    most_touched: int = 100
    """The latest impressions of one visitor that last touch looks at."""
    ubi_shown: bool = False
    """Whether records are UBI, whose lists are made of impression events."""

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
    """The reason for each value of an attribute or experiment that was left out."""
    by_item: bool = False
    """Whether it is one item of its list, at `first_rank`."""
    visitor: str | None = None

    @property
    def identity(self) -> str:
        return self.id


@dataclass(frozen=True)
class Feedback:
    id: str
    time_ms: int
    kind: str | None
    item: str | None
    rank: int | None
    grade: float | None
    visitor: str | None = None
    """Of feedback that joins by last touch, whose id is empty."""

    @property
    def identity(self) -> str:
        return f"visitor {visitor_hash(self.visitor):016x}" if self.visitor else self.id


def visitor_hash(visitor: str) -> int:
    digest = blake2b(visitor.encode(), digest_size=8, person=b"relevanced users").digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class EventAtWatermark:
    """An event, the watermark of its topic-partition just before it, and that which it meets."""

    event: Impression | Feedback
    watermark: float
    met: float


@dataclass
class Accepted:
    """An accepted impression; `items`, `explicit` and `implicit` go by rank. A blank is None."""

    id: str
    time_ms: int
    items: list[str | None] = field(default_factory=list)
    explicit: list[list[tuple[int, float]]] = field(default_factory=list)
    implicit: list[list[float]] = field(default_factory=list)
    segments: dict[str, str] = field(default_factory=dict)
    first_joined_ms: int | None = None
    event: Impression | None = None
    """The event that was accepted: it has the user and the experiments."""
    met: float = NEVER
    """The watermark that it met; its own time where it was the first event."""
    items_met: dict[int, float] = field(default_factory=dict)
    """Rank from 0 → the watermark that its item met."""


@dataclass
class LaneResult:
    rows: dict[RowKey, dict[str, int]] = field(default_factory=dict)
    totals: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    hours: dict[tuple[int, str, str], dict[str, int]] = field(default_factory=dict)
    """(start of the hour in s, grouping, segment) → the row of what has settled."""
    events: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    impression_outcomes: Counter[str] = field(default_factory=Counter)
    feedback_outcomes: Counter[str] = field(default_factory=Counter)
    segment_overflow: Counter[str] = field(default_factory=Counter)
    ahead: Counter[str] = field(default_factory=Counter)
    """Events ahead of the watermark, by topic."""
    watermarks: dict[str, int | None] = field(default_factory=dict)
    open: dict[tuple[str, int], tuple[tuple[str | None, ...], tuple[float, ...]]] = field(
        default_factory=dict
    )
    waiting: list[WaitingFeedback] = field(default_factory=list)
    experiments: oracle_arms.Arms = field(default_factory=dict)
    experiment_overflow: Counter[str] = field(default_factory=Counter)
    impressions: list[Accepted] = field(default_factory=list)
    """All that were accepted, with their final lists, feedback and segments."""


class Rejected(Exception):
    """A record or an element of it is invalid; the argument is the reason."""


# Events ---------------------------------------------------------------------------------------


def elements(record: Record, config: OracleConfig) -> list[object]:
    """The JSON values of a record: one, or the elements of its array."""
    if record.value is None:
        raise Rejected("tombstone")
    if len(record.value) > config.max_record_bytes:
        raise Rejected("too_large")
    try:
        value: object = json.loads(record.value.decode("utf-8"), parse_constant=no_constant)
    except ValueError as error:
        raise Rejected("not_json") from error
    if isinstance(value, list) and len(value) > MAX_ELEMENTS:
        raise Rejected("too_large")
    return list(map(well_formed, value)) if isinstance(value, list) else [well_formed(value)]


def well_formed(value: object) -> object:
    """The value with U+FFFD for each half of a surrogate pair in its texts."""
    if isinstance(value, dict):
        return {well_formed(name): well_formed(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(well_formed, value))
    return re.sub("[\ud800-\udfff]", "\ufffd", value) if isinstance(value, str) else value


def no_constant(name: str) -> float:
    raise ValueError(f"{name}: is not JSON")


def decode(value: object, config: OracleConfig) -> Impression | Feedback:
    if not isinstance(value, dict):
        raise Rejected("wrong_type")
    if config.ubi_shown:
        native = oracle_ubi.as_native(value)
        if isinstance(native, str):
            raise Rejected(native)
        value = native
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
    ids = tuple(identifier(item) for item in items)
    grouped = {name for names in config.groupings for name in names} | {*config.units.values()}
    grouped |= {config.surface} if config.propensities else set()
    given = object_field(value, "attributes").items()
    grouped -= {*config.derive}
    needed = {n: v for n, v in given if n in grouped and not n.startswith("experiment:")}
    attributes, dropped = texts(needed)
    query, bad = oracle_queries.query_of(value.get("query")) if config.derive else (None, [])
    experiments, dropped_too = texts(object_field(value, "experiments"))
    at_ms = time_ms(required(value, "timestamp"))
    return Impression(
        id=identifier(required(value, "impression_id")),
        time_ms=at_ms,
        items=ids[: max(0, config.depth - first_rank + 1)],
        first_rank=first_rank,
        attributes=attributes | oracle_queries.derived(config.derive, query, at_ms),
        experiments=experiments,
        grades={
            identifier(item): grade_value(grade, config)
            for item, grade in grades
            if grade is not None
        },
        user_id=None if user in (None, "") else identifier(user),
        teams=teams_of(value.get("teams")),
        dropped=(*dropped, *dropped_too, *bad),
        by_item=by_item_of(value, ids),
        visitor=visitor_of(value) if config.join != "id" else None,
    )


def visitor_of(value: Mapping[str, object]) -> str | None:
    named = [value.get(name) for name in ("visitor", "user_id")]
    ids = [identifier(one) for one in named if one not in (None, "")]
    return ids[0] if ids else None


def by_item_of(value: Mapping[str, object], ids: Sequence[str]) -> bool:
    by_item = value.get("by_item")
    if not isinstance(by_item, bool | None):
        raise Rejected("wrong_type")
    if by_item and (len(ids) > 1 or value.get("teams") is not None):
        raise Rejected("wrong_type")
    return bool(by_item)


def teams_of(value: object) -> tuple[str | None, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise Rejected("wrong_type")
    return tuple(None if team in (None, "") else identifier(team) for team in value)


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
    id_, visitor = joins_by(value, config)
    if not id_ and item is None:
        raise Rejected("missing_field")
    return Feedback(
        id=id_,
        visitor=visitor,
        time_ms=time_ms(required(value, "timestamp")),
        kind=kind,
        item=None if item is None else identifier(item),
        rank=rank,
        grade=None if grade is None else grade_value(grade, config),
    )


def joins_by(value: Mapping[str, object], config: OracleConfig) -> tuple[str, str | None]:
    """The id of feedback, or "" and its visitor."""
    if config.join == "id":
        return identifier(required(value, "impression_id")), None
    stated = value.get("impression_id")
    id_ = None if stated is None else identifier(stated)
    if id_ is not None and config.join == "id, else last_touch":
        visitor_of(value)
        return id_, None
    visitor = visitor_of(value)
    if visitor is None:
        raise Rejected("missing_field")
    return "", visitor


def required(value: Mapping[str, object], name: str) -> object:
    if value.get(name) is None:
        raise Rejected("missing_field")
    return value[name]


def object_field(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    inner = value.get(name)
    if inner is None or inner == []:
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
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,18}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, type(None))):
        raise Rejected("bad_rank")
    return value


def grade_value(value: object, config: OracleConfig) -> float:
    """Negative grades become 0; grades above the scale are invalid."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Rejected("bad_grade")
    if not math.isfinite(value) or value > config.highest_grade:
        raise Rejected("bad_grade")
    return max(0.0, float(value))


def texts(values: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """Attributes or experiments as text, and why others are left out; null and "" are missing."""
    result, dropped = {}, []
    for name, value in values.items():
        if value == "":
            continue
        parsed = text(value)
        if parsed is None and value is not None:
            dropped.append("bad_value")
        elif parsed is not None and byte_length(name) > FIELD_BYTES:
            dropped.append("long_name")
        elif parsed is not None and byte_length(parsed) > FIELD_BYTES:
            dropped.append("long_value")
        elif parsed is not None:
            result[name] = parsed
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


@dataclass(frozen=True)
class Share:
    """What one lane has of the events that a stage divides among so many."""

    lane: int
    lanes: int

    def has(self, event: "Impression | Feedback") -> bool:
        key = (event.visitor or event.id).encode("utf-8", "surrogatepass")
        return place_of_key(key, self.lanes) == self.lane

    def has_refused(self, log: str) -> bool:
        """Whether it counts what is refused of a log."""
        return int(log.rpartition("/")[2]) % self.lanes == self.lane


def place_of_key(key: bytes, partitions: int) -> int:
    """The partition to which producers send a key."""
    return int(DefaultPartitioner()(key, [*range(partitions)], []))


def read_partition(
    records: Iterable[Record],
    config: OracleConfig,
    result: LaneResult,
    log: str,
    share: Share | None = None,
) -> list[EventAtWatermark]:
    """The valid events of one topic-partition that a lane has, each with the watermark just before
    it, which all events move."""
    events: list[EventAtWatermark] = []
    clock = Clock()
    rejected = result.rejected if share is None or share.has_refused(log) else Counter[str]()
    for record in records:
        for event in valid_events(record, config, rejected):
            # In a lane of all partitions, named by both, an event meets at least its own time.
            met = max(clock.watermark, event.time_ms) if "/" in log else clock.watermark
            read = EventAtWatermark(event, clock.watermark, met)
            is_ahead = clock.read(event.identity, event.time_ms)
            result.watermarks[log] = int(clock.watermark)
            if share is not None and not share.has(event):
                continue
            events.append(read)
            result.ahead[log] += is_ahead
            result.events["impressions" if isinstance(event, Impression) else "feedback"] += 1
    return events


@dataclass
class Clock:
    """The watermark of one topic-partition, and the evidence that it is later than that."""

    watermark: float = NEVER
    pending: list[tuple[int, str]] = field(default_factory=list)
    """(least time, id) of impressions ahead of the watermark, sorted."""
    votes: int = 0
    """Ids that came to be ahead, less events near the watermark, while something is pending."""
    near: int = 0
    """Events near the watermark: at most MOST_NEAR, halved at each multiple of JUMP_MS."""

    def read(self, id_: str, time_ms: int) -> bool:
        """Whether the event is ahead."""
        if self.watermark != NEVER and time_ms > self.watermark + JUMP_MS:
            self.read_ahead(id_, time_ms)
            return True
        is_near = self.watermark - JUMP_MS < time_ms and self.watermark != NEVER
        self.move_to(max(self.watermark, time_ms))
        if is_near:
            self.near = min(self.near + 1, MOST_NEAR)
            self.votes = max(self.votes - 1, 0)
        if self.votes == 0:
            self.pending = []
        return False

    def read_ahead(self, id_: str, time_ms: int) -> None:
        known = [entry for entry in self.pending if entry[1] == id_]
        if not known:
            self.votes += 1
        if known:
            self.pending.remove(known[0])
            self.pending.append(min(known[0], (time_ms, id_)))
        elif len(self.pending) < CONFIRMING:
            self.pending.append((time_ms, id_))
        elif time_ms < self.pending[0][0]:
            self.pending[0] = (time_ms, id_)
        elif time_ms > self.pending[-1][0]:
            self.pending[-1] = (time_ms, id_)
        self.pending.sort()
        least_ms, greatest_ms = self.pending[0][0], self.pending[-1][0]
        enough = len(self.pending) == CONFIRMING and self.votes >= self.near // 2
        if enough and greatest_ms - least_ms >= CONFIRMED_OVER_MS:
            self.move_to(least_ms)
            self.votes = len(self.pending)

    def move_to(self, watermark: float) -> None:
        if self.watermark != NEVER:
            for _ in range(int(self.watermark // JUMP_MS), int(watermark // JUMP_MS)):
                self.near //= 2
        self.watermark = watermark
        self.pending = [entry for entry in self.pending if entry[0] > watermark + JUMP_MS]
        if not self.pending:
            self.votes = 0


def valid_events(
    record: Record, config: OracleConfig, rejected: Counter[str]
) -> Iterator[Impression | Feedback]:
    """The valid events of a record: decoded, and not too far ahead of the record's timestamp."""
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
    """The smallest whole number of seconds >= window / 30 that divides the window."""
    thirtieth_s = math.ceil(window_s / 30)
    return next(s for s in range(thirtieth_s, window_s + 1) if window_s % s == 0)


def base_pane_ms(config: OracleConfig) -> int:
    return pane_s(min(config.windows_s)) * 1000


def closes_ms(impression_ms: int, config: OracleConfig) -> int:
    """The watermark from which an impression of that time is closed, and its pane settled."""
    base = base_pane_ms(config)
    pane_end = impression_ms // base * base + base
    return pane_end + (config.attribution_window_s + config.lateness_s) * 1000


def expires_ms(feedback_ms: int, config: OracleConfig) -> int:
    """The watermark from which feedback of that time can no longer join."""
    waits_s = config.attribution_window_s + config.lateness_s
    return feedback_ms + GRACE_MS + base_pane_ms(config) + waits_s * 1000


# Impressions ----------------------------------------------------------------------------------


@dataclass
class Ids:
    """What is known of each id: accepted impressions, oldest first, and pages that wait."""

    accepted: dict[str, list[Accepted]] = field(default_factory=dict)
    pages: dict[str, list[EventAtWatermark]] = field(default_factory=dict)

    def read(
        self, read: EventAtWatermark, log: str, config: OracleConfig
    ) -> Iterator[tuple[EventAtWatermark, str, list[list[str | None]]]]:
        """The records of impressions that are decided as this one is read, itself and pages that
        waited for it, each with its outcome and the lists of its id before."""
        event = read.event
        assert isinstance(event, Impression)
        of_id = self.accepted.setdefault(event.id, [])
        waiting = self.pages.setdefault(event.id, [])
        lists = [list(one.items) for one in of_id]
        if "/" in log and event.first_rank > 1 and not event.by_item:
            waiting.append(read)
        else:
            yield read, decide_impression(event, read.met, of_id, config), lists
        for page in sorted(waiting, key=first_rank_of):
            lists = [list(one.items) for one in of_id]
            if (outcome := decide_page(page, of_id, config)) is not None:
                waiting.remove(page)
                yield page, outcome, lists


def first_rank_of(page: EventAtWatermark) -> int:
    return page.event.first_rank if isinstance(page.event, Impression) else 0


def decide_page(page: EventAtWatermark, of_id: list[Accepted], config: OracleConfig) -> str | None:
    """Decide a later page whose first page may stand in another log; None where it waits."""
    event = page.event
    assert isinstance(event, Impression)
    if page.met >= expires_ms(event.time_ms, config):
        return "late"
    impression = candidate(event.time_ms, page.met, of_id, config)
    if impression is None or event.first_rank - 1 > len(impression.items):
        return None
    return add_later_page(event, impression)


def decide_impression(
    event: Impression, watermark: float, of_id: list[Accepted], config: OracleConfig
) -> str:
    """Decide the outcome of one event; appends to `of_id`, the accepted impressions of its id."""
    is_open = [
        impression for impression in of_id if closes_ms(impression.time_ms, config) > watermark
    ]
    if is_open and event.by_item:
        return place(event, is_open[0])
    if is_open and event.first_rank == 1:
        return repeat_first_page(event, is_open[0])
    if is_open:
        return add_later_page(event, is_open[0])
    if closes_ms(event.time_ms, config) <= watermark:
        return "late"
    if event.first_rank > 1 and not (event.by_item and event.items):
        return "later_page"
    of_id.append(Accepted(event.id, event.time_ms))
    blanks = [None] * (event.first_rank - 1)
    append_items(of_id[-1], [*blanks, *event.items], event)
    return "accepted"


def place(event: Impression, impression: Accepted) -> str:
    """Place one item of a list that is logged item by item."""
    if not event.items:
        return "duplicate"
    item, rank0 = event.items[0], event.first_rank - 1
    if rank0 < len(impression.items) and impression.items[rank0] == item:
        return "duplicate"
    if item in impression.items:
        return "conflicting"
    was_empty = not impression.items
    append_items(impression, [None] * (rank0 + 1 - len(impression.items)), event)
    if impression.items[rank0] is not None:
        return "conflicting"
    impression.items[rank0] = item
    if item in event.grades:
        impression.explicit[rank0].append((event.time_ms, event.grades[item]))
    return "filled" if was_empty else "extended"


def repeat_first_page(event: Impression, impression: Accepted) -> str:
    if list(event.items) == impression.items:
        return "duplicate"
    if impression.items:
        first_page_again = event.items and list(event.items) == impression.items[: len(event.items)]
        return "duplicate" if first_page_again else "conflicting"
    append_items(impression, event.items, event)
    return "filled"


def add_later_page(event: Impression, impression: Accepted) -> str:
    before, length = event.first_rank - 1, len(impression.items)
    if before > length:
        return "conflicting"
    page = [None if item in impression.items[:before] else item for item in event.items]
    overlap = length - before
    if page[:overlap] != impression.items[before:][: len(page)]:
        return "conflicting"
    rest = [None if item in impression.items else item for item in page[overlap:]]
    if not rest:
        return "duplicate"
    append_items(impression, rest, event)
    return "extended"


def append_items(impression: Accepted, items: Sequence[str | None], event: Impression) -> None:
    """Append items; the grades of the event go to the first occurrence of each item in them."""
    for index, item in enumerate(items):
        first = item is not None and item not in items[:index]
        grade = event.grades.get(item) if first and item is not None else None
        impression.items.append(item)
        impression.explicit.append([] if grade is None else [(event.time_ms, grade)])
        impression.implicit.append([])


# Segments -------------------------------------------------------------------------------------


def admit(
    event: Impression,
    watermark: float,
    seen: dict[str, dict[str, int]],
    overflow: Counter[str],
    config: OracleConfig,
) -> dict[str, str]:
    """The segment of an accepted impression in each grouping; `seen` is kept for each partition."""
    longest_s = max(config.windows_s)
    moment_ms = event.time_ms if watermark == NEVER else int(watermark)
    pane = moment_ms // (pane_s(longest_s) * 1000)
    segments = {"all": "all"}
    for names in config.groupings:
        grouping, value = ",".join(names), segment_value(names, event)
        last_seen = seen.setdefault(grouping, {})
        evict_unseen(value, last_seen, pane - longest_s // pane_s(longest_s), config)
        if value in last_seen or len(last_seen) < 10 * config.max_segments:
            last_seen[value] = max(pane, last_seen.get(value, pane))
            segments[grouping] = value
        else:
            overflow[grouping] += 1
            segments[grouping] = "other"
    return segments


def evict_unseen(value: str, last_seen: dict[str, int], oldest: int, config: OracleConfig) -> None:
    """A new value that finds the table full evicts all values unseen for the longest window."""
    if value in last_seen or len(last_seen) < 10 * config.max_segments:
        return
    for unseen in [name for name, pane in last_seen.items() if pane < oldest]:
        del last_seen[unseen]


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


def decide_feedback(
    event: Feedback,
    watermark: float,
    impression: Accepted | None,
    lane_watermark: float,
    config: OracleConfig,
) -> str:
    """Decide the final outcome, or `waiting`; the candidate has its final list."""
    expired = lane_watermark >= expires_ms(event.time_ms, config)
    if event.grade is None and event.kind not in config.grades:
        return "ignored_kind"
    if watermark >= expires_ms(event.time_ms, config):
        return "late"
    if impression is None:
        return "unjoined" if expired else "waiting"
    if event.time_ms > impression.time_ms + config.attribution_window_s * 1000:
        return "out_of_window"
    if find_rank0(event, impression.items) is not None:
        return "joined"
    too_deep = event.rank is not None and event.rank > config.depth
    if too_deep and (expired or event.item is None):
        return "beyond_depth"
    return "off_list" if expired else "waiting"


def candidate(
    feedback_ms: int, watermark: float, of_id: Sequence[Accepted], config: OracleConfig
) -> Accepted | None:
    """The earliest impression that is open to the feedback and not later than its time + grace."""
    open_to_it = [
        impression
        for impression in of_id
        if closes_ms(impression.time_ms, config) > watermark
        and impression.time_ms <= feedback_ms + GRACE_MS
    ]
    return min(open_to_it, key=lambda impression: impression.time_ms, default=None)


def note_met(
    impression: Accepted, before: Sequence[str | None], met: float, *, is_page: bool
) -> None:
    if is_page:  # shown with what stands above it
        met = max([met, *impression.items_met.values()])
    for rank0, item in enumerate(impression.items):
        if item is not None and (rank0 >= len(before) or before[rank0] is None):
            impression.items_met[rank0] = met


def touch(
    event: Feedback,
    watermark: float,
    accepted: Iterable[Accepted],
    lane_watermark: float,
    config: OracleConfig,
    result: LaneResult,
) -> None:
    """Join feedback to the latest impression that its visitor was shown, and count it."""
    outcomes = result.feedback_outcomes
    if event.grade is None and event.kind not in config.grades:
        outcomes["ignored_kind"] += 1
        return
    if watermark >= expires_ms(event.time_ms, config):
        outcomes["late"] += 1
        return
    before = event.time_ms + config.touch_wait_s * 1000
    if lane_watermark < before:
        waiting = ("", event.time_ms, event.item, event.rank, event.kind, event.grade)
        result.waiting.append(waiting)
        return
    seen = [
        one
        for one in accepted
        if one.event is not None
        and one.event.visitor == event.visitor
        and one.met < before
        and one.time_ms <= event.time_ms + GRACE_MS
        and one.time_ms >= event.time_ms - config.attribution_window_s * 1000
        and closes_ms(one.time_ms, config) > watermark
    ]

    def by_time(one: Accepted) -> tuple[int, str]:
        return one.time_ms, one.id

    earlier = [one for one in seen if one.time_ms <= event.time_ms]
    later = [one for one in seen if one.time_ms > event.time_ms]
    order = [*sorted(earlier, key=by_time, reverse=True), *sorted(later, key=by_time)]
    for one in order[: config.most_touched]:
        items = [
            item if one.items_met.get(rank0, NEVER) < before else None
            for rank0, item in enumerate(one.items)
        ]
        rank0 = find_rank0(event, items)
        if rank0 is not None:
            join(event, one, rank0, config)
            outcomes.update(["joined", "joined_last_touch"])
            outcomes.update(["rank_mismatch"] * (event.rank not in (None, rank0 + 1)))
            return
    outcomes.update(["unjoined", *["unknown_visitor"] * (not seen)])
    outcomes.update(["crowded_visitor"] * (len(seen) > config.most_touched))


def find_rank0(event: Feedback, items: Sequence[str | None]) -> int | None:
    """The 0-based rank of the feedback's item in the list; its id wins over the stated rank."""
    if event.item is None:
        assert event.rank is not None
        return event.rank - 1 if event.rank <= len(items) else None
    matches = [rank0 for rank0, item in enumerate(items) if item == event.item]
    if event.rank is not None and event.rank - 1 in matches:
        return event.rank - 1
    return matches[0] if matches else None


def join(event: Feedback, impression: Accepted, rank0: int, config: OracleConfig) -> None:
    if impression.first_joined_ms is None or event.time_ms < impression.first_joined_ms:
        impression.first_joined_ms = event.time_ms
    if event.grade is not None:
        impression.explicit[rank0].append((event.time_ms, event.grade))
    elif event.kind is not None:
        impression.implicit[rank0].append(float(config.grades[event.kind]))


# Rows -----------------------------------------------------------------------------------------


def gains(impression: Accepted) -> list[float]:
    """By rank the latest explicit grade (of equal times the higher), else the highest implicit."""
    return [
        max(explicit)[1] if explicit else max(implicit, default=0.0)
        for explicit, implicit in zip(impression.explicit, impression.implicit)
    ]


def contribution(impression: Accepted, config: OracleConfig) -> dict[str, int]:
    """What one impression adds to each of its rows."""
    has_feedback = [bool(e or i) for e, i in zip(impression.explicit, impression.implicit)]
    row = {
        "impressions": 1,
        "impressions_with_feedback": int(any(has_feedback)),
        "zero_result_impressions": int(not impression.items),
        "items_with_feedback": sum(has_feedback),
        "items_listed": len(impression.items),
        "squared_items_listed": len(impression.items) ** 2,
    }
    weights, clipped = weights_of(impression, config)
    for name in config.metric_names:
        if name == "FirstFeedbackSeconds":
            row |= delay_columns(name, impression)
            continue
        value = score(
            name,
            gains(impression)[: config.depth],
            relevant_from=config.relevant_from,
            max_grade=config.highest_grade,
            weights=weights,
        )
        row[f"{name}:scored"] = int(value is not None)
        number, unit = 0.0 if value is None else value, unit_of(name)
        row[f"{name}:sum"] = steps(number, unit)
        row[f"{name}:squares"] = steps(number * number, unit)
    if config.propensities:
        row |= weight_columns(impression, weights, clipped, config)
    return row


def weights_of(impression: Accepted, config: OracleConfig) -> tuple[list[float] | None, list[bool]]:
    """1 / propensity by rank, and where it was clipped; None if the surface has no table."""
    stated = None if impression.event is None else impression.event.attributes.get(config.surface)
    surface = stated if stated in config.propensities else config.default_surface
    if surface is None:
        return None, []
    table = config.propensities[surface]
    inverse = [table[0] / table[min(rank0, len(table) - 1)] for rank0 in range(config.depth)]
    return [min(w, config.clip) for w in inverse], [w > config.clip for w in inverse]


def weight_columns(
    impression: Accepted, weights: list[float] | None, clipped: list[bool], config: OracleConfig
) -> dict[str, int]:
    """Number of weighted items, and the sums of their weights in steps of 1 / 10,000."""
    gained = [rank0 for rank0, g in enumerate(gains(impression)[: config.weighted_ranks]) if g > 0]
    weighted = gained if weights else []
    return {
        "weighted_items": len(weighted),
        "clipped_items": sum(clipped[rank0] for rank0 in weighted),
        "weights": steps(sum(weights[rank0] for rank0 in weighted) if weights else 0.0, 10_000),
        "squared_weights": steps(
            sum(weights[rank0] ** 2 for rank0 in weighted) if weights else 0.0, 10_000
        ),
    }


def delay_columns(name: str, impression: Accepted) -> dict[str, int]:
    """Seconds from the impression to the earliest joined feedback, in steps of 1 / 1,000."""
    if impression.first_joined_ms is None:
        return {f"{name}:scored": 0, f"{name}:sum": 0, f"{name}:squares": 0}
    seconds = max(impression.first_joined_ms - impression.time_ms, 0) / 1000
    numbers = (1, math.floor(1000 * seconds + 0.5001), math.floor(1000 * seconds**2 + 0.5001))
    return dict(zip((f"{name}:scored", f"{name}:sum", f"{name}:squares"), numbers))


def unit_of(name: str) -> int:
    """Integer steps of a value of 1."""
    return UNITS.get(re.split("[(@]", name)[0], 10**6)


def steps(value: float, unit: int) -> int:
    return math.floor(unit * value + 0.5001)


def add_to(row: dict[str, int], change: Mapping[str, int]) -> None:
    for column, value in change.items():
        row[column] = row.get(column, 0) + value


def count_rows(
    impression: Accepted, lane_watermark: float, config: OracleConfig, result: LaneResult
) -> None:
    """Count the impression in its rows of every window, and in the totals once it has settled."""
    numbers = contribution(impression, config)
    settled = closes_ms(impression.time_ms, config) <= lane_watermark
    for grouping, segment in impression.segments.items():
        for window_s in config.windows_s:
            start_s = impression.time_ms // 1000 // pane_s(window_s) * pane_s(window_s)
            add_to(result.rows.setdefault((window_s, start_s, grouping, segment), {}), numbers)
        if settled:
            add_to(result.totals.setdefault((grouping, segment), {}), numbers)
            hour_s = hour_start_s(impression.time_ms, config)
            if config.history_hours and hour_s >= first_hour_s(lane_watermark, config):
                add_to(result.hours.setdefault((hour_s, grouping, segment), {}), numbers)
    if not settled:
        result.open[impression.id, impression.time_ms] = (
            tuple(impression.items),
            tuple(gains(impression)),
        )


def hour_start_s(time_ms: int, config: OracleConfig) -> int:
    """The hour in which the base pane of the instant begins."""
    base = base_pane_ms(config)
    return time_ms // base * base // 1000 // config.hour_s * config.hour_s


def first_hour_s(lane_watermark: float, config: OracleConfig) -> int:
    """The first hour that is kept: `history_hours` before the hour that is being settled."""
    waits_s = config.attribution_window_s + config.lateness_s
    settling_s = hour_start_s(int(lane_watermark) - waits_s * 1000, config)
    return settling_s - config.history_hours * config.hour_s


# The run --------------------------------------------------------------------------------------


def run(
    records: Iterable[Record],
    topics: Sequence[str],
    config: OracleConfig,
    lifts: Mapping[int, Mapping[str, float]] = MappingProxyType({}),
) -> dict[int, LaneResult]:
    """The final state of every lane that has a record, by partition. `lifts`: of `run_lane`."""
    partitions: dict[int, dict[str, list[Record]]] = {}
    for record in records:
        lane = partitions.setdefault(record.partition, {topic: [] for topic in topics})
        lane[record.topic].append(record)
    return {
        lane: run_lane(of_topic, config, lifts.get(lane, {}))
        for lane, of_topic in sorted(partitions.items())
    }


def as_one(records: Iterable[Record], partitions: Mapping[str, int]) -> dict[str, list[Record]]:
    """The logs of the one lane that has so many partitions of each topic, by `topic/partition`."""
    logs: dict[str, list[Record]] = {
        f"{topic}/{number}": [] for topic, count in partitions.items() for number in range(count)
    }
    for record in records:
        logs[f"{record.topic}/{record.partition}"].append(record)
    return logs


def run_lane(
    logs: Mapping[str, Sequence[Record]],
    config: OracleConfig,
    lifts: Mapping[str, float] = MappingProxyType({}),
    share: Share | None = None,
) -> LaneResult:
    """The final state of a lane of these logs. `lifts`: how far it does at least not wait for some
    of them; no event of them that comes later than that may be so early. `share`: what of them it
    has, if not all."""
    result = LaneResult(watermarks={log: None for log in logs})
    by_topic = {log: read_partition(of, config, result, log, share) for log, of in logs.items()}
    lane_watermark = min(
        max(NEVER if mark is None else mark, lifts.get(log, NEVER))
        for log, mark in result.watermarks.items()
    )
    by_id = accept_impressions(by_topic, lane_watermark, config, result)
    for read in (read for events in by_topic.values() for read in events):
        if isinstance(read.event, Feedback) and not read.event.id:
            accepted = [one for of_id in by_id.values() for one in of_id]
            touch(read.event, read.met, accepted, lane_watermark, config, result)
        elif isinstance(read.event, Feedback):
            of_id = by_id.get(read.event.id, [])
            count_feedback(read.event, read.met, of_id, lane_watermark, config, result)
    impressions = [impression for of_id in by_id.values() for impression in of_id]
    result.impressions = impressions
    for impression in impressions:
        count_rows(impression, lane_watermark, config, result)
    settled = settled_of(impressions, lane_watermark, config)
    overflow = result.experiment_overflow
    result.experiments = oracle_arms.run(
        settled, config.units, config.discovered, overflow, config.stratify
    )
    result.waiting.sort(key=lambda waiting: [(part is not None, part) for part in waiting])
    return result


def settled_of(
    impressions: Iterable[Accepted], lane_watermark: float, config: OracleConfig
) -> Iterator[oracle_arms.Settled]:
    base = base_pane_ms(config)
    for impression in impressions:
        event = impression.event
        if event is not None and closes_ms(impression.time_ms, config) <= lane_watermark:
            yield oracle_arms.Settled(
                impression.time_ms // base * base,
                impression.id,
                event.user_id,
                event.attributes,
                event.experiments,
                contribution(impression, config),
                tuple(gains(impression)),
                event.teams[: config.depth],
                impression.segments,
            )


def accept_impressions(
    by_topic: Mapping[str, Sequence[EventAtWatermark]],
    lane_watermark: float,
    config: OracleConfig,
    result: LaneResult,
) -> dict[str, list[Accepted]]:
    """The accepted impressions of every id, oldest first, with their final lists and segments."""
    ids = Ids()
    topic_of: dict[str, str] = {}
    for topic, events in by_topic.items():
        seen: dict[str, dict[str, int]] = {}
        for read in events:
            if not isinstance(read.event, Impression):
                continue
            is_page = "/" in topic and read.event.first_rank > 1 and not read.event.by_item
            if not is_page and topic_of.setdefault(read.event.id, topic) != topic:
                raise ValueError(f"impression_id={read.event.id}: must come from one topic only")
            for one, outcome, before in ids.read(read, topic, config):
                event, of_id = one.event, ids.accepted[read.event.id]
                met = event.time_ms if one.met == NEVER else one.met
                for accepted, items in zip(of_id, [*before, []], strict=False):
                    note_met(accepted, items, met, is_page=one is not read or is_page)
                result.impression_outcomes[outcome] += 1
                if outcome == "accepted":
                    overflow = result.segment_overflow
                    of_id[-1].event, of_id[-1].met = one.event, met
                    of_id[-1].segments = admit(one.event, one.watermark, seen, overflow, config)
    count_waiting_pages(ids, lane_watermark, config, result)
    return ids.accepted


def count_waiting_pages(
    ids: Ids, lane_watermark: float, config: OracleConfig, result: LaneResult
) -> None:
    """Count the pages whose list never came up to them, or came not yet."""
    for page in (page for pages in ids.pages.values() for page in pages):
        event = page.event
        if lane_watermark < expires_ms(event.time_ms, config):
            result.waiting.append((event.id, event.time_ms, None, None, None, None))
        elif candidate(event.time_ms, page.met, ids.accepted[event.id], config) is None:
            result.impression_outcomes["later_page"] += 1
        else:
            result.impression_outcomes["conflicting"] += 1


def count_feedback(
    event: Feedback,
    watermark: float,
    of_id: Sequence[Accepted],
    lane_watermark: float,
    config: OracleConfig,
    result: LaneResult,
) -> None:
    impression = candidate(event.time_ms, watermark, of_id, config)
    outcome = decide_feedback(event, watermark, impression, lane_watermark, config)
    if outcome == "waiting":
        waiting = (event.id, event.time_ms, event.item, event.rank, event.kind, event.grade)
        result.waiting.append(waiting)
        return
    result.feedback_outcomes[outcome] += 1
    rank0 = (
        find_rank0(event, impression.items)
        if outcome == "joined" and impression is not None
        else None
    )
    if rank0 is None or impression is None:
        return
    join(event, impression, rank0, config)
    if event.rank is not None and event.rank != rank0 + 1:
        result.feedback_outcomes["rank_mismatch"] += 1
