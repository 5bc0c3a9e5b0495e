"""The searches of queries in a window, and on the days that say what is usual for it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from relevanced.metrics.lists import Booleans, Floats, Integers


@dataclass(frozen=True, eq=False)
class Searches:
    """Scored impressions of q queries, and the sums of one metric's scores, each score in 0…1."""

    scored: Integers
    """(q,) scored impressions in the window."""
    total: Floats
    """(q,) the sum of their scores."""
    daily_scored: Integers
    """(days, q) the same on each usual day."""
    daily_total: Floats
    """(days, q)."""

    @cached_property
    def usual_scored(self) -> Integers:
        """(q,) scored impressions on all usual days."""
        return np.asarray(self.daily_scored.sum(axis=0), np.int64)

    @cached_property
    def usual_total(self) -> Floats:
        """(q,) the sum of their scores."""
        return np.asarray(self.daily_total.sum(axis=0), np.float64)

    @property
    def has_usual(self) -> Booleans:
        """(q,) whether anything was scored on the usual days."""
        return self.usual_scored > 0

    def __len__(self) -> int:
        return len(self.scored)

    @classmethod
    def joined(cls, parts: Sequence["Searches"]) -> "Searches":
        """The queries of at least one part behind one another, such as listed and (other) ones; all
        have the same usual days."""
        return cls(
            np.concatenate([part.scored for part in parts]),
            np.concatenate([part.total for part in parts]),
            np.concatenate([part.daily_scored for part in parts], axis=1),
            np.concatenate([part.daily_total for part in parts], axis=1),
        )
