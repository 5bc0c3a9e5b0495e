"""Random search traffic with everything that goes wrong in real logs, for tests.

A stream is made of stories: the events of one impression id each, with later pages, repeats and
feedback. Every event has the time at which it is produced; sorted by it they are the log. An event
has at most one fault, so that the reason of its rejection never depends on the order of checks.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from tests.oracle import (
    GRACE_MS,
    OracleConfig,
    Record,
    Rejected,
    closes_ms,
    decode,
    elements,
    time_ms,
)

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
START_MS = 1_795_176_000_000
SMALL_CONFIG = OracleConfig(
    windows_s=(30, 120, 600),
    attribution_window_s=60,
    lateness_s=5,
    depth=12,
    max_segments=1,
    max_future_s=20,
    max_record_bytes=4096,
    history_hours=2,
    hour_s=45,
)
"""Scaled down to base panes of 1 s: a few hundred events settle panes and expire windows."""

Json = dict[str, object]


@dataclass(frozen=True)
class Sent:
    """One event (or raw bytes, or a tombstone), and the time at which it is produced."""

    at_ms: int
    to_feedback: bool
    partition: int
    value: Json | bytes | None


@dataclass(frozen=True)
class Story:
    """One impression id, and the time of its first page."""

    rng: random.Random
    config: OracleConfig
    id: str | int
    start_ms: int
    partition: int

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def impression(self, at_ms: int, items: list[str | int], delay_ms: int, **more: object) -> Sent:
        value: Json = {"type": "impression", "impression_id": self.id, "items": items, **more}
        value["timestamp"] = timestamp(self.rng, at_ms)
        return Sent(at_ms + delay_ms, False, self.partition, value)

    def feedback(self, at_ms: int, delay_ms: int, **more: object) -> Sent:
        value: Json = {"type": "feedback", "impression_id": self.id, **more}
        value["timestamp"] = timestamp(self.rng, at_ms)
        return Sent(at_ms + delay_ms, True, self.partition, value)

    def delay_ms(self) -> int:
        """Mostly short, sometimes out of order or too late; rarely negative (a fast clock)."""
        longest = self.config.attribution_window_s + self.config.lateness_s
        reach_s = self.rng.choices((0.3, 4, longest, 2 * longest), (70, 20, 6, 4))[0]
        ahead = -self.rng.randrange(4_000) if self.chance(0.02) else 0
        return ahead or self.rng.randrange(int(reach_s * 1000))


def topic_names(topics: int) -> tuple[str, ...]:
    return ("search-events",) if topics == 1 else ("impressions", "feedback")


def random_records(
    rng: random.Random,
    *,
    topics: int = 2,
    partitions: int = 2,
    events: int = 400,
    config: OracleConfig = SMALL_CONFIG,
    span_s: int = 1800,
    start_ms: int = START_MS,
) -> list[Record]:
    """A log of about `events` events over `span_s` of event time, in the order of production.

    With two topics, the first has the impressions, the second the feedback, which may lag behind.
    All records of one impression id are in one partition.
    """
    sent: list[Sent] = []
    while len(sent) < events:
        id_text = f"q{len(sent)}"
        identity = len(sent) if rng.random() < 0.1 else id_text
        begin_ms = start_ms + rng.randrange(span_s * 4) * 250
        story = Story(rng, config, identity, begin_ms, rng.randrange(partitions))
        sent += events_of(story)
    sent.sort(key=lambda event: event.at_ms)
    lag_ms = rng.choice((0, 0, 2_000, 30_000)) if topics == 2 else 0
    return log(rng, sent, topic_names(topics), lag_ms)


def paged_records(
    rng: random.Random, *, topics: int, partitions: int, config: OracleConfig, searches: int = 80
) -> list[Record]:
    """Lists of up to four pages, each of which arrives whenever it does, or never, and feedback."""
    sent: list[Sent] = []
    for number in range(searches):
        begin_ms = START_MS + rng.randrange(600_000)
        story = Story(rng, config, f"q{number}", begin_ms, rng.randrange(partitions))
        context, at_ms = attributes(story), begin_ms
        items = [f"d{n}" for n in rng.sample(range(40), 12)]
        borders = sorted(rng.sample(range(1, 12), rng.randrange(4)))
        for first, end in zip((0, *borders), (*borders, 12), strict=True):
            more = {"first_rank": first + 1} if first else context
            if story.chance(0.93):
                sent.append(story.impression(at_ms, items[first:end], story.delay_ms(), **more))
            sent += reactions(story, items[first:end], at_ms)
            at_ms += rng.randrange(20_000)
    sent.sort(key=lambda event: event.at_ms)
    return log(rng, sent, topic_names(topics), 0)


def events_of(story: Story) -> list[Sent]:
    """One story: usually a search; rarely a later page alone, feedback alone, invalid records."""
    plots: dict[Callable[[Story], list[Sent]], int] = {
        search: 70,
        empty_then_filled: 8,
        later_page_alone: 4,
        item_by_item: 8,
        feedback_alone: 6,
        id_used_again_much_later: 4,
        id_used_again_as_it_closes: 6,
        invalid_records: 8,
    }
    return story.rng.choices(list(plots), list(plots.values()))[0](story)


# Stories --------------------------------------------------------------------------------------


def search(story: Story) -> list[Sent]:
    items = item_list(story)
    context = attributes(story)
    first_page = story.impression(story.start_ms, items, story.delay_ms(), **context)
    sent = [first_page, *pages(story, items, context)]
    for _ in range(story.rng.choices((0, 1, 2, 4), (3, 4, 3, 2))[0]):
        sent += reactions(story, items, story.start_ms)
    if story.chance(0.15):
        sent.append(later(story, first_page))
    if story.chance(0.1):
        other = item_list(story)
        sent.append(story.impression(story.start_ms + 500, other, story.delay_ms(), **context))
    return sent


def empty_then_filled(story: Story) -> list[Sent]:
    items = item_list(story)
    context = attributes(story)
    sent = [story.impression(story.start_ms, [], story.delay_ms(), **context)]
    if story.chance(0.8):
        filled_ms = story.start_ms + story.rng.randrange(3_000)
        sent.append(story.impression(filled_ms, items, 1_000 + story.delay_ms(), **context))
    return sent + reactions(story, items, story.start_ms)


def item_by_item(story: Story) -> list[Sent]:
    """A list whose items are logged one by one; some of it as a page, too."""
    items, context = item_list(story), attributes(story)
    sent = []
    if not items:
        sent.append(story.impression(story.start_ms, [], story.delay_ms(), by_item=True))
    for rank, item in enumerate(items, 1):
        one = {**context, "first_rank": rank, "by_item": True}
        at_ms = story.start_ms + story.rng.choice((0, 0, 1_000))
        if story.chance(0.8):
            sent.append(story.impression(at_ms, [item], story.delay_ms(), **one))
        if story.chance(0.1):
            other = story.rng.choice(items)
            sent.append(story.impression(at_ms, [other], story.delay_ms(), **one))
    if story.chance(0.3):
        page = items[: story.rng.randrange(len(items) + 1)]
        sent.append(story.impression(story.start_ms, page, story.delay_ms(), **context))
    if story.chance(0.2):
        sent += pages(story, items, context)
    for _ in range(story.rng.choice((0, 1, 2, 4))):
        sent += reactions(story, items, story.start_ms)
    return sent


def later_page_alone(story: Story) -> list[Sent]:
    page = story.impression(story.start_ms, item_list(story), story.delay_ms(), first_rank=11)
    return [page, *reactions(story, ["d1", "d2"], story.start_ms)]


def feedback_alone(story: Story) -> list[Sent]:
    return reactions(story, item_list(story) or ["d1"], story.start_ms)


def id_used_again_much_later(story: Story) -> list[Sent]:
    """The id is used again after its first impression was closed."""
    gap_s = 3 * (story.config.attribution_window_s + story.config.lateness_s)
    return search(story) + search(replace(story, start_ms=story.start_ms + gap_s * 1000))


def id_used_again_as_it_closes(story: Story) -> list[Sent]:
    """The id is used again as its first impression closes, with the item that feedback waits for.

    The feedback is in time for both impressions, and its item is missing in the first. Some of it
    arrives only when the first is closed, or before either of them.
    """
    window_ms = story.config.attribution_window_s * 1000
    items, apart_ms = item_list(story), story.rng.randrange(1, max(2, window_ms))
    closes = closes_ms(story.start_ms, story.config)
    again_ms = story.start_ms + apart_ms
    first = story.impression(story.start_ms, items, 0, **attributes(story))
    delay_ms = closes - again_ms + story.rng.randrange(-2_000, max(1, apart_ms) + 2_000)
    again = story.impression(again_ms, ["nowhere", *items], delay_ms, **attributes(story))
    sent = [first, again]
    for _ in range(story.rng.choice((1, 2, 3))):
        at_ms = again_ms - GRACE_MS + story.rng.randrange(window_ms + 2 * GRACE_MS)
        late_ms = story.rng.choice((0, 0, 0, closes - at_ms, closes - at_ms + apart_ms))
        target = story.rng.choice(({"item": "nowhere"}, {"rank": len(items) + 1}, {"item": "d1"}))
        sent.append(story.feedback(at_ms, max(0, late_ms), **target, **kind_or_grade(story)))
    return sent


def item_list(story: Story) -> list[str | int]:
    """Item ids, some of them integers; sometimes one of them twice, sometimes more than depth."""
    length = story.rng.choice((0, 1, 2, 3, 5, 8, 10, story.config.depth + 3))
    names = max(40, story.config.depth + 4)
    pool: list[str | int] = [f"d{index}" for index in range(1, names)]
    items = story.rng.sample([*pool, *range(40, 50), "é,\\"], length)
    if length > 2 and story.chance(0.2):
        items[story.rng.randrange(1, length)] = items[0]
    return items


def attributes(story: Story) -> Json:
    """A few busy values, a long tail that overflows any cap, and values that need escapes."""
    tail = f"c{story.rng.randrange(10**6)}"
    unusual: list[object] = ["all", "other", "a,b", "a\\b", "", 7, 2.5, True, False, None]
    country = story.rng.choices(["US", "DE", tail, story.rng.choice(unusual)], (40, 20, 25, 15))[0]
    context: Json = {"attributes": {"country": country}, "query": "running shoes"}
    if story.chance(0.6):
        device = story.rng.choice(("ios", "web"))
        context["attributes"] = {"country": country, "device": device}
    if story.chance(0.5):
        context["experiments"] = {"ranker": story.rng.choice(("control", "treatment"))}
    if story.chance(0.1):
        context["attributes"] = context["experiments"] = context["grades"] = None
    if story.chance(0.04):
        context["attributes"] = story.rng.choice(bad_contexts("country"))
        context["experiments"] = story.rng.choice(bad_contexts("ranker"))
    if story.chance(0.2):
        names = story.rng.sample([f"d{index}" for index in range(1, 40)], 10)
        context["grades"] = {name: random_grade(story) for name in names}
    if story.chance(0.3):
        context["user_id"] = story.rng.choice(("u9", 9, None))
    return context


def bad_contexts(name: str) -> list[Json]:
    """Each has one value that is left out, and another that is kept."""
    bad: list[object] = ["x" * 257, "é" * 129, 10**300, [], ["US"], {"a": 1}]
    return [*({name: value, "device": "ios"} for value in bad), {"x" * 257: "US", name: "DE"}]


def pages(story: Story, items: list[str | int], context: Json) -> list[Sent]:
    """Sometimes a later page: next, overlapping, after a gap, with repeats, or sent twice."""
    if not items or not story.chance(0.3):
        return []
    shift = story.rng.choices((0, -1, -2, 2), (60, 20, 10, 10))[0]
    first_rank = max(2, len(items) + 1 + shift)
    page = items[first_rank - 1 :] + item_list(story)
    if story.chance(0.3):
        page.insert(story.rng.randrange(len(page) + 1), items[0])
    at_ms = story.start_ms + story.rng.randrange(1, 10) * 1000
    more = {key: value for key, value in context.items() if key == "grades"}
    sent = story.impression(at_ms, page, story.delay_ms(), first_rank=first_rank, **more)
    again = [later(story, sent)] if story.chance(0.3) else []
    return [sent, *again, *reactions(story, page, at_ms)]


def later(story: Story, sent: Sent) -> Sent:
    return replace(sent, at_ms=sent.at_ms + story.delay_ms())


# Feedback -------------------------------------------------------------------------------------


def reactions(story: Story, items: list[str | int], shown_ms: int) -> list[Sent]:
    """Feedback on an item, sometimes sent twice, sometimes followed by a grade."""
    at_ms = shown_ms + reaction_time_ms(story)
    target = target_of(story, items)
    first = story.feedback(at_ms, story.delay_ms(), **target, **kind_or_grade(story))
    sent = [first]
    if story.chance(0.15):
        sent.append(later(story, first))
    if story.chance(0.3):
        changed_ms = at_ms + story.rng.choice((0, 0, 500, 2_000))
        graded = random_grade(story)
        sent.append(story.feedback(changed_ms, story.delay_ms(), **target, grade=graded))
    return sent


def reaction_time_ms(story: Story) -> int:
    """Inside the attribution window, on its edges, before the impression, or afterwards."""
    window_ms = story.config.attribution_window_s * 1000
    within = story.rng.randrange(window_ms)
    edges = story.rng.choice((-5_001, -5_000, -2_000, 0, window_ms, window_ms + 1))
    after = window_ms + story.rng.randrange(story.config.lateness_s * 1000)
    quick = story.rng.randrange(20) * 500
    return story.rng.choices((quick, within, edges, after), (60, 20, 12, 8))[0]


def target_of(story: Story, items: list[str | int]) -> Json:
    """An item, a rank, or both; sometimes not in the list, contradicting, or beyond depth."""
    depth = story.config.depth
    rank = story.rng.randrange(1, len(items) + 1) if items else 1
    item = items[rank - 1] if items else "d1"
    wrong = story.rng.choice((0, -1, rank + 1, depth, depth + 1))
    kinds: list[Json] = [
        {"item": item},
        {"item": item, "rank": rank},
        {"item": item, "rank": wrong},
        {"item": None, "rank": rank},
        {"rank": story.rng.choice((len(items) + 1, depth, depth + 1))},
        {"item": story.rng.choice(("nowhere", "d1", 41))},
        {"item": "nowhere", "rank": story.rng.choice((2, depth + 1))},
    ]
    return dict(story.rng.choices(kinds, (30, 25, 10, 15, 5, 10, 5))[0])


def kind_or_grade(story: Story) -> Json:
    kind = story.rng.choice((*story.config.grades, *story.config.grades, "hover"))
    if story.chance(0.2):
        return {"kind": story.rng.choice((kind, "judged", None)), "grade": random_grade(story)}
    return {"kind": kind, "grade": None} if story.chance(0.5) else {"kind": kind}


def random_grade(story: Story) -> float:
    return story.rng.choice((-1, 0, 0.5, 1, 1.5, 2, story.config.highest_grade))


# Invalid records ------------------------------------------------------------------------------


def invalid_records(story: Story) -> list[Sent]:
    """One record with exactly one fault, or a tombstone."""
    at_ms = story.start_ms
    shown = story.impression(at_ms, ["d1", "d2"], 0)
    reacted = story.feedback(at_ms, 0, kind="click", item="d1")
    assert isinstance(shown.value, dict) and isinstance(reacted.value, dict)
    value = story.rng.choice(bad_values(story, shown.value, reacted.value))
    early = story.rng.choice((shown, reacted))
    ahead_ms = story.config.max_future_s * 1000 + 1 + story.rng.randrange(10_000)
    if story.chance(0.15):
        return [replace(early, at_ms=at_ms - ahead_ms)]
    return [replace(early, value=value)]


def bad_values(story: Story, shown: Json, reacted: Json) -> list[Json | bytes | None]:
    long = "x" * 257
    too_high = story.config.highest_grade + 0.5
    raw: list[Json | bytes | None] = [None, b"", b"{", b"\xff", b"7", b'"text"', b"null", b"[3]"]
    return [
        *raw,
        *({key: reacted[key] for key in reacted if key != gone} for gone in reacted),
        {key: shown[key] for key in shown if key != "items"},
        *variants(shown, "type", "session"),
        *variants(shown, "query", "x" * story.config.max_record_bytes),
        *variants(shown, "items", {}, [["d1"]], [True], [""], ["d1", long]),
        *variants(shown, "impression_id", 1.5, True, "", long, "é" * 129),
        *variants(shown, "timestamp", -1, True, 10**17, "yesterday", "2026-11-20T12:00:00"),
        *variants(shown, "timestamp", "2026-13-20T12:00:00Z"),
        *variants(shown, "first_rank", 0, -3),
        *variants(shown, "user_id", "", []),
        *variants(shown, "by_item", 1, "true"),
        {**shown, "by_item": True, "items": ["d1", "d2"]},
        {**shown, "by_item": True, "items": ["d1"], "teams": ["a"]},
        *variants(shown, "attributes", [], "US"),
        *variants(shown, "experiments", 7),
        *variants(shown, "grades", [], {"": 1}, {long: 1}, {"d1": True}, {"d1": too_high}),
        *variants(reacted, "grade", True, "2", too_high),
        *variants(reacted, "kind", long),
        *variants(reacted, "item", ""),
        {**reacted, "item": None, "rank": 0},
    ]


def variants(base: Json, name: str, *values: object) -> list[Json]:
    return [{**base, name: value} for value in values]


# The log --------------------------------------------------------------------------------------


def timestamp(rng: random.Random, at_ms: int) -> object:
    """The instant in one of the accepted forms."""
    moment = EPOCH + timedelta(milliseconds=at_ms)
    east = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    forms: list[object] = [
        at_ms,
        at_ms / 1000,
        at_ms * 1000 + rng.randrange(1000),
        moment.isoformat().replace("+00:00", "Z"),
        moment.isoformat(timespec="milliseconds"),
        moment.isoformat(timespec="milliseconds").replace("+00:00", "+0000"),
        east.isoformat(timespec="microseconds"),
    ]
    return rng.choice(forms + [at_ms // 1000] if at_ms % 1000 == 0 else forms)


def log(rng: random.Random, sent: list[Sent], topics: tuple[str, ...], lag_ms: int) -> list[Record]:
    """Records in the order of production; some neighbours become one array; feedback may lag."""
    of_lane: dict[tuple[str, int], list[Sent]] = {}
    for event in sent:
        topic = topics[-1] if event.to_feedback else topics[0]
        of_lane.setdefault((topic, event.partition), []).append(event)
    timed: list[tuple[int, Record]] = []
    for (topic, partition), mine in of_lane.items():
        behind_ms = lag_ms if topic == topics[-1] else 0
        for offset, group in enumerate(grouped(rng, mine)):
            produced_ms = group[-1].at_ms
            stamp_ms = None if rng.random() < 0.03 else produced_ms
            record = Record(topic, partition, offset, stamp_ms, encode(group))
            timed.append((produced_ms + behind_ms, record))
    timed.sort(key=lambda pair: pair[0])
    return [record for _, record in timed]


def grouped(rng: random.Random, sent: list[Sent]) -> list[list[Sent]]:
    """Group up to three events into one record; raw bytes stay alone."""
    groups: list[list[Sent]] = []
    for event in sent:
        joins = groups and isinstance(groups[-1][0].value, dict) and isinstance(event.value, dict)
        if joins and len(groups[-1]) < 3 and rng.random() < 0.08:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def encode(group: list[Sent]) -> bytes | None:
    values: list[Mapping[str, object]] = []
    for event in group:
        if not isinstance(event.value, dict):
            return event.value
        values.append(event.value)
    return json.dumps(values[0] if len(values) == 1 else values).encode()


def with_wrong_clocks(records: list[Record], rng: random.Random) -> list[Record]:
    """The same traffic with outages, after which all clocks are later, and with producers whose
    clocks are ahead: of single records, and of some in a row."""
    share = rng.choice((0.01, 0.05, 0.3, 0.8))
    longest_row = rng.choice((1, 3, 30))
    later_s, ahead_s, row, changed = 0, 0, 0, []
    for record in records:
        if rng.random() < 0.01:
            later_s += rng.choice((250, 301, 400, 3_600, 100_000))
        if row == 0 and rng.random() < share:
            row, ahead_s = rng.randrange(longest_row) + 1, rng.choice(
                (290, 310, 700, 3_600, 86_400)
            )
        shift_ms = (later_s + (ahead_s if row else 0)) * 1000
        row = max(row - 1, 0)
        changed.append(shifted(record, shift_ms))
    return changed


def shifted(record: Record, shift_ms: int) -> Record:
    """The record with all its times later."""
    try:
        value = json.loads(record.value or b"")
        events = value if isinstance(value, list) else [value]
        for event in events:
            event["timestamp"] = time_ms(event["timestamp"]) + shift_ms
    except (ValueError, TypeError, KeyError, Rejected):
        return record
    stamp = None if record.timestamp_ms is None else record.timestamp_ms + shift_ms
    return replace(record, timestamp_ms=stamp, value=json.dumps(value).encode())


def as_plain_records(
    records: list[Record], rng: random.Random, config: OracleConfig
) -> list[Record]:
    """The same traffic as most producers write it: ids as text, milliseconds, no judgements, one
    event in a record. A few records stay as they are."""
    return [record if rng.random() < 0.05 else _plain(record, config) for record in records]


def _plain(record: Record, config: OracleConfig) -> Record:
    try:
        [value] = elements(record, config)
        event = decode(value, config)
    except (Rejected, ValueError):
        filler = {"type": "feedback", "impression_id": "none", "kind": "view", "item": "x"}
        value = {**filler, "timestamp": record.timestamp_ms or START_MS}
        return replace(record, value=json.dumps(value).encode())
    assert isinstance(value, dict)
    plain = {name: inner for name, inner in value.items() if name not in ("grade", "grades")}
    plain |= {"timestamp": event.time_ms, "impression_id": event.id}
    if "items" in plain:
        plain["items"] = [str(item) for item in plain["items"]]
    elif plain.get("item") is not None:
        plain["item"] = str(plain["item"])
    return replace(record, value=json.dumps(plain, separators=(",", ":")).encode())


def with_visitors(
    records: list[Record], rng: random.Random, strangers: float = 0.1
) -> list[Record]:
    """The same traffic of a few visitors, in which most feedback names its visitor and no id. Such
    a share of records is of others than the records of their search."""
    visitors: list[str | None] = [f"v{number}" for number in range(rng.choice((1, 3, 12)))]
    share = rng.choice((0.5, 0.9, 1.0))
    return [_visited(record, rng, visitors, share, strangers) for record in records]


def _visited(
    record: Record,
    rng: random.Random,
    visitors: list[str | None],
    share: float,
    strangers: float,
) -> Record:
    try:
        value = json.loads(record.value or b"")
    except ValueError:
        return record
    events = value if isinstance(value, list) else [value]
    if not all(isinstance(event, dict) and "impression_id" in event for event in events):
        return record
    for event in events:
        text = str(event["impression_id"])
        whose = visitors[sum(text.encode()) % len(visitors)]
        if rng.random() < strangers:
            nobody = [None, ""] if event.get("type") == "impression" else []
            whose = rng.choice([*visitors, "stranger", *nobody])
        event[rng.choice(("visitor", "visitor", "user_id"))] = whose
        if event.get("type") == "feedback" and rng.random() < share:
            del event["impression_id"]
    return replace(record, value=json.dumps(value).encode())
