"""Random UBI traffic whose lists are logged item by item, for tests: in disorder, with repeats,
contradictions and holes."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.oracle import OracleConfig, Record, closes_ms
from tests.streams import START_MS, Json, Sent, log, timestamp, topic_names

KINDS: Final = ("click", "click", "add_to_cart", "purchase", "hover")


@dataclass(frozen=True)
class Search:
    """One query id, its list, and the time at which its first item is shown."""

    rng: random.Random
    config: OracleConfig
    id: str
    start_ms: int
    partition: int
    items: list[str]

    def delay_ms(self) -> int:
        """Mostly short, sometimes out of order or too late."""
        longest = self.config.attribution_window_s + self.config.lateness_s
        reach_s = self.rng.choices((0.2, 4, longest, 2 * longest), (70, 20, 6, 4))[0]
        return self.rng.randrange(int(reach_s * 1000))

    def event(self, action: str, at_ms: int, item: object, ordinal: object) -> Sent:
        details: Json = {"country": self.rng.choice(("US", "DE", "FR", None)), "device": "ios"}
        if self.rng.random() < 0.5:
            details["experiments"] = {"ranker": self.rng.choice(("control", "treatment"))}
        details["object"] = {"object_id": item, "object_id_field": "asin"}
        details["position"] = {"ordinal": ordinal}
        value: Json = {"action_name": action, "query_id": self.id, "client_id": f"c{self.id}"}
        value |= {"timestamp": timestamp(self.rng, at_ms), "event_attributes": details}
        is_feedback = action != "impression"
        return Sent(at_ms + self.delay_ms(), is_feedback, self.partition, value)


def random_ubi_records(
    rng: random.Random,
    *,
    topics: int = 1,
    partitions: int = 2,
    events: int = 400,
    config: OracleConfig,
    span_s: int = 1800,
) -> list[Record]:
    """A log of about `events` events, in the order of production. With two topics, impressions and
    queries are in the first and all other events in the second."""
    sent: list[Sent] = []
    while len(sent) < events:
        start_ms = START_MS + rng.randrange(span_s * 4) * 250
        length = rng.choice((1, 2, 3, 5, config.depth, config.depth + 2))
        items = [f"d{n}" for n in rng.sample(range(40), length)]
        one = Search(rng, config, f"q{len(sent)}", start_ms, rng.randrange(partitions), items)
        sent += events_of(one)
        if rng.random() < 0.1:
            closes = closes_ms(start_ms, config) + rng.randrange(-2_000, 2_000)
            sent += events_of(Search(rng, config, one.id, closes, one.partition, items))
    sent.sort(key=lambda event: event.at_ms)
    return log(rng, sent, topic_names(topics), rng.choice((0, 2_000)) if topics == 2 else 0)


def events_of(search: Search) -> Iterator[Sent]:
    """A query, most of its items in any order, what contradicts them, and feedback."""
    rng, start_ms = search.rng, search.start_ms
    if rng.random() < 0.5:
        query: Json = {"query_id": search.id, "timestamp": timestamp(rng, start_ms)}
        query |= {"query_response_hit_ids": search.items, "user_query": "shoes"}
        yield Sent(start_ms, False, search.partition, query)
    for rank, item in enumerate(search.items, 1):
        seen_ms = start_ms + rng.choice((0, 0, 0, rank * 500))
        if rng.random() < 0.85:
            yield search.event("impression", seen_ms, item, rank)
        if rng.random() < 0.1:
            yield search.event("impression", seen_ms + 700, item, rank)
        if rng.random() < 0.1:
            other = rng.choice((*search.items, "other"))
            yield search.event("impression", seen_ms + rng.randrange(900), other, rank)
    for _ in range(rng.choice((0, 1, 1, 3))):
        yield feedback(search)
    if rng.random() < 0.1:
        yield broken(search)


def feedback(search: Search) -> Sent:
    """A reaction to an item, a rank or both; some of them to what was never shown."""
    rng, window_ms = search.rng, search.config.attribution_window_s * 1000
    rank = rng.randrange(1, len(search.items) + 1)
    item, depth = search.items[rank - 1], search.config.depth
    targets = [(item, rank), (item, None), (None, rank), (item, rank + 1), ("nowhere", 2)]
    targets += [
        ("other", None),
        (None, depth),
        (None, depth + 1),
        (item, 0),
        ("nowhere", depth + 3),
    ]
    weights = (30, 20, 20, 8, 5, 5, 4, 3, 3, 2)
    target = rng.choices(targets, weights)[0]
    after_ms = rng.choice((rng.randrange(8_000), rng.randrange(window_ms), window_ms + 1, -4_000))
    return search.event(rng.choice(KINDS), search.start_ms + after_ms, *target)


def broken(search: Search) -> Sent:
    """An event that is about no item of a list, or about no search."""
    rng = search.rng
    sent = search.event("impression", search.start_ms, None, 1)
    assert isinstance(sent.value, dict)
    faults: list[Json] = [
        {},
        {"query_id": None},
        {"event_attributes": None},
        {"event_attributes": {"object": {"object_id": "d1"}}},
        {"event_attributes": {"object": {"object_id": "d1"}, "position": {"ordinal": -1}}},
        {"timestamp": None, "event_attributes": {"object": {"object_id": "d1"}}},
    ]
    return Sent(sent.at_ms, False, sent.partition, sent.value | rng.choice(faults[:-1]))
