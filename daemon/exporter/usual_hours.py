"""How many of a stream usually come, hour by hour, by what is known of the hours before an instant.

Pure.
"""

from dataclasses import dataclass, field
from datetime import tzinfo
from statistics import fmean, median
from typing import Final

from ..changes import USUAL_GAPS
from ..panes import HOUR_MS, days_before, on_other_days, pane_start
from ..views import COUNTS_CELL, HourHistory
from .baselines import LEAST_OTHERS, shares

WEEK_MS: Final = 168 * HOUR_MS
HALF: Final = 0.5
"""An hour that has brought less than this share of what is usual lacks the rest."""
DAYS_BACK: Final = ((7, 14, 21), (1, 2, 3))
"""What is usual in an hour is the mean of the same local hours so many days before: of weeks, and
where no week is known of days, as a weekend is no fault. Where no day is known either, the last
whole hour before tells."""
MOST_HOURS: Final = 12
"""What brings nothing for longer may be a day on which a site is closed, and no outage."""
FULL_WITHIN: Final = 4
"""So many hours from an outage, on both sides, one must bring about as many as on other days."""


@dataclass(frozen=True, eq=False)
class HourlyCounts:
    """How many of a stream came in each hour. Whoever asks in one snapshot asks the same one: what
    one partition has looked up the others need not."""

    history: HourHistory
    column: int
    zone: tzinfo
    _known: dict[int, bool] = field(default_factory=dict)
    _others: dict[int, list[int]] = field(default_factory=dict)
    _usual: dict[tuple[int, int], "UsualHours"] = field(default_factory=dict)

    def usual_before(self, since_ms: int) -> "UsualHours | None":
        """What is usual as known by an instant; None where no hour is known."""
        whole = (start for start in reversed(self.history.starts) if start + HOUR_MS <= since_ms)
        last = next(whole, None)
        if last is None:
            return None
        settled_ms = pane_start(since_ms - self.history.plan.timing.settle_ms, HOUR_MS)
        known = last, settled_ms
        if known not in self._usual:
            self._usual[known] = UsualHours(self, settled_ms, last)
        return self._usual[known]

    def of(self, start: int) -> int:
        row = self.history.whole(start)
        return row[self.column] if row else 0

    def last_ms(self) -> int | None:
        """The end of the last hour that has any."""
        hours = (start for start in reversed(self.history.starts) if self.of(start))
        return next((start + HOUR_MS for start in hours), None)

    def knows(self, start: int) -> bool:
        """Whether it is known what an hour brought, once it has settled: nothing where no source
        has rows of it. Not of a lost one, nor of that within which the lanes may have begun."""
        if start not in self._known:
            sources, lost = self.history.sources, self.history.lost
            is_known = bool(sources.known(start)[0, COUNTS_CELL])
            self._known[start] = is_known and start not in lost and start != sources.born_ms
        return self._known[start]

    def others(self, start: int) -> list[int]:
        """The same local hours of the days around it that are known."""
        if start not in self._others:
            others = on_other_days(start, self.zone)
            self._others[start] = [each for each in others if self.knows(each)]
        return self._others[start]


