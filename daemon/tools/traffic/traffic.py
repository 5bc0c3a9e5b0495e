"""A model of search traffic: impressions and the feedback on them, in order of arrival, and the
files beside the events.

Seeded: the same `Traffic` and start time give the same native events; with a `Regression` that is
set while they are drawn, the same from the same times. `world.py` has the users, queries and
rankers behind them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import click

from ...plan import EXPERIMENT_PREFIX
from .world import (
    MOST_BYTES,
    MOVED,
    Breakage,
    BrokenQueries,
    Query,
    Ranking,
    User,
    World,
    clicked_ranks,
    ideal_quality,
    irrelevant_ranking,
    is_lost,
    judged_set,
    less_attractive,
    make_world,
    ordinary_quality,
    parse_queries,
    shuffled,
    shuffled_quality,
    without_a_shard,
)

NativeEvent: TypeAlias = dict[str, Any]

EXPERIMENT: Final = "ranker-v2"
CONTROL: Final = "control"
TREATMENT: Final = "treatment"
SHARES: Final[Mapping[str, Mapping[str, float]]] = {
    "country": {"US": 0.45, "DE": 0.25, "FR": 0.14, "JP": 0.10, "BR": 0.06},
    "device": {"ios": 0.40, "android": 0.35, "web": 0.25},
}
EVENTS_PER_IMPRESSION: Final = 2.10
"""Mean number of events of one search, the impression included."""

CART_AFTER_CLICK: Final = 0.15
PURCHASE_AFTER_CART: Final = 0.40
LATE_CLICKS: Final = 0.02
"""Share of the clicks that are made minutes after the search."""


@dataclass(frozen=True)
class Regression:
    """From `after_s` on, something is broken for one segment: by default its ranking.

    Times are seconds since the start of the traffic.
    """

    after_s: float
    segment: Mapping[str, str] = field(default_factory=lambda: {"country": "DE"})
    """Attribute → value, all of which must match; `experiment:NAME` stands for its variant.
    Without any it is everything."""
    what: Breakage = "ranking"
    until_s: float = inf
    """When it is repaired: searches from then on are as before."""

    def is_on(self, time_s: float) -> bool:
        """Whether it is broken then."""
        return self.after_s <= time_s < self.until_s

    def affects(self, user: User) -> bool:
        """Whether the user is of the segment."""
        return all(value_of(user, name) == value for name, value in self.segment.items())


@dataclass(frozen=True)
class Faults:
    """Defects of delivery, each as the share of the events that have it, drawn independently."""

    duplicates: float = 0.0
    disorder: float = 0.0
    """Events that arrive up to 45 s after their event time."""
    orphans: float = 0.0
    """Feedback on an impression that never arrives."""
    off_list: float = 0.0
    """Feedback on an item that was not shown."""


@lru_cache(maxsize=2)
def _drawn(
    seed: int,
    shares: tuple[tuple[str, tuple[tuple[str, float], ...]], ...],
    variants: tuple[str, ...],
) -> World:
    """The world of a seed, which takes long to draw."""
    return make_world(seed, {name: dict(values) for name, values in shares}, EXPERIMENT, variants)


@dataclass(frozen=True)
class Traffic:
    """Settings of the traffic. `rate` is the mean number of events per second.

    `effect` is the true difference in mean RR@10, treatment - control.
    """

    seed: int = 1
    rate: float = 200.0
    regression: Regression | None = None
    broken_queries: BrokenQueries | None = None
    effect: float = 0.0
    faults: Faults = Faults()
    zero_results: float = 0.02
    delays: float = 1.0
    """How long users take to click, to add to the cart and to buy, as a multiple of what is usual:
    at 1 nine clicks in ten come within half a minute, and a few in 20 minutes."""
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: SHARES)
    variants: tuple[str, ...] = (CONTROL, TREATMENT)

    @cached_property
    def world(self) -> World:
        """The users, queries and rankers behind this traffic."""
        shares = ((name, tuple(values.items())) for name, values in self.shares.items())
        return _drawn(self.seed, tuple(shares), self.variants)

    @cached_property
    def treated_share(self) -> float:
        """Share of the treatment's lists to take from another ranker, for `effect` to be exact.

        Above 0 that is the ideal ranker, below 0 the random one.
        Raises ValueError for an effect beyond either of them.
        """
        if not self.effect:
            return 0.0
        other = ideal_quality(self.world) if self.effect > 0 else shuffled_quality(self.world)
        largest_effect = (1 - self.zero_results) * (other - ordinary_quality(self.world))
        if abs(self.effect) > abs(largest_effect):
            direction = "<=" if self.effect > 0 else ">="
            raise ValueError(f"effect={self.effect:g}: must be {direction} {largest_effect:.3f}")
        return self.effect / largest_effect


def generate_events(traffic: Traffic, start_ms: int) -> Iterator[tuple[int, NativeEvent]]:
    """Yield (arrival in ms, event) without end, in order of arrival.

    Arrival is the event time, unless `faults.disorder` delays it. Raises ValueError for a rate
    that is not positive, or an effect that no ranker has.
    """
    return iter(TrafficStream(traffic, start_ms))


class TrafficStream:
    """One run of the traffic: its random generator, and a heap of the events still to arrive.

    Raises ValueError as `generate_events` does.
    """

    def __init__(self, traffic: Traffic, start_ms: int) -> None:
        if not traffic.rate > 0:
            raise ValueError(f"rate={traffic.rate:g}: must be > 0")
        self.traffic = traffic
        self.start_ms = start_ms
        self.regression = traffic.regression
        """What breaks. It may be set at any time, for searches that were not drawn yet: no more
        than one search is drawn ahead."""
        self.random = Random(f"traffic {traffic.seed} {start_ms}")
        self.pending: list[tuple[int, int, NativeEvent]] = []
        self.count = 0
        self.treated_share = traffic.treated_share

    def __iter__(self) -> Iterator[tuple[int, NativeEvent]]:
        """Yield (arrival in ms, event): searches are a Poisson process."""
        per_ms = self.traffic.rate / EVENTS_PER_IMPRESSION / 1000
        world, random, pending = self.traffic.world, self.random, self.pending
        time_ms = float(self.start_ms)
        searches = 0
        while True:
            time_ms += random.expovariate(per_ms)
            now_ms = int(time_ms)
            while pending and pending[0][0] <= now_ms:
                arrival_ms, _, event = heappop(pending)
                yield arrival_ms, event
            searches += 1
            (query,) = random.choices(world.queries, cum_weights=world.query_weights)
            user = self._user(now_ms)
            self._search(f"{self.traffic.seed}-{self.start_ms:x}-{searches}", now_ms, query, user)

    def _search(self, impression_id: str, now_ms: int, query: Query, user: User) -> None:
        ranking = self._ranking(now_ms, query, user)
        impression = {
            "type": "impression",
            "impression_id": impression_id,
            "timestamp": now_ms,
            "query": query.text,
            "items": ranking.items,
            "attributes": user.attributes,
            "experiments": user.experiments,
            "user_id": user.user_id,
        }
        self._schedule(now_ms, impression)
        loses = self._broken("tracking", now_ms, user)
        for rank in clicked_ranks(self.random, ranking.attractions):
            if loses and is_lost(self.random):
                continue
            self._click(impression_id, now_ms, ranking.items[rank - 1], rank, user.user_id)

    def _ranking(self, now_ms: int, query: Query, user: User) -> Ranking:
        traffic, random = self.traffic, self.random
        if random.random() < traffic.zero_results:
            return Ranking((), ())
        if self._is_irrelevant(now_ms, query):
            return irrelevant_ranking(random, query, traffic.world.queries)
        if self._broken("ranking", now_ms, user):
            return shuffled(random, query)
        treated = self.treated_share and user.experiments[EXPERIMENT] == TREATMENT
        if treated and random.random() < self.treated_share:
            return query.ideal if traffic.effect > 0 else shuffled(random, query)
        ranking = random.choice(query.ordinary)
        if self._grows(user):
            return less_attractive(ranking)
        return without_a_shard(ranking) if self._broken("index", now_ms, user) else ranking

    def _is_irrelevant(self, now_ms: int, query: Query) -> bool:
        """Draw whether the query's list shows what belongs to another one."""
        broken = self.traffic.broken_queries
        if broken is None or now_ms < self.start_ms + broken.after_s * 1000:
            return False
        return broken.affects(query, self.random)

    def _user(self, now_ms: int) -> User:
        """Draw the user of the next search."""
        world, random, regression = self.traffic.world, self.random, self.regression
        (user,) = random.choices(world.users, cum_weights=world.user_weights)
        moves = regression is not None and regression.what == "mix" and self._is_on(now_ms)
        if moves and random.random() < MOVED:
            while not self._grows(user):
                (user,) = random.choices(world.users, cum_weights=world.user_weights)
        return user

    def _grows(self, user: User) -> bool:
        """Whether the user is of the segment that gets more of the searches."""
        regression = self.regression
        return regression is not None and regression.what == "mix" and regression.affects(user)

    def _broken(self, what: Breakage, now_ms: int, user: User) -> bool:
        """Whether this is broken for the user."""
        regression = self.regression
        if regression is None or regression.what != what:
            return False
        return self._is_on(now_ms) and regression.affects(user)

    def _is_on(self, now_ms: int) -> bool:
        regression = self.regression
        return regression is not None and regression.is_on((now_ms - self.start_ms) / 1000)

    def _click(self, impression_id: str, shown_ms: int, item: str, rank: int, user_id: str) -> None:
        """Schedule a click 1 to 60 s later, or minutes later, and the events that may follow it."""
        random, faults, delays = self.random, self.traffic.faults, self.traffic.delays
        if random.random() < LATE_CLICKS:
            clicked_ms = shown_ms + int(delays * random.uniform(60_000, 1_200_000))
        else:
            least_ms, more_ms = 1000, min(random.expovariate(1 / 12_000), 59_000)
            clicked_ms = shown_ms + int(delays * least_ms) + int(delays * more_ms)
        if faults.orphans and random.random() < faults.orphans:
            impression_id += "-lost"
        if faults.off_list and random.random() < faults.off_list:
            item += "-elsewhere"
        about = (item, rank, user_id)
        self._feedback(impression_id, clicked_ms, "click", about)
        if random.random() < CART_AFTER_CLICK:
            cart_ms = clicked_ms + int(delays * random.uniform(5_000, 90_000))
            self._feedback(impression_id, cart_ms, "add_to_cart", about)
            if random.random() < PURCHASE_AFTER_CART:
                bought_ms = cart_ms + int(delays * random.uniform(20_000, 300_000))
                self._feedback(impression_id, bought_ms, "purchase", about)

    def _feedback(
        self, impression_id: str, time_ms: int, kind: str, about: tuple[str, int, str]
    ) -> None:
        item, rank, user_id = about
        event = {
            "type": "feedback",
            "impression_id": impression_id,
            "timestamp": time_ms,
            "kind": kind,
            "item": item,
            "rank": rank,
            "user_id": user_id,
        }
        self._schedule(time_ms, event)

    def _schedule(self, time_ms: int, event: NativeEvent) -> None:
        random, faults = self.random, self.traffic.faults
        arrival_ms = time_ms
        if faults.disorder and random.random() < faults.disorder:
            arrival_ms += int(random.uniform(500, 45_000))
        self.count += 1
        heappush(self.pending, (arrival_ms, self.count, event))
        if faults.duplicates and random.random() < faults.duplicates:
            self.count += 1
            again_ms = arrival_ms + int(random.uniform(0, 3_000))
            heappush(self.pending, (again_ms, self.count, event))


