"""What is to be said of the events of a sample: ranks, times, ids, attributes, keys, crawlers,
consent, size, and the smallest drop that would be seen.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import sqrt
from typing import Final

from ...changes import ScoreNoise, Site, ages, family
from ...config import AttributionSection, Config
from ...events import Impression, LogRecord
from ...lane import Lane
from ...plan import ALL, Plan
from ...recompute.buckets import view_of
from ...views import snapshot
from ...worker import cores_of
from . import looked as of
from .looked import (
    FEW,
    Looked,
    Offsets,
    Seen,
    agreed_offset,
    in_one_lane,
    offsets_explained_by,
    rank_offsets,
)
from .parts import DoctorFinding, percent
from .profile import IN_WORDS, CrawlerShare, crawlers, refusals
from .visitors import design_effect, keys_of, meaning, opened, opening_of

BYTES_IN_MEMORY: Final = 196
BYTES_IN_REDIS: Final = 49
"""Of an open impression."""
ROW_BYTES: Final = 43
"""Of a row in Redis: a segment in a pane or an hour."""
HOURS_A_DAY: Final = 24
DAY_S: Final = 86_400
LEAST_SCORED: Final = 30
"""Fewer impressions of a sample say nothing of how their scores spread."""
LEAST_A_DAY: Final = 200
"""As `changes.smallest_sample`."""
COMPARED_WINDOWS: Final = 3


@dataclass(frozen=True)
class Size:
    """What to expect of the daemon."""

    events_per_s: float
    series: int
    redis_bytes: float
    memory_bytes: float
    """Of open impressions, all workers together, beyond that of the process."""
    cores: float
    """On the machine that looked at the sample."""


@dataclass(frozen=True)
class Smallest:
    """The smallest drop of a segment that would be seen within a day of its begin."""

    grouping: str
    segment: str
    scored_per_day: float
    drops: tuple[float, float, float] | None
    """As shares of the score, in 9 of 10 cases: while three weeks are known, one week, and a day; 1
    where no drop would be. None: too little traffic, or unknown."""


def span_s(seen: Sequence[Seen]) -> float:
    """The time from the first event to the last, in seconds."""
    times = [one.event.time_ms for one in seen]
    return (max(times) - min(times)) / 1000 if times else 0.0


def size_of(looked: Looked, plan: Plan, segments: int, history_days: int) -> Size | None:
    """What so many segments come to; None where the sample has no length. `looked.decode_us` is
    what an event took to decode."""
    seconds = span_s(looked.seen)
    if not seconds:
        return None
    timing = plan.timing
    open_s = (timing.settle_ms + timing.base_ms) / 1000
    still_open = sum(isinstance(one.event, Impression) for one in looked.seen) / seconds * open_s
    per_s = len(looked.seen) / seconds
    panes = sum(window.pane_count for window in timing.windows) + history_days * HOURS_A_DAY
    return Size(
        per_s,
        segments * _series(plan),
        still_open * BYTES_IN_REDIS + segments * panes * ROW_BYTES,
        still_open * BYTES_IN_MEMORY,
        cores_of(per_s, looked.decode_us),
    )


def _series(plan: Plan) -> int:
    """Of one segment: both views of each window, comparisons with what is usual, and counters."""
    metrics = len(plan.metrics)
    views = 2 * len(plan.timing.windows) * (4 + 3 * metrics)
    return views + 2 * COMPARED_WINDOWS * (6 + 2 * metrics) + 4 + 3 * metrics


def lane_of(looked: Looked, plan: Plan) -> Lane:
    """A lane that has the whole sample."""
    return in_one_lane(looked.seen, replace(plan, history_hours=0))


def smallest_drops(
    lane: Lane, seconds: float, metric_index: int, noise: ScoreNoise
) -> list[Smallest]:
    """For each segment of a lane with so many seconds of traffic, by grouping, those with the most
    traffic first."""
    view = view_of(lane)
    known = snapshot.evaluate([view], lane.plan, view.names.segments)
    rows = snapshot.with_everything(known, [view], lane.plan).windows[-1].rows
    means, errors = snapshot.estimates(rows, lane.plan, metric_index)
    scored = rows[:, lane.plan.metric_column(metric_index)]
    found = [
        _smallest(*segment, int(count), float(mean), float(error), seconds, noise)
        for segment, count, mean, error in zip(known.segments, scored, means, errors, strict=True)
    ]
    order = {name: place for place, name in enumerate(lane.plan.grouping_names)}
    return sorted(found, key=lambda one: (order[one.grouping], -one.scored_per_day, one.segment))


def _smallest(
    grouping: str,
    segment: str,
    scored: int,
    mean: float,
    error: float,
    seconds: float,
    noise: ScoreNoise,
) -> Smallest:
    per_day = scored / seconds * DAY_S if seconds else 0.0
    if scored < LEAST_SCORED or per_day < LEAST_A_DAY or not mean > 0:
        return Smallest(grouping, segment, per_day, None)
    site = Site(per_day / HOURS_A_DAY, mean, error * sqrt(scored))
    known = {age.known: min(age.drops(site)[-1], 1.0) for age in ages(noise)}
    return Smallest(grouping, segment, per_day, (known["22 days"], known["8 days"], known["26 h"]))


MOST_SEARCHES_AN_HOUR: Final = 300
"""A user with more is no person."""


def found(
    samples: Mapping[str, Sequence[LogRecord]], looked: Looked, config: Config, values: bool
) -> Iterator[DoctorFinding]:
    """All lines, of events that were read with this configuration. `values`: whether segments are
    named; an attribute may turn out to be an id of persons."""
    for topic, records in samples.items():
        if records:
            yield _keys(topic, records, looked)
    objects = [
        value for records in samples.values() for value, _ in opened(records, opening_of(records))
    ]
    yield _crawlers(crawlers(objects), looked)
    for share in refusals(objects):
        words = f"{share.path} is false in {percent(share.of)} of {share.records:,} records"
        words += ": leave them out with [[sources.drop]] if they may not be counted" * bool(
            share.out
        )
        yield DoctorFinding("consent", "look" if share.out else "good", words)
    if of.has_both(looked):
        yield from _expected(looked, config, values)


def _keys(topic: str, records: Sequence[LogRecord], looked: Looked) -> DoctorFinding:
    keys = keys_of(records)
    what = meaning([one for one in looked.seen if one.topic == topic])
    name = f"keys of {topic}"
    if not keys.keyed:
        return DoctorFinding(
            name,
            "look",
            "no record has a key: nothing keeps a search and its feedback in one partition",
        )
    words = f"{percent(keys.keyed)} of the records have one, {keys.distinct:,} distinct"
    words += f"; it is {what}" if what else "; neither the id of the search nor the user"
    if keys.partitioner is not None:
        words += f"; placed by {keys.partitioner} over {keys.partitions} partitions"
    return DoctorFinding(name, "good", words)


def _crawlers(shares: Sequence[CrawlerShare], looked: Looked) -> DoctorFinding:
    busy = of.busy_share(looked, MOST_SEARCHES_AN_HOUR)
    if not shares:
        words, level = "no field looks like a user agent", busy is not None and busy > 0
    else:
        first = shares[0]
        words = f"{percent(first.of)} of the records with {first.path} name a crawler"
        words += "; the proposal leaves them out" * bool(first.out)
        level = bool(first.out) or bool(busy)
    if busy is not None:
        words += f"; {percent(busy)} of the impressions are of users with more than"
        words += f" {MOST_SEARCHES_AN_HOUR} searches in an hour"
    return DoctorFinding("crawlers", "look" if level else "good", words)


def _expected(looked: Looked, config: Config, values: bool) -> Iterator[DoctorFinding]:
    names = [metric.name for metric in config.plan.metrics]
    metric = min(range(len(names)), key=lambda index: family(names[index]))
    change_settings = config.resolved_changes
    lane = lane_of(looked, config.plan)
    effect = max(design_effect(looked, lane, metric) or 0.0, change_settings.design_effect)
    noise = ScoreNoise(effect, change_settings.drift_ratio, change_settings.weekday_drift_ratio)
    smallest = smallest_drops(lane, span_s(looked.seen), metric, noise)
    size = size_of(looked, config.plan, len(smallest), config.history.days)
    if size is not None:
        words = (
            f"{size.events_per_s:,.1f} events/s in this sample: about {size.series:,} series, "
            f"{_megabytes(size.redis_bytes)} of Redis, {_megabytes(size.memory_bytes)} of memory"
            f" for open impressions, {cores_text(size.cores)} of this machine"
        )
        yield DoctorFinding("size", "good", words)
    if effect > change_settings.design_effect:
        words = f"{effect:.1f}: searches of one visitor resemble one another, by this factor the"
        words += " variance of a mean is larger; changes.design_effect is"
        words += f" {change_settings.design_effect:g}"
        yield DoctorFinding("design effect", "look", words)
    for grouping, segments in groupby(smallest, key=lambda one: one.grouping):
        yield _drops(grouping, list(segments), names[metric], values)


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else "less than 1 MB"


def cores_text(cores: float) -> str:
    """A use of processors, for people."""
    return "less than 1 % of a core" if cores < 0.01 else f"{100 * cores:,.0f} % of a core"


def _drops(grouping: str, segments: Sequence[Smallest], metric: str, values: bool) -> DoctorFinding:
    name = "smallest drop" if grouping == ALL else f"smallest drop by {grouping}"
    known = [one.drops[0] for one in segments if one.drops is not None]
    if grouping == ALL and segments[0].drops is not None:
        later, week, day = map(_share, segments[0].drops)
        words = f"{metric} by {later} once three weeks are known, {week} with one week, {day} with"
        words += " a day: seen within a day in 9 of 10 cases, with traffic like this"
        return DoctorFinding(name, "good", words)
    if values:
        words = ", ".join(f"{one.segment}: {_drop(one)}" for one in segments)
    elif len(segments) == 1:
        words = _drop(segments[0])
    else:
        few = Counter(_drop(one) for one in segments if one.drops is None)
        listed = [f"{why} in {n}" for why, n in few.items()]
        words = "; ".join([_range(known), *listed] if known else listed)
    words += f" ({metric}, once three weeks are known)" * bool(known)
    return DoctorFinding(name, "good" if known else "look", words)


def _range(drops: Sequence[float]) -> str:
    least, most = _share(min(drops)), _share(max(drops))
    span = least if least == most else f"{least} to {most}"
    return f"{span} in {len(drops)} segments" if len(drops) > 1 else f"{span} in 1 segment"


def _share(drop: float) -> str:
    return percent(drop) if drop < 1 else "no fall"


def _drop(one: Smallest) -> str:
    if one.drops is not None:
        return _share(one.drops[0])
    few = one.scored_per_day < LEAST_A_DAY
    return "too little traffic" if few else "too few searches in this sample"


LEAST_DISTINCT_IDS: Final = 0.2
MOST_SKEW_S: Final = 300
"""As `events.max_future`: what is further ahead is rejected."""
SHOWN_VALUES: Final = 5
USUAL: Final = AttributionSection()
"""The defaults, which the proposal keeps where they suffice."""
LATENESS_AT: Final = 99
WINDOW_AT: Final = 95
"""Percentiles of disorder and of delays that lateness and window must cover."""


def found_in_events(
    looked: Looked, config: Config, units: Mapping[str, str], values: bool
) -> Iterator[DoctorFinding]:
    """All lines. `units`: in which times are written, by topic. `values`: whether values of
    attributes are shown; one may turn out to be an id of persons."""
    yield from _ranks(looked, values)
    yield from _times(looked, units)
    yield from _ids(looked)
    yield from _repeated(looked)
    yield from _attributes(looked, config)


def needed_lateness_s(looked: Looked) -> float:
    """The lateness that nearly all events need."""
    values = of.percentiles(of.disorder_s(looked), (LATENESS_AT,))
    return values[0] if values else 0.0


def needed_window_s(looked: Looked) -> float:
    """The attribution window that most feedback needs, as far as a sample of this length shows."""
    values = of.percentiles(of.delays_s(looked), (WINDOW_AT,))
    return values[0] if values else 0.0


def _ranks(looked: Looked, values: bool) -> Iterator[DoctorFinding]:
    offsets, name = rank_offsets(looked), "ranks"
    if offsets.total() < FEW:
        return
    offset = agreed_offset(offsets)
    if offset is None:
        yield DoctorFinding(name, "wrong", _mixed(offsets, offsets_explained_by(looked), values))
        return
    share = percent(offsets[offset] / offsets.total())
    if offset:
        base = 1 + offset
        words = f"{share} of the feedback counts ranks from {base}: rank_base = {base}"
        yield DoctorFinding(name, "wrong", words)
    else:
        yield DoctorFinding(
            name, "good", f"{share} of the ranks in feedback are those of the items in their lists"
        )


def _mixed(offsets: Offsets, explained: tuple[str, Mapping[str, int]] | None, values: bool) -> str:
    """The words for ranks that do not agree; values of attributes only where they are asked for."""
    common = offsets.most_common(4)
    listed = ", ".join(f"{offset:+d}: {percent(n / offsets.total())}" for offset, n in common)
    words = f"mixed: reported rank less rank in the list is {listed}"
    if explained is None:
        return words
    attribute, by_value = explained
    words += f"; by {attribute} they agree"
    if values:
        words += " (" + ", ".join(f"{value}: {of:+d}" for value, of in by_value.items()) + ")"
    return f"{words}: map each in a table of its own, with its `where` and rank_base"


def _times(looked: Looked, units: Mapping[str, str]) -> Iterator[DoctorFinding]:
    if skews := of.percentiles(of.skews_s(looked), (1, 50, 99)):
        low, middle, high = (round(skew, 1) + 0.0 for skew in skews)  # no -0.0
        span = f"from {low:+.1f} s to {high:+.1f} s"
        if low == high:
            span = f"{low:+.1f} s"
        words = f"event time minus record time: {span} for 98 % of the events"
        words += f", median {middle:+.1f} s" if low != high else ""
        listed = sorted({IN_WORDS.get(unit, unit) for unit in units.values()})
        words = f"written in {' and '.join(listed)}; {words}" if listed else words
        ahead = high > MOST_SKEW_S
        words += (
            ": events that are further ahead than events.max_future are refused" if ahead else ""
        )
        yield DoctorFinding("time", "wrong" if ahead else "good", words)
    late_s, lateness_s = needed_lateness_s(looked), USUAL.lateness_s
    words = f"99 % of the events come within {late_s:.1f} s after later ones of their partition"
    words = (
        words
        if late_s
        else "99 % of the events come in the order of their times, partition by partition"
    )
    if late_s > lateness_s:
        words += f": with attribution.lateness of {lateness_s} s they are late; the proposal waits"
    yield DoctorFinding("disorder", "look" if late_s > lateness_s else "good", words)
    if delays := of.percentiles(of.delays_s(looked), (50, WINDOW_AT)):
        words = (
            f"median {delays[0]:.0f} s, 95 % within {delays[1]:.0f} s, as far as this sample shows"
        )
        window_s = USUAL.window_s
        if delays[1] > window_s:
            words += f": attribution.window of {window_s} s leaves some out; the proposal is longer"
        yield DoctorFinding("feedback after", "look" if delays[1] > window_s else "good", words)


def _ids(looked: Looked) -> Iterator[DoctorFinding]:
    distinct = of.distinct_ids(looked)
    if distinct is not None and distinct < LEAST_DISTINCT_IDS:
        words = f"one id has {1 / distinct:.0f} impressions: this is a list, not a search"
        yield DoctorFinding("ids", "wrong", words)
    elif distinct is not None:
        yield DoctorFinding(
            "ids", "good", f"{percent(distinct)} of the impressions have an id of their own"
        )


def _repeated(looked: Looked) -> Iterator[DoctorFinding]:
    lists, reactions = of.repeated_counts(looked)
    if not looked.seen:
        return
    words = f"{lists:,} impressions and {reactions:,} pieces of feedback repeat an earlier one"
    words += "; repeated impressions count once, repeated feedback adds nothing" * bool(
        lists + reactions
    )
    yield DoctorFinding("duplicates", "good", words)


def _attributes(looked: Looked, config: Config) -> Iterator[DoctorFinding]:
    lists = sum(1 for _ in looked.impressions)
    for name, values in of.attribute_values(looked).items():
        shares = [percent(count / lists) for _, count in values.most_common(SHOWN_VALUES)]
        words = f"{len(values):,} values; the most frequent have {', '.join(shares)}"
        missing = 1 - values.total() / lists
        words += f"; {percent(missing)} have none" if missing > 0 else ""
        many = len(values) > config.segments.max_segments
        words += (
            f": too many for a grouping (segments.max_segments is {config.segments.max_segments})"
            * many
        )
        yield DoctorFinding(f"attribute {name}", "look" if many else "good", words)
