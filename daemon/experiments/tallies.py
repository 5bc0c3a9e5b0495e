"""What a lane holds of its experiments: per arm 64 buckets of counters, and its users."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics.buckets import BUCKETS
from relevanced.metrics.lists import Integers
from relevanced.metrics.users import CAPACITY, Hashes

USER_PAGES: Final = 16
"""A sketch is stored in as many parts, by the lowest bits of the hashes."""


@dataclass
class Arm:
    """One variant: every settled impression that was shown in it."""

    tallies: Integers
    """(buckets, 1 + 3 x metrics): impressions, then scored, sum and squares of each metric."""
    without_unit: int = 0
    """Impressions that do not tell whom they were shown to; in no bucket."""
    credits: Integers = field(default_factory=lambda: np.zeros((BUCKETS, 3), np.int64))
    """(buckets, 3): number, sum and squares of the credits of interleaved lists."""
    users: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The least hashes of its users, ascending, at most `CAPACITY`."""
    strata: dict[str, Integers] = field(default_factory=dict)
    """Segment → tallies, where the experiment is stratified: they sum to `tallies`."""

    @staticmethod
    def empty(metrics: int) -> "Arm":
        """Nothing seen, of so many metrics."""
        return Arm(np.zeros((BUCKETS, 1 + 3 * metrics), np.int64))

    @property
    def impressions(self) -> int:
        """All of them."""
        return int(self.tallies[:, 0].sum()) + self.without_unit

    def add_users(self, hashes: Hashes) -> set[int]:
        """Add users, ascending and each once; the pages of the sketch that changed."""
        if len(self.users) >= CAPACITY:
            hashes = hashes[hashes < self.users[-1]]
        places = np.searchsorted(self.users, hashes)
        known = np.zeros(len(hashes), np.bool_)
        inside = places < len(self.users)
        known[inside] = self.users[places[inside]] == hashes[inside]
        fresh = hashes[~known]
        if not len(fresh):
            return set()
        self.users = np.insert(self.users, places[~known], fresh)[:CAPACITY]
        return set((fresh & np.uint64(USER_PAGES - 1)).tolist())

    def user_page(self, number: int) -> Hashes:
        """One part of the sketch."""
        chosen: Hashes = self.users[self.users & np.uint64(USER_PAGES - 1) == number]
        return chosen


@dataclass
class Tallies:
    """One experiment of one lane."""

    digest: str
    arms: dict[str, Arm] = field(default_factory=dict)
    last_ms: int = 0
    """The latest base pane that held an impression of it."""


@dataclass
class Experiments:
    """All experiments of one lane, and what the next commit must write of them."""

    since_ms: dict[str, int | None] = field(default_factory=dict)
    """By name ("": all that nobody declared) the first base pane that counts; None: from the
    beginning."""
    by_name: dict[str, Tallies] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    user_pages: set[tuple[str, int]] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)

    def start_batch(self) -> None:
        """What was changed is durable."""
        self.changed, self.user_pages, self.dropped = set(), set(), set()

    def begin(self, name: str, digest: str) -> None:
        """Hold one more experiment."""
        self.by_name[name] = Tallies(digest)
        self.changed.add(name)
        if name in self.dropped:
            # its former users are still stored
            self.user_pages.update((name, page) for page in range(USER_PAGES))

    def drop(self, name: str) -> None:
        """Forget an experiment."""
        del self.by_name[name]
        self.changed.discard(name)
        self.user_pages = {page for page in self.user_pages if page[0] != name}
        self.dropped.add(name)
