"""The tallies of the experiments of a lane: for each arm 64 buckets of counters, and its users.

Users fall into buckets by their hash, so that the variance of an arm is that between buckets of
users: impressions of one user are alike and must not count as independent.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics.buckets import BUCKETS
from relevanced.metrics.lists import Integers
from relevanced.metrics.users import CAPACITY, Hashes

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
class Experiments:
    """All experiments of one lane, and what the next commit must write of them."""

    since_ms: dict[str, int | None] = field(default_factory=dict)
    """Name ("" for all undeclared experiments) → the first base pane that counts; None: from the
    beginning."""
    by_name: dict[str, Tallies] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    user_pages: set[tuple[str, int]] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
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
        self.changed.discard(name)
        self.user_pages = {page for page in self.user_pages if page[0] != name}
        self.dropped.add(name)
