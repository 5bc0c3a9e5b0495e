"""Last touch compared with the ids of feedback, on records that have both."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...config import Config, decoder_of
from ...events import BY_ID, LAST_TOUCH, Feedback, LogRecord
from ...lane import Lane, new_lane
from ...recompute.driver import LaneDriver
from .looked import EVENTS_AT_ONCE, TOPIC, looked_at
from .parts import DoctorFinding, percent

NAME: Final = "last touch"
LEAST_EQUAL: Final = 0.95
"""A smaller share of equal joins is worth a look."""


@dataclass(frozen=True)
class ComparedJoins:
    """What becomes of the same feedback by its id, and by last touch."""

    by_id: int
    """Joined by id."""
    same: int
    """Of these, what joins the same impression by last touch."""
    others: int
    """What joins another one."""
    more: int
    """What joins by last touch alone."""
    scores: Mapping[str, tuple[float | None, float | None]]
    """Metric → its mean by id and by last touch; None where nothing is scored."""

    @property
    def equal(self) -> float | None:
        """The share of equal joins; None without any by id."""
        return self.same / self.by_id if self.by_id else None

    @property
    def changes(self) -> dict[str, float]:
        """Metric → how far its mean by last touch is from that by id, as a ratio of this."""
        pairs = self.scores.items()
        return {name: after / before - 1 for name, (before, after) in pairs if before and after}

    def finding(self) -> DoctorFinding:
        """The same in a sentence."""
        if self.equal is None:
            return DoctorFinding(NAME, "look", "no feedback joins by id: nothing to compare with")
        none = self.by_id - self.same - self.others
        changes = ", ".join(f"{name} {100 * by:+.2f} %" for name, by in self.changes.items())
        words = (
            f"{percent(self.equal)} of {self.by_id:,} pieces of feedback that join by id join the"
            f" same list, {percent(self.others / self.by_id)} another one,"
            f" {percent(none / self.by_id)} none; {self.more:,} join by last touch alone; so"
            f" {changes or 'no score changes'}"
        )
        return DoctorFinding(NAME, "good" if self.equal >= LEAST_EQUAL else "look", words)


def compared_joins(samples: Mapping[str, Sequence[LogRecord]], config: Config) -> ComparedJoins:
    """Join the events of all records twice, each time in the order of event time."""
    first, second = (_joined(samples, config, join) for join in (BY_ID, LAST_TOUCH))
    by_id, by_touch = Counter(first.joins), Counter(second.joins)
    same = (by_id & by_touch).total()
    feedback = [Counter(about for about, *_ in joins.elements()) for joins in (by_id, by_touch)]
    return ComparedJoins(
        by_id=by_id.total(),
        same=same,
        others=(feedback[0] & feedback[1]).total() - same,
        more=(feedback[1] - feedback[0]).total(),
        scores={name: (before, _means(second)[name]) for name, before in _means(first).items()},
    )


def _joined(samples: Mapping[str, Sequence[LogRecord]], config: Config, join: str) -> Lane:
    config = replace(config, attribution=replace(config.attribution, join=join))
    seen = looked_at(samples, decoder_of(config)).seen
    # Of one time, the list first: it was shown before it was clicked.
    events = sorted((one.event for one in seen), key=lambda e: (e.time_ms, isinstance(e, Feedback)))
    lane = new_lane(0, config.plan, {TOPIC: 0}, [TOPIC])
    lane.joins = []
    driver = LaneDriver(lane)
    for start in range(0, len(events), EVENTS_AT_ONCE):
        driver.apply_events(TOPIC, events[start : start + EVENTS_AT_ONCE])
    driver.finish()
    return lane


def _means(lane: Lane) -> dict[str, float | None]:
    """Metric → its mean over all impressions, which have settled."""
    found = dict[str, float | None]()
    for index, metric in enumerate(lane.plan.metrics):
        column = lane.plan.metric_column(index)
        row = lane.totals.page(0)[0] if 0 in lane.totals.page_numbers else None
        scored = 0 if row is None else int(row[column])
        total = 0 if row is None else int(row[column + 1])
        found[metric.name] = total / metric.unit / scored if scored else None
    return found
