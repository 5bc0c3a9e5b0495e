"""The examples of the queries of one lane, and what is stored of them. Pure.

They go with the rows of WHOLE, the table of all traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..panes import pane_start
from ..queries.examples import KEPT_HOURS, Examples
from ..queries.table import Table

ExamplesByKey = Mapping[str, Examples]
"""Key of a query → its examples, in the order of the rows of its table."""


@dataclass
class LaneExamples:
    """Those of the hour that can still change, and what is stored of others."""

    by_key: dict[str, Examples] = field(default_factory=dict)
    """Of the rows of the open hour that have any."""
    changed: set[str] = field(default_factory=set)
    """Keys whose examples changed since they were stored."""
    closed: dict[int, ExamplesByKey] = field(default_factory=dict)
    """Hours that this batch closed."""
    stored: dict[int, int] = field(default_factory=dict)
    """Start of an hour that is over → bytes of its examples in the store."""
    lost: set[int] = field(default_factory=set)
    """Starts of hours of which the store lost the examples."""
    dropped: list[int] = field(default_factory=list)
    """Starts of stored hours that are kept no longer, or were lost."""

    def start_batch(self) -> None:
        """Forget what the last batch changed, which is durable by now."""
        self.changed, self.closed, self.dropped = set(), {}, []

    def put(self, key: str, examples: Examples) -> None:
        """Replace the examples of a row of the open hour."""
        self.by_key[key] = examples
        self.changed.add(key)

    def follow(self, table: Table) -> None:
        """Drop the examples of rows that the table of the open hour no longer has."""
        for key in [key for key in self.by_key if table.row_of(key) is None]:
            del self.by_key[key]
            self.changed.discard(key)

    def close(self, hour_ms: int, table: Table) -> None:
        """Close the open hour, after its table."""
        by_key = {key: self.by_key[key] for key in table.keys if key in self.by_key}
        if by_key:
            self.closed[hour_ms] = by_key
        self.by_key, self.changed = {}, set()

    def keep_from(self, settled_before: int, hour_ms: int) -> None:
        """Drop the hours that are kept no longer."""
        first = pane_start(settled_before, hour_ms) - KEPT_HOURS * hour_ms
        self.lost = {start for start in self.lost if start >= first}
        self.closed = {start: found for start, found in self.closed.items() if start >= first}
        for start in [start for start in self.stored if start < first]:
            del self.stored[start]
            self.dropped.append(start)

    def lose(self, start: int) -> None:
        """Note that the examples of an earlier hour are missing in the store."""
        if self.stored.pop(start, None) is not None:
            self.dropped.append(start)
            self.lost.add(start)

    def follow_plan(self, before: "LaneExamples", count: int) -> None:
        """Take over the stored hours of a lane whose tables begin anew, or drop them where no more
        examples are kept."""
        if count:
            self.stored, self.lost = before.stored, before.lost
        else:
            self.dropped = [*before.stored]
