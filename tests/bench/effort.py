"""How much is measured: all of it, less of it, or just enough to see that everything runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

SMOKE_BELOW: Final = 0.02
"""Of the full scale: one round, and only the first of several sizes or the ends of a line."""


@dataclass(frozen=True)
class Effort:
    """`scale` 1 is what the published numbers are made with."""

    scale: float = 1.0

    @property
    def is_smoke(self) -> bool:
        """Whether the numbers mean nothing."""
        return self.scale < SMOKE_BELOW

    def of(self, amount: float) -> int:
        """An amount of records or impressions."""
        return max(1, round(amount * self.scale))

    def rounds(self, count: int) -> int:
        """Repetitions."""
        return 1 if self.is_smoke else count

    def first(self, options: Sequence[T]) -> Sequence[T]:
        """Independent measurements."""
        return options[:1] if self.is_smoke else options

    def ends(self, points: Sequence[T]) -> Sequence[T]:
        """Points of a line."""
        return (points[0], points[-1]) if self.is_smoke else points