@dataclass(frozen=True, eq=False)
class UsualHours:
    """How many usually come in each hour, as known by an instant."""

    counts: HourlyCounts
    settled_ms: int
    """Hours that end by then tell."""
    last: int
    """The last whole one."""
    _of: dict[int, float] = field(default_factory=dict)
    _within: dict[int, float] = field(default_factory=dict)
    _on_others: dict[int, float] = field(default_factory=dict)
    """Start of an hour → what `of`, `within` and `_on_other_days` have found."""

    def of(self, hour: int) -> float:
        """What the hour usually brings."""
        if hour not in self._of:
            self._of[hour] = fmean(self.counts.of(start) for start in self._like(hour))
        return self._of[hour]

    def within(self, hour: int) -> float:
        """The pace at any time within the hour, of which it is not known when it brings what: at
        least that of the lowest of it and those beside it."""
        if hour not in self._within:
            lowest = []
            for start in self._like(hour):
                beside = [s for s in _beside(start) if self._knows(s) and not self._is_of_outage(s)]
                lowest.append(min(self.counts.of(s) for s in (start, *beside)))
            self._within[hour] = fmean(lowest)
        return self._within[hour]

    def missing(self, since_ms: int, now_ms: int, settled_ms: int) -> tuple[float, float]:
        """(how many usually come between two instants between which none came, how many in the
        busiest of these hours); of more than a week by the last one. What is known of now ends at
        `settled_ms`."""
        expected = most = 0.0
        for hour, part in shares(max(since_ms, now_ms - WEEK_MS), now_ms, HOUR_MS).items():
            usual = self.of(hour)
            most = max(most, usual)
            if part == 1:
                expected += usual
            else:
                lacking = part * self.within(hour)
                if hour + HOUR_MS <= settled_ms and (came := self.counts.of(hour)) < HALF * usual:
                    lacking = usual - came
                expected += lacking
        return expected, most

    def _like(self, hour: int) -> list[int]:
        """The same local hours that are known, without outages: what several of them lack is usual,
        for one alone the days around it stand."""
        zone = self.counts.zone
        for days in DAYS_BACK:
            starts = (pane_start(hour - days_before(hour, day, zone), HOUR_MS) for day in days)
            known = [start for start in starts if self._knows(start)]
            found = [start for start in known if not self._is_of_outage(start)]
            if found or len(known) > 1:
                return found or known
            if known:
                least = HALF * self._on_other_days(known[0])
                return [s for s in self._others(known[0]) if self.counts.of(s) >= least]
        return [self.last]

    def _is_of_outage(self, start: int) -> bool:
        """Whether an hour is one of an outage, or lacks the rest as one begins or ends in it."""
        if not self.counts.of(start):
            return self._is_outage(start)
        empty = [each for each in _beside(start) if self._knows(each) and not self.counts.of(each)]
        lacks = bool(empty) and self.counts.of(start) < HALF * self._on_other_days(start)
        return lacks and any(self._is_outage(each) for each in empty)

    def _is_outage(self, start: int) -> bool:
        """Whether an hour without any is one of a few, each of which brings some on other days, and
        near which as many come as on those. A night does not, a closed day goes on into one, or
        is longer, and on a day with few searches hours are empty by chance."""
        hours, beside = [start], list[int]()
        for step in (-HOUR_MS, HOUR_MS):
            at = start + step
            while self._knows(at) and not self.counts.of(at) and len(hours) < MOST_HOURS:
                hours.append(at)
                at += step
            # An outage may begin or end within an hour, come back once more, or end slowly.
            near = (at + hours_away * step for hours_away in range(FULL_WITHIN))
            full = [each for each in near if self._is_full(each)]
            if not full or not self._brings_any(at):
                return False
            beside += map(self.counts.of, full[:2])
        usual = [self._on_other_days(hour) for hour in hours]
        return all(usual) and min(sum(usual), sum(beside)) >= USUAL_GAPS

    def _is_full(self, start: int) -> bool:
        """Whether an hour brings about as many as on other days, which can then stand for those
        beside it."""
        usual = self._on_other_days(start)
        return self._brings_any(start) and self.counts.of(start) >= HALF * usual > 0

    def _brings_any(self, start: int) -> bool:
        return self._knows(start) and self.counts.of(start) > 0

    def _on_other_days(self, start: int) -> float:
        """What the same local hour brings on most of the days around it; 0 where too few are
        known."""
        if start not in self._on_others:
            counts = [self.counts.of(each) for each in self._others(start)]
            self._on_others[start] = float(median(counts)) if len(counts) >= LEAST_OTHERS else 0.0
        return self._on_others[start]

    def _others(self, start: int) -> list[int]:
        return [each for each in self.counts.others(start) if self._is_settled(each)]

    def _knows(self, start: int) -> bool:
        return self._is_settled(start) and self.counts.knows(start)

    def _is_settled(self, start: int) -> bool:
        return start + HOUR_MS <= self.settled_ms


def _beside(start: int) -> tuple[int, int]:
    return start - HOUR_MS, start + HOUR_MS
