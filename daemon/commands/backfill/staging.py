"""Hours of lanes that are made again, as the values of a filling. Pure."""

from dataclasses import dataclass, field

from ...lane import row_set, settling
from ...lane.lane import Lane
from ...plan import Plan
from ...storage.packing import pack_page
from ...storage.past import Names, hour_key, names_key, packed
from ..from_kafka.hour_rows import LATEST_MS


def named(lane: Lane) -> Names:
    """The (grouping, segment) of each segment id of a lane."""
    groupings = lane.plan.grouping_names
    return tuple((groupings[of], segment) for of, segment in lane.segments.names)


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

    def past_hours(self, lane: Lane, first_ms: int | None) -> None:
        """Take over the hours that cannot change any more; see `replaying.Watching`."""
        if lane.settled_before is None or first_ms is None:
            return
        still_open = row_set.open_hour(lane.settled_before, lane.plan)
        for start, rows in lane.hours.items():
            if max(first_ms, self.span.start) <= start < min(still_open, self.span.stop):
                for page in rows.page_numbers:
                    self.take(start, page, pack_page(rows.page(page)))

    def finish(self, lane: Lane, first_ms: int | None, read_ms: int | None) -> None:
        """Take over the rest of a lane. `first_ms`: None where nothing of it is known; `read_ms`:
        the clock at which the log ended where the lane was read to, None where it goes on."""
        if any(lane.counts["events"].values()):
            if read_ms is not None:
                _settle(lane, read_ms)
                self.past_hours(lane, first_ms)
            self.first_ms = max(self.first_ms, LATEST_MS if first_ms is None else first_ms)
            self.settled_ms = min(self.settled_ms, lane.settled_before or 0)
        self.finish_part(named(lane))

    def take(self, start: int, page: int, data: bytes) -> None:
        """Take over a page of an hour of the span, packed as it is stored."""
        self.seen_ms = min(self.seen_ms, start)
        self._put(hour_key(self.id, self.part, start, page), data)

    def finish_part(self, names: Names) -> None:
        """Go on with the next lane, after one with these segments."""
        self._put(names_key(self.id, self.part), packed(names))
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


def _settle(lane: Lane, time_ms: int) -> None:
    """Settle what had time until then. The lane can take no more events afterwards."""
    for topic, mark in lane.watermarks.items():
        lane.watermarks[topic] = max(mark or 0, time_ms)
    lane.start_batch()
    settling.settle(lane)
