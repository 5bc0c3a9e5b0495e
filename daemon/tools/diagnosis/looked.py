"""The events of a sample, and what they say of it: joins, ranks, times, ids, attributes. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from ...events import Decoder, Event, Feedback, Impression, LogRecord, Rejected
from ...lane import Lane, new_lane
from ...plan import Plan
from ...recompute.driver import LaneDriver

TOPIC: Final = "sample"
EVENTS_AT_ONCE: Final = 10_000
LEFT_OUT: Final = 1 / 3
"""Of the time of a sample: feedback so near its beginning may belong to lists from before it."""


@dataclass(frozen=True)
class Seen:
    """One event, and the record that it came from."""

    event: Event
    partition: int
    stamp_ms: int
    """-1: the record has none."""
    key: bytes | None = None
    topic: str = ""


@dataclass
class Looked:
    """The events of a sample, in the order of their records, topic by topic."""

    seen: list[Seen] = field(default_factory=list)
    refused: dict[str, Counter[str]] = field(default_factory=dict)
    """Topic → reason → records, or elements of batches, that are refused; without what is skipped
    or left out, with which nothing is wrong."""
    firsts: dict[str, str] = field(default_factory=dict)
    """Topic → the detail of its first refusal."""
    decode_us: float = 0.0
    """Processor time that an event took to decode."""

    @property
    def impressions(self) -> Iterator[Impression]:
        """All impressions."""
        return (one.event for one in self.seen if isinstance(one.event, Impression))

    @property
    def feedback(self) -> Iterator[Feedback]:
        """All feedback."""
        return (one.event for one in self.seen if isinstance(one.event, Feedback))

    def note_refusal(self, topic: str, event: Rejected) -> None:
        """Count it, unless nothing is wrong with its record."""
        if not event.skipped:
            self.refused.setdefault(topic, Counter())[event.reason] += 1
            self.firsts.setdefault(topic, event.detail)


def has_both(looked: Looked) -> bool:
    """Whether there are impressions and feedback."""
    return any(True for _ in looked.impressions) and any(True for _ in looked.feedback)


def looked_at(samples: Mapping[str, Sequence[LogRecord]], decode: Decoder) -> Looked:
    """The events of all records."""
    looked = Looked()
    for records in samples.values():
        for record in records:
            for event in decode.of_record(record):
                if isinstance(event, Rejected):
                    looked.note_refusal(record.topic, event)
                else:
                    looked.seen.append(
                        Seen(event, record.partition, record.timestamp, record.key, record.topic)
                    )
    return looked


def joined(seen: Sequence[Seen], plan: Plan) -> Counter[str]:
    """What becomes of feedback in one lane, in the order of event time, without what came so early
    that its list may lie before the sample."""
    return _joined(_judged(seen), plan)


def joined_by_partition(seen: Sequence[Seen], plan: Plan) -> Counter[str]:
    """The same with a lane for each partition, as workers have them."""
    by_partition: dict[int, list[Seen]] = {}
    for one in _judged(seen):
        by_partition.setdefault(one.partition, []).append(one)
    return sum((_joined(part, plan) for part in by_partition.values()), Counter())


def _judged(seen: Sequence[Seen]) -> list[Seen]:
    """In the order of event time, without feedback from the first part of the sample."""
    ordered = sorted(seen, key=lambda one: one.event.time_ms)
    if not ordered:
        return []
    first, last = ordered[0].event.time_ms, ordered[-1].event.time_ms
    from_ms = first + LEFT_OUT * (last - first)
    return [s for s in ordered if isinstance(s.event, Impression) or s.event.time_ms >= from_ms]


def _joined(ordered: Sequence[Seen], plan: Plan) -> Counter[str]:
    lane = _in_order([one.event for one in ordered], plan)
    outcomes = Counter({k: n for k, n in lane.counts["feedback_outcomes"].items() if n})
    outcomes["unjoined"] += len(lane.waiting)  # may still join, but all was read
    return outcomes


def ignored_kinds(looked: Looked, plan: Plan) -> Counter[str]:
    """Kinds of feedback that have neither a grade of their own nor one of their kind."""
    events = (one.event for one in looked.seen)
    return Counter(
        str(event.kind)
        for event in events
        if isinstance(event, Feedback) and event.grade is None and event.kind not in plan.grades
    )


def in_one_lane(seen: Sequence[Seen], plan: Plan) -> Lane:
    """A lane to which all events were applied, in the order of their time."""
    return _in_order(sorted((one.event for one in seen), key=lambda event: event.time_ms), plan)


def _in_order(events: Sequence[Event], plan: Plan) -> Lane:
    lane = new_lane(0, plan, {TOPIC: 0}, [TOPIC])
    driver = LaneDriver(lane)
    for start in range(0, len(events), EVENTS_AT_ONCE):
        driver.apply_events(TOPIC, events[start : start + EVENTS_AT_ONCE])
    driver.note_end()
    return lane


def skews_s(looked: Looked) -> list[float]:
    """Event time less the time of the record, in seconds, of records with a time."""
    return [(one.event.time_ms - one.stamp_ms) / 1000 for one in looked.seen if one.stamp_ms >= 0]


def delays_s(looked: Looked) -> list[float]:
    """Seconds from an impression to its feedback, by id, whatever the attribution window."""
    shown: dict[str, int] = {}
    for one in looked.impressions:
        shown.setdefault(one.impression_id, one.time_ms)
    found = (shown.get(one.impression_id) for one in looked.feedback)
    pairs = zip(looked.feedback, found, strict=True)
    return [(one.time_ms - at) / 1000 for one, at in pairs if at is not None]


def percentiles(values: Sequence[float], shares: Sequence[float]) -> list[float]:
    """The values at these shares, from 0 to 100; none where there are no values."""
    return np.percentile(values, shares).tolist() if values else []


def distinct_ids(looked: Looked) -> float | None:
    """Distinct ids of impressions by impression that is not a page or a repetition of its list;
    None without any."""
    lists = Counter(one.impression_id for one in looked.impressions)
    return len(lists) / lists.total() if lists else None


def attribute_values(looked: Looked) -> dict[str, Counter[str]]:
    """Attribute → value → impressions."""
    found: dict[str, Counter[str]] = {}
    for one in looked.impressions:
        for name, value in one.attributes.items():
            found.setdefault(name, Counter())[value] += 1
    return found


def disorder_s(looked: Looked) -> list[float]:
    """By how many seconds each event comes after a later one of its partition; 0 for one that comes
    in order. Records of a partition must be in the order of their offsets."""
    latest: dict[tuple[str, int], int] = {}
    found = []
    for one in looked.seen:
        place = one.topic, one.partition
        last = max(latest.get(place, 0), one.event.time_ms)
        latest[place] = last
        found.append((last - one.event.time_ms) / 1000)
    return found


def repeated_counts(looked: Looked) -> tuple[int, int]:
    """(impressions, feedback) that repeat one that was read before."""
    lists = Counter((one.impression_id, one.first_rank, one.items) for one in looked.impressions)
    reactions = Counter(
        (one.impression_id, one.kind, one.item, one.rank, one.time_ms) for one in looked.feedback
    )
    return lists.total() - len(lists), reactions.total() - len(reactions)


def busy_share(looked: Looked, searches_per_hour: float) -> float | None:
    """The share of impressions whose user has more searches in an hour than that; None where no
    impression has a user."""
    hours = Counter(
        (one.user_id, one.time_ms // 3_600_000)
        for one in looked.impressions
        if one.user_id is not None
    )
    if not hours:
        return None
    return sum(n for n in hours.values() if n > searches_per_hour) / hours.total()


Offsets: TypeAlias = Counter[int]
"""Reported rank less the rank of the item in its list → pieces of feedback."""
FEW: Final = 30
"""With fewer pieces of feedback no share of them is said."""
LEAST_ONE_RANK: Final = 0.8
"""Of the feedback with item and rank must agree about where ranks begin."""


def rank_offsets(looked: Looked) -> Offsets:
    """The offsets of all feedback with an item of a list and a rank."""
    return Counter(offset for _, offset in _offsets(looked))


def agreed_offset(offsets: Offsets) -> int | None:
    """The offset that nearly all feedback has; None where it is mixed, or there is too little."""
    if offsets.total() < FEW:
        return None
    offset, count = offsets.most_common(1)[0]
    return offset if count >= LEAST_ONE_RANK * offsets.total() else None


def offsets_explained_by(looked: Looked) -> tuple[str, Mapping[str, int]] | None:
    """The attribute of lists by whose values mixed ranks agree, and the offset of each value: often
    one application counts from 0 and another from 1. None where no attribute explains them."""
    by_name: dict[str, dict[str, Offsets]] = {}
    for shown, offset in _offsets(looked):
        for name, value in shown.attributes.items():
            by_name.setdefault(name, {}).setdefault(value, Counter())[offset] += 1
    found = dict[str, dict[str, int]]()
    for name, by_value in by_name.items():
        enough = {value: one for value, one in by_value.items() if one.total() >= FEW}
        offsets = {value: agreed_offset(one) for value, one in enough.items()}
        known = {value: offset for value, offset in offsets.items() if offset is not None}
        if len(set(known.values())) > 1 and len(known) == len(enough):
            found[name] = known
    # Of several, the one with the fewest values: the others divide it further.
    return min(found.items(), key=lambda one: (len(one[1]), one[0]), default=None)


def _offsets(looked: Looked) -> Iterator[tuple[Impression, int]]:
    """(impression, offset) of each piece of feedback with an item of a list and a rank."""
    ranks: dict[str, dict[str, tuple[Impression, int]]] = {}
    for shown in looked.impressions:
        at = ranks.setdefault(shown.impression_id, {})
        for rank, item in enumerate(shown.items, shown.first_rank):
            at.setdefault(item, (shown, rank))
    for one in looked.feedback:
        found = ranks.get(one.impression_id, {}).get(one.item or "")
        if one.rank is not None and found is not None:
            yield found[0], one.rank - found[1]
