"""How far back a lost Redis would be filled again from Kafka, and whether that is far enough."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..config import Ago, LogEnd, Start
from ..events import span_text


@dataclass(frozen=True)
class Retention:
    """How long a topic keeps its records."""

    ms: int | None
    """None: for ever."""
    basis: str
    """What says so: `retention.ms`, or the age of its first record."""

    def words(self) -> str:
        """For people."""
        return f"{'all' if self.ms is None else span_text(self.ms)} ({self.basis})"


@dataclass(frozen=True)
class Needed:
    """How far back the records of a configuration matter.

    State that Redis lost is read again from Kafka: from `kafka.start` on, as far as the topics
    still have it. With the default start that is the longest window, and not the history that
    baselines are made of. Nobody should learn that on the day of the loss.
    """

    history_ms: int
    """`history.days`."""
    open_ms: int
    """Attribution window, lateness and base pane: what an interruption must not exceed."""


def rebuilt_ms(start: Start, topics: Mapping[str, Retention]) -> int | None:
    """How far back a lane that begins anew is complete; None: without a bound."""
    spans = [kept.ms for kept in topics.values() if kept.ms is not None]
    if start is LogEnd.LATEST:
        return 0
    if isinstance(start, Ago):
        spans.append(start.ms)
    return min(spans, default=None)


def shortfalls(start: Start, topics: Mapping[str, Retention], needed: Needed) -> list[str]:
    """What would be missing after a loss, each as a sentence with the way out; none where all of
    the history would be there."""
    found = []
    reach_ms = rebuilt_ms(start, topics)
    if reach_ms is not None and reach_ms < needed.history_ms:
        found.append(
            f"a lost Redis would be filled again from the last {span_text(reach_ms)} only, not from"
            f" history.days ({span_text(needed.history_ms)}): {_way_out(start, reach_ms)}"
        )
    for topic, kept in sorted(topics.items()):
        if kept.ms is not None and kept.ms < needed.open_ms:
            found.append(
                f"topic {topic} keeps {kept.words()}, less than attribution.window, lateness and"
                f" pane together ({span_text(needed.open_ms)}): raise its retention"
            )
    return found


def _way_out(start: Start, reach_ms: int) -> str:
    if start is LogEnd.LATEST or (isinstance(start, Ago) and start.ms <= reach_ms):
        return 'set kafka.start = "earliest", and back Redis up if the topics keep less'
    return "raise the retention of the topics, or back Redis up"
