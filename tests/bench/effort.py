"""How much is measured: everything, less, or only enough to check that everything runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

SMOKE_BELOW: Final = 0.02
"""Scale below which there is one round, with only the first of several sizes or the ends of a
curve."""


@dataclass(frozen=True)
class Effort:
    """Amounts at a scale; the published numbers are measured at scale 1."""

    scale: float = 1.0

    @property
    def is_smoke(self) -> bool:
        """Whether the run only checks that everything works: its numbers mean nothing."""
        return self.scale < SMOKE_BELOW

    def of(self, amount: float) -> int:
        """A number of records or impressions at this scale."""
        return max(1, round(amount * self.scale))

    def rounds(self, count: int) -> int:
        """The number of repetitions."""
        return 1 if self.is_smoke else count

    def first(self, options: Sequence[T]) -> Sequence[T]:
        """The measurements to make, of several independent ones."""
        return options[:1] if self.is_smoke else options

    def ends(self, points: Sequence[T]) -> Sequence[T]:
        """The points of a curve to measure."""
        return (points[0], points[-1]) if self.is_smoke else points
