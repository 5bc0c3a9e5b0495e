"""What a replay is asked for. Pure."""

from dataclasses import dataclass
from typing import Final

from ...experiments.exclusion import Stretch

CHANGES_EVERY_MS: Final = 60_000
"""The buckets that changes are looked for in, unless others are asked for."""
PLOT_EVERY_MS: Final = 600_000
LATEST_MS: Final = 10**14


@dataclass(frozen=True)
class Asked:
    """What is printed in place of the scores."""

    experiment: str | None = None
    every_ms: int | None = None
    """The scores in each bucket of so much event time."""
    changes: bool = False
    """Which scores fell, by these buckets."""
    from_ms: int = 0
    to_ms: int = LATEST_MS
    excluded: tuple[Stretch, ...] = ()
    """Stretches of time that are left out of the experiment."""
    by_day: bool = False
    """The effect of the experiment on each day, and up to its end."""
    plot: str | None = None
    """The file that the scores in these buckets are drawn to."""
    serve_at: int | None = None
    """Serve the page at this port of the loopback, 0 for any that is free."""
    queries: str | None = None
    """The order in which queries are listed."""

    @property
    def needs_changes(self) -> bool:
        """Whether it is asked which scores fell."""
        return self.changes or self.plot is not None

    @property
    def bucket_ms(self) -> int | None:
        """The length of buckets; None where none are needed."""
        if self.every_ms is not None:
            return self.every_ms
        if self.changes:
            return CHANGES_EVERY_MS
        return None if self.plot is None else PLOT_EVERY_MS


SCORES: Final = Asked()
