"""From which pane on a lane is proven whose log has lost its first records. Pure.

The state of a lane before the first record that is left is not known: which impressions were open,
which feedback waited, where the watermarks were. But nothing of it lasts. No record that is gone
has a later timestamp than the first that is left, and no event counts that is more than
`events.max_future` ahead of its record. So every event that is gone lies before

    t0 = the greatest timestamp of the first records that are left + max_future

A lane that began anew after a loss adds the timestamp before which all lies that it lost then. Of
a topic that was deleted and created again, the records of the former one are gone.

Once a topic's own watermark has passed t0 by a base pane, the attribution window and the lateness,
all of that is closed, and the topic's events are judged as they were when the lane was first read.
An impression that is later than any event met until then, with 5 s for clocks, is thus counted in
full, and so is every pane that begins after it.
"""

from collections.abc import Iterable, Sequence

from ..events import Decoder, LogRecord, Rejected
from ..panes import pane_start
from ..plan import Plan
from ..timing import GRACE_MS


class LostBeginning:
    """Finds the first pane that is proven, while the records of a lane are read."""

    def __init__(
        self, plan: Plan, max_future_ms: int, topics: Iterable[str], since_ms: int | None = None
    ) -> None:
        """`since_ms`: records that are gone are older, by their timestamps, whatever is left."""
        self._timing, self._reach_ms = plan.timing, plan.touch_reach_ms
        self._max_future_ms, self._since_ms = max_future_ms, since_ms or 0
        self._stamps_ms: dict[str, int | None] = dict.fromkeys(topics)
        """Topic → timestamp of its first record that has one."""
        self._latest_ms = 0
        self._ready: set[str] = set()
        """Topics whose own watermark has passed all that is unknown."""

    def note(self, topic: str, records: Sequence[LogRecord], decode: Decoder) -> None:
        """Note records of a topic, before they are applied to the lane."""
        if topic in self._ready:
            return
        for record in records:
            if self._stamps_ms[topic] is None and record.timestamp >= 0:
                self._stamps_ms[topic] = record.timestamp
            for events in decode.slices_of(record):
                times_ms = [e.time_ms for e in events if not isinstance(e, Rejected)]
                self._latest_ms = max(self._latest_ms, *times_ms, 0)

    def applied(self, topic: str, watermark_ms: int | None) -> None:
        """Note the watermark of a topic once they are applied."""
        known_ms = self._known_from_ms
        if watermark_ms is not None and known_ms is not None and watermark_ms >= known_ms:
            self._ready.add(topic)

    @property
    def is_reached(self) -> bool:
        """Whether every topic has passed what is unknown."""
        return self._ready == self._stamps_ms.keys()

    @property
    def first_ms(self) -> int | None:
        """Start of the first base pane that is proven; None while it is not known."""
        if not self.is_reached:
            return None
        base_ms = self._timing.base_ms
        return pane_start(self._latest_ms + self._reach_ms + GRACE_MS, base_ms) + base_ms

    @property
    def missing(self) -> str:
        """Why nothing is proven; "" where something is."""
        if self.is_reached:
            return ""
        unstamped = sorted(topic for topic, ms in self._stamps_ms.items() if ms is None)
        if unstamped:
            return f"no record with a timestamp is left of {', '.join(unstamped)}"
        late = ", ".join(sorted(self._stamps_ms.keys() - self._ready))
        span_s = (self._max_future_ms + self._timing.base_ms + self._timing.settle_ms) // 1000
        return f"the records that are left of {late} span less than the {span_s} s that are needed"

    @property
    def _known_from_ms(self) -> int | None:
        """The watermark from which on a topic's events are judged as they were."""
        stamps_ms = [ms for ms in self._stamps_ms.values() if ms is not None]
        if len(stamps_ms) < len(self._stamps_ms):
            return None
        unknown_ms = max([self._since_ms, *stamps_ms]) + self._max_future_ms
        return unknown_ms + self._timing.base_ms + self._timing.settle_ms
