"""The arms of an experiment, as one lane counts them: for each 64 buckets of counters, its users,
and the busiest of them. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from relevanced.metrics import BUCKETS, CAPACITY, Hashes, Integers

USER_PAGES: Final = 16
"""The hashes of an arm's users are stored in this many parts, by their lowest bits, so that a
commit writes only the parts with a new user."""
MOST_BUSY: Final = 128
"""Units of an arm that are followed: among them is every one with more than 1 / 129 of it."""
_AHEAD: Final = 4 * MOST_BUSY
"""So many impressions are looked at for what can be added at once."""


@dataclass
class Busiest:
    """The units with the most impressions, in a summary of Misra and Gries (1982).

    Each unit has credits: its impressions, less what all units lose whenever more than `MOST_BUSY`
    have some. A unit loses at most 1 / 129 of all impressions, so that one with more stays.
    """

    units: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    """(n,) ascending."""
    credits: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    impressions: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """Since the unit is followed: no more than it has."""

    def add(self, other: "Busiest") -> None:
        """Add those of later impressions, or of other lanes, whatever the order of units.

        >>> one = Busiest()
        >>> one.add(Busiest.of(np.array([7, 7, 9], np.uint64)))
        >>> one.add(Busiest.of(np.array([7], np.uint64)))
        >>> one.units.tolist(), one.impressions.tolist()
        ([7, 9], [3, 1])
        """
        units, places = np.unique(np.concatenate((self.units, other.units)), return_inverse=True)
        credits, impressions = np.zeros((2, len(units)), np.int64)
        np.add.at(credits, places, np.concatenate((self.credits, other.credits)))
        np.add.at(impressions, places, np.concatenate((self.impressions, other.impressions)))
        if len(units) > MOST_BUSY:
            credits -= np.partition(credits, -MOST_BUSY - 1)[-MOST_BUSY - 1]
        kept = credits > 0
        self.units, self.credits, self.impressions = units[kept], credits[kept], impressions[kept]

    def add_in_turn(self, units: Hashes, panes: Integers) -> None:
        """Add the units of panes, one pane after the other: (n,) a unit for each impression, and
        the pane that it is of, ascending."""
        at = 0
        while at < len(units):
            stop = at + self._added_at_once(units[at:], panes[at:])
            self.add(Busiest.of(units[at:stop]))
            at = stop

    def _added_at_once(self, units: Hashes, panes: Integers) -> int:
        """How many of the next impressions make the same of it as pane by pane: those of the panes
        until which all units together are no more than are followed, so that none loses anything.
        At least those of one pane."""
        ahead = units[:_AHEAD]
        _, firsts = np.unique(np.concatenate((self.units, ahead)), return_index=True)
        end = len(ahead)
        if len(firsts) > MOST_BUSY:
            end = int(np.sort(firsts)[MOST_BUSY]) - len(self.units)
        if end == len(units):
            return end
        before = int(np.searchsorted(panes, panes[end]))
        return before or int(np.searchsorted(panes, panes[0], side="right"))

    @staticmethod
    def of(units: Hashes) -> "Busiest":
        """All units of some impressions, (n,) a unit for each."""
        found, counts = np.unique(units, return_counts=True)
        return Busiest(found, counts, counts)

    def capped(self, cap: int | None) -> "Busiest":
        """With at most so many impressions of each unit."""
        if cap is None:
            return self
        return Busiest(self.units, np.minimum(self.credits, cap), np.minimum(self.impressions, cap))


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
    homes: dict[str, Hashes] = field(default_factory=dict)
    """Segment → those of the users who were first seen in it, ascending, if it is stratified: they
    make up `users`."""
    strata: dict[str, Integers] = field(default_factory=dict)
    """Segment → tallies, if the experiment is stratified: they sum to `tallies`."""
    hours: Integers = field(default_factory=lambda: np.zeros(24, np.int64))
    """Impressions with a unit in each hour of the last day."""
    busiest: Busiest = field(default_factory=Busiest)
    """Of the days before the last."""
    busiest_today: Busiest = field(default_factory=Busiest)
    """Of the last day, with what is beyond the cap."""
    beyond_cap: int = 0
    """Impressions that are left out, because their unit had its most of the day."""

    @staticmethod
    def empty(metrics: int) -> "Arm":
        """An arm without impressions, for this many metrics."""
        return Arm(np.zeros((BUCKETS, 1 + 3 * metrics), np.int64))

    @property
    def impressions(self) -> int:
        """All settled impressions, with and without a unit."""
        return int(self.tallies[:, 0].sum()) + self.without_unit

    def add_users(self, hashes: Hashes, segments: Sequence[str] = ()) -> set[int]:
        """Add users by hash, ascending and each once, with the segment of each if the experiment is
        stratified; return the user pages that changed."""
        homes = np.array(segments, object)
        if len(self.users) >= CAPACITY:
            kept = hashes < self.users[-1]
            hashes, homes = hashes[kept], homes[kept[: len(homes)]]
        indices = np.searchsorted(self.users, hashes)
        seen = np.zeros(len(hashes), np.bool_)
        inside = indices < len(self.users)
        seen[inside] = self.users[indices[inside]] == hashes[inside]
        new = hashes[~seen]
        if not len(new):
            return set()
        self.users = np.insert(self.users, indices[~seen], new)[:CAPACITY]
        homes = homes[~seen[: len(homes)]]
        for segment in sorted(set(homes)):
            before = self.homes.get(segment, np.zeros(0, np.uint64))
            self.homes[segment] = np.union1d(before, new[homes == segment])
        if len(self.users) >= CAPACITY:
            self.homes = {s: of[of <= self.users[-1]] for s, of in self.homes.items()}
        return set((new & np.uint64(USER_PAGES - 1)).tolist())

    def user_page(self, page: int) -> dict[str, Hashes]:
        """The users of one stored part by segment; those without segments by ""."""
        parts = self.homes or {"": self.users}
        return {s: of[of & np.uint64(USER_PAGES - 1) == page] for s, of in parts.items()}
