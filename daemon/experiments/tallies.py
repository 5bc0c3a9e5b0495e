"""The tallies of the experiments of a lane: for each arm 64 buckets of counters, and its users.

Users fall into buckets by their hash, so that the variance of an arm is that between buckets of
users: impressions of one user are alike and must not count as independent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics.buckets import BUCKETS
from relevanced.metrics.lists import Integers
from relevanced.metrics.users import CAPACITY, Hashes

DAY_MS: Final = 24 * 60 * 60 * 1000
USER_PAGES: Final = 16
"""The hashes of an arm's users are stored in this many parts, by their lowest bits, so that a
commit writes only the parts with a new user."""


@dataclass
class Arm:
    """One variant: the tallies of its settled impressions."""

    tallies: Integers
    """(buckets, 1 + 3 x metrics): impressions, then scored, sum and squares of each metric."""
    without_unit: int = 0
    """Impressions without the unit (user, session, …); they are in no bucket."""
    credits: Integers = field(default_factory=lambda: np.zeros((BUCKETS, 3), np.int64))
    """(buckets, 3): count, sum and squares of the credits of interleaved lists."""
    users: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The least hashes of its users, ascending, at most `CAPACITY`: a KMV sketch."""
    strata: dict[str, Integers] = field(default_factory=dict)
    """Segment → tallies, if the experiment is stratified: they sum to `tallies`."""

    @staticmethod
    def empty(metrics: int) -> "Arm":
        """An arm without impressions, for this many metrics."""
        return Arm(np.zeros((BUCKETS, 1 + 3 * metrics), np.int64))

    @property
    def impressions(self) -> int:
        """All settled impressions, with and without a unit."""
        return int(self.tallies[:, 0].sum()) + self.without_unit

    def add_users(self, hashes: Hashes) -> set[int]:
        """Add users by hash, ascending and each once; return the user pages that changed."""
        if len(self.users) >= CAPACITY:
            hashes = hashes[hashes < self.users[-1]]
        indices = np.searchsorted(self.users, hashes)
        seen = np.zeros(len(hashes), np.bool_)
        inside = indices < len(self.users)
        seen[inside] = self.users[indices[inside]] == hashes[inside]
        new = hashes[~seen]
        if not len(new):
            return set()
        self.users = np.insert(self.users, indices[~seen], new)[:CAPACITY]
        return set((new & np.uint64(USER_PAGES - 1)).tolist())

    def user_page(self, page: int) -> Hashes:
        """The users of one stored part."""
        selected: Hashes = self.users[self.users & np.uint64(USER_PAGES - 1) == page]
        return selected


@dataclass
class Tallies:
    """One experiment of one lane."""

    digest: str
    arms: dict[str, Arm] = field(default_factory=dict)
    last_ms: int = 0
    """Start of the latest base pane with an impression of it."""


@dataclass
class Days:
    """Copies of the tallies at the end of each UTC day with a settled pane: cumulative, so the
    difference of two is what the days between added. A pane belongs to the day in which it
    starts."""

    ends: dict[int, dict[str, Tallies]] = field(default_factory=dict)
    """Start of a day in ms → the tallies at its end, without users and segments; ascending."""
    open_ms: int | None = None
    """Start of the day that can still change."""

    def settle(self, start_ms: int, by_name: Mapping[str, Tallies]) -> None:
        """Note that the pane that starts then is about to be added to these tallies. Panes come in
        order of time."""
        day_ms = start_ms - start_ms % DAY_MS
        if self.open_ms is not None and day_ms > self.open_ms:
            self.ends[self.open_ms] = _copied(by_name)
        self.open_ms = day_ms

    def finished(self, by_name: Mapping[str, Tallies]) -> dict[int, dict[str, Tallies]]:
        """The ends of all days, the last one as it stands in these tallies."""
        return self.ends | ({} if self.open_ms is None else {self.open_ms: _copied(by_name)})

    def forget(self, name: str) -> None:
        """Drop an experiment: under its name another one may begin."""
        for by_name in self.ends.values():
            by_name.pop(name, None)


def _copied(by_name: Mapping[str, Tallies]) -> dict[str, Tallies]:
    return {
        name: Tallies(
            one.digest,
            {
                variant: Arm(arm.tallies.copy(), arm.without_unit)
                for variant, arm in one.arms.items()
            },
            one.last_ms,
        )
        for name, one in by_name.items()
    }


@dataclass
class Experiments:
    """All experiments of one lane, and what the next commit must write of them."""

    since_ms: dict[str, int | None] = field(default_factory=dict)
    """Name ("" for all undeclared experiments) → the first base pane that counts; None: from the
    beginning."""
    by_name: dict[str, Tallies] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    user_pages: set[tuple[str, int]] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    days: Days | None = None
    """None where effects by day are not asked for."""
    left_out: dict[str, dict[str, Arm]] = field(default_factory=dict)
    """Name → variant → the impressions and users that an exclusion left out, without metrics."""

    def start_batch(self) -> None:
        """Forget what changed: the commit that wrote it is durable."""
        self.changed, self.user_pages, self.dropped = set(), set(), set()

    def begin(self, name: str, digest: str) -> None:
        """Begin to count an experiment."""
        self.by_name[name] = Tallies(digest)
        self.changed.add(name)
        if name in self.dropped:
            # Its former users are still stored under the same keys: every part is written again.
            self.user_pages.update((name, page) for page in range(USER_PAGES))

    def drop(self, name: str) -> None:
        """Forget an experiment."""
        del self.by_name[name]
        if self.days is not None:
            self.days.forget(name)
        self.changed.discard(name)
        self.user_pages = {page for page in self.user_pages if page[0] != name}
        self.dropped.add(name)