def value_of(user: User, name: str) -> str | None:
    """The user's value of an attribute, or variant of `experiment:NAME`; None for another name."""
    if name.startswith(EXPERIMENT_PREFIX):
        return user.experiments.get(name.removeprefix(EXPERIMENT_PREFIX))
    return user.attributes.get(name)


def broken_queries(
    path: str | None, share: float | None, backfill: int, after: int | None
) -> BrokenQueries | None:
    """The queries of a file, as they break. Raises UsageError and BadParameter."""
    if path is None:
        if share is not None or after is not None:
            raise click.UsageError("--break-share and --break-after: only with --break-queries")
        return None
    known = {query.text for query in Traffic().world.queries}
    try:
        with open(path, "rb") as file:
            found = file.read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise ValueError(f"must have at most {MOST_BYTES:,} bytes")
        keys = parse_queries(found.decode("utf-8-sig"), known)
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"--break-queries {path}: must be UTF-8: {error}") from error
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"--break-queries {path}: {error}") from error
    return BrokenQueries(keys, (backfill + (after or 0)) / 1000, 1.0 if share is None else share)


def write_judgements(path: str | None, traffic: Traffic) -> None:
    """Write the judgements of the simulated search. Raises BadParameter."""
    if path is None:
        return
    try:
        Path(path).write_bytes(judged_set(traffic.world))
    except OSError as error:
        raise click.BadParameter(f"--judgements {path}: {error.strerror}") from error
