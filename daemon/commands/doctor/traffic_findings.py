"""What is to be said of keys, crawlers, consent, size, and the smallest drop that would be seen.
Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from ...config.settings import Config
from ...events.types import LogRecord
from ...judging.noise import Noise
from ...plan import ALL
from . import looked as of
from .crawlers import Share, crawlers, refusals
from .expected import LEAST_A_DAY, Smallest, lane_of, size_of, smallest_drops, span_s
from .finding import Finding, percent
from .keys import keys_of, meaning
from .looked import Looked
from .openings import opened, opening_of
from .visitors import design_effect

MOST_SEARCHES_AN_HOUR: Final = 300
"""A user with more is no person."""
PREFERRED: Final = "nDCG@10"
"""The metric whose smallest drop is said, where it is computed."""


def found(
    samples: Mapping[str, Sequence[LogRecord]], looked: Looked, config: Config, values: bool
) -> Iterator[Finding]:
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
        yield Finding("consent", "look" if share.out else "good", words)
    if of.has_both(looked):
        yield from _expected(looked, config, values)


def _keys(topic: str, records: Sequence[LogRecord], looked: Looked) -> Finding:
    keys = keys_of(records)
    what = meaning([one for one in looked.seen if one.topic == topic])
    name = f"keys of {topic}"
    if not keys.keyed:
        return Finding(
            name,
            "look",
            "no record has a key: nothing keeps a search and its feedback in one partition",
        )
    words = f"{percent(keys.keyed)} of the records have one, {keys.distinct:,} distinct"
    words += f"; it is {what}" if what else "; neither the id of the search nor the user"
    if keys.partitioner is not None:
        words += f"; placed by {keys.partitioner} over {keys.partitions} partitions"
    return Finding(name, "good", words)


def _crawlers(shares: Sequence[Share], looked: Looked) -> Finding:
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
    return Finding("crawlers", "look" if level else "good", words)


def _expected(looked: Looked, config: Config, values: bool) -> Iterator[Finding]:
    names = [metric.name for metric in config.plan.metrics]
    metric = names.index(PREFERRED) if PREFERRED in names else 0
    judging = config.resolved_judging
    lane = lane_of(looked, config.plan)
    effect = max(design_effect(looked, lane, metric) or 0.0, judging.design_effect)
    noise = Noise(effect, judging.drift_ratio, judging.weekday_drift_ratio)
    smallest = smallest_drops(lane, span_s(looked.seen), metric, noise)
    size = size_of(looked, config.plan, len(smallest), config.history.days)
    if size is not None:
        words = (
            f"{size.events_per_s:,.1f} events/s in this sample: about {size.series:,} series, "
            f"{_megabytes(size.redis_bytes)} of Redis, {_megabytes(size.memory_bytes)} of memory"
            f" for open impressions, {_cores(size.cores)} of this machine"
        )
        yield Finding("size", "good", words)
    if effect > judging.design_effect:
        words = f"{effect:.1f}: searches of one visitor resemble one another, by this factor the"
        words += (
            f" variance of a mean is larger; judging.design_effect is {judging.design_effect:g}"
        )
        yield Finding("design effect", "look", words)
    for grouping, segments in groupby(smallest, key=lambda one: one.grouping):
        yield _drops(grouping, list(segments), names[metric], values)


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else "less than 1 MB"


def _cores(cores: float) -> str:
    return "less than 1 % of a core" if cores < 0.01 else f"{100 * cores:,.0f} % of a core"


def _drops(grouping: str, segments: Sequence[Smallest], metric: str, values: bool) -> Finding:
    name = "smallest drop" if grouping == ALL else f"smallest drop by {grouping}"
    known = [one.drop for one in segments if one.drop is not None]
    if values:
        words = ", ".join(f"{one.segment}: {_drop(one)}" for one in segments)
    elif len(segments) == 1:
        words = _drop(segments[0])
    else:
        few = Counter(_drop(one) for one in segments if one.drop is None)
        listed = [f"{why} in {n}" for why, n in few.items()]
        words = "; ".join([_range(known), *listed] if known else listed)
    words += f" (of {metric}, seen within a day in 9 of 10 cases, with traffic like this)"
    return Finding(name, "good" if known else "look", words)


def _range(drops: Sequence[float]) -> str:
    least, most = percent(min(drops)), percent(max(drops))
    span = least if least == most else f"{least} to {most}"
    return f"{span} in {len(drops)} segments" if len(drops) > 1 else f"{span} in 1 segment"


def _drop(one: Smallest) -> str:
    if one.drop is not None:
        return percent(one.drop)
    few = one.scored_per_day < LEAST_A_DAY
    return "too little traffic" if few else "too few searches in this sample"
