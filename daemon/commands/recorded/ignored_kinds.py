"""Kinds of feedback that have no grade, with how often they occur: a misspelt kind shows here."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ...attribution.runs import Run
from ...events.types import Event, Feedback

MOST_KINDS: Final = 1_000
"""So many kinds are counted by name; the rarest beyond them are counted together."""
OTHERS: Final = "(others)"


class IgnoredKinds:
    """Counts the feedback that has no grade, by kind."""

    def __init__(self, grades: Collection[str]) -> None:
        self._grades = grades
        self._counts: Counter[str] = Counter()

    def count_run(self, run: Run) -> None:
        """Count the feedback of a run."""
        self._add(run.kinds)
        if run.others:
            self.count(run.others.values())

    def count(self, events: Iterable[Event]) -> None:
        """Count the feedback among events."""
        self._add(
            event.kind or ""
            for event in events
            if isinstance(event, Feedback) and event.grade is None
        )

    def by_kind(self) -> Mapping[str, int]:
        """Kind → count, the most frequent first."""
        return dict(self._counts.most_common())

    def _add(self, kinds: Iterable[str]) -> None:
        for kind, count in Counter(kinds).items():
            if kind not in self._grades:
                self._counts[kind] += count
        if len(self._counts) > MOST_KINDS:
            kept = Counter(dict(self._counts.most_common(MOST_KINDS // 2)))
            kept[OTHERS] += self._counts.total() - kept.total()
            self._counts = kept
