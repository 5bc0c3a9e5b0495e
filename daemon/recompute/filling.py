"""The values of a filling, taken over from lanes that are made again. Pure."""

from dataclasses import dataclass, field, replace

from ..lane import row_sets
from ..plan import Plan
from ..storage import filling_hour_key, names_key, pack_page, packed_filling
from .driver import LATEST_MS, Settled, Sink


@dataclass
class Staging:
    """Takes over the hours that begin in a span, of one lane after the other."""

    id: str
    plan: Plan
    span: range
    """Of starts, in ms."""
    ready: dict[str, bytes] = field(default_factory=dict)
    """Key → value: what is to be stored. The caller takes it out."""
    keys: int = 0
    """How many values there were."""
    first_ms: int = 0
    """Earlier hours are not whole: of some lane not all of their events are known."""
    settled_ms: int = LATEST_MS
    """Hours that end later may lack feedback that has not come yet."""
    part: int = 0
    """The lane."""
    seen_ms: int = LATEST_MS
    """Start of the first hour with an impression."""

    def take(self, settled: Settled) -> None:
        """See `Sink`."""
        for start, rows in settled.hours(settled.lane):
            if start in self.span:
                self.seen_ms = min(self.seen_ms, start)
                for page in rows.page_numbers:
                    key = filling_hour_key(self.id, self.part, start, page)
                    self._put(key, pack_page(rows.page(page)))

    def finish(self, settled: Settled) -> None:
        """See `Sink`: hours that feedback may still change are left out."""
        self.take(settled)
        if settled.has_events:
            self.first_ms = max(self.first_ms, settled.whole_ms)
            self.settled_ms = min(self.settled_ms, settled.final_ms)
        groupings, segments = settled.lane.plan.grouping_names, settled.lane.segments.names
        names = tuple((groupings[of], segment) for of, segment in segments)
        self._put(names_key(self.id, self.part), packed_filling(names))
        self.part += 1

    def _put(self, key: str, value: bytes) -> None:
        self.ready[key] = value
        self.keys += 1

    @property
    def filled(self) -> range:
        """The starts of the hours that are whole in every lane, from the first with an impression
        on."""
        length = self.plan.hour_ms
        first = max(-(-self.first_ms // length) * length, self.seen_ms)
        return range(first, min(self.settled_ms // length * length, self.span.stop), length)


@dataclass
class FromFirstWholeHour:
    """A sink for files: the hour in which they begin may lack what was before, and is left out."""

    sink: Sink
    first_ms: int | None = None
    """None before anything has settled."""

    def take(self, settled: Settled) -> None:
        """See `Sink`."""
        lane = settled.lane
        if self.first_ms is None and lane.settled_before is not None and lane.hours:
            self.first_ms = row_sets.open_hour(min(lane.hours), lane.plan) + lane.plan.hour_ms
        self.sink.take(replace(settled, first_ms=self.first_ms))

    def finish(self, settled: Settled) -> None:
        """See `Sink`."""
        self.sink.finish(replace(settled, first_ms=self.first_ms))
