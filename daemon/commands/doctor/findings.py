"""What is to be said of a sample of topics, line by line."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ...config.settings import Config
from . import looked as of
from .looked import Looked
from .proposing import Source
from .trials import Trial

Level: TypeAlias = Literal["good", "look", "wrong"]
"""`look`: somebody should. `wrong`: numbers would be."""

LEAST_DECODED: Final = 0.95
LEAST_JOINED: Final = 0.3
LEAST_SAME_PARTITION: Final = 0.99
LEAST_ONE_RANK: Final = 0.8
"""Of the feedback with item and rank must agree about where ranks begin."""
FEW: Final = 30
"""With fewer pieces of feedback no share of them is said."""
LEAST_DISTINCT_IDS: Final = 0.2
MOST_SKEW_S: Final = 300
"""As `events.max_future`: what is further ahead is rejected."""
SHOWN_VALUES: Final = 5


@dataclass(frozen=True)
class Finding:
    """One line."""

    name: str
    level: Level
    words: str


def findings(
    samples: Mapping[str, int],
    sources: Sequence[Source],
    looked: Looked,
    config: Config,
    *,
    values: bool = False,
) -> Iterator[Finding]:
    """All lines, of so many records by topic, which these sources read. `values`: whether refusals
    are shown with the value that was refused."""
    chosen = {source.topic: source.trial for source in sources}
    for topic, records in samples.items():
        yield _decoded(topic, records, chosen.get(topic), values)
    if not looked.seen:
        return
    yield _events(looked)
    if any(source.lacks_ids for source in sources):
        words = (
            "feedback and lists have no value in common: log the id of the search in both, and"
            " name it as id of [sources.impression] and [sources.feedback]"
        )
        yield Finding("join rate", "wrong", words)
        return
    outcomes = of.joined(looked.seen, config.plan)
    yield _joins(outcomes)
    yield from _partitions(outcomes, looked, config)
    yield from _ranks(of.rank_offsets(looked))
    yield from _times(looked)
    yield from _ids(looked)
    yield from _attributes(looked, config)


def is_wrong(found: Sequence[Finding]) -> bool:
    """Whether numbers would be wrong."""
    return any(finding.level == "wrong" for finding in found)


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.1f} %"


def _decoded(topic: str, records: int, trial: Trial | None, values: bool) -> Finding:
    name = f"records of {topic}"
    if not records:
        return Finding(name, "wrong", "none arrived: is the topic in use, and long enough?")
    if trial is None:
        words = (
            f"{records:,} read, and no preset maps a fifth of them: describe them in [[sources]]"
        )
        return Finding(name, "wrong", words)
    share = percent(trial.share)
    words = f"{share} of {trial.records:,} map with preset {trial.preset}"
    refused = [f"{reason} {count:,}" for reason, count in trial.reasons.most_common()]
    if refused:
        reason, _ = trial.reasons.most_common(1)[0]
        first = f"the first: {trial.firsts[reason]}" if values else "--show-values: an example"
        words += f"; others: {', '.join(refused)} ({first})"
    skipped = sum(count for reason, count in trial.reasons.items() if reason == "not_mapped")
    refused_share = 1 - (trial.mapped + skipped) / trial.records
    level: Level = "wrong" if refused_share > 1 - LEAST_DECODED else "good"
    return Finding(name, level, words)


def _events(looked: Looked) -> Finding:
    lists = sum(1 for _ in looked.impressions)
    reactions = len(looked.seen) - lists
    missing = "impressions" if not lists else "feedback" if not reactions else ""
    words = f"{lists:,} impressions, {reactions:,} pieces of feedback"
    if missing:
        words += f": without {missing} there is nothing to score"
    return Finding("events", "wrong" if missing else "good", words)


def _total(outcomes: Counter[str]) -> int:
    return outcomes.total() - outcomes["rank_mismatch"]  # counted beside `joined`


def _joins(outcomes: Counter[str]) -> Finding:
    total, name = _total(outcomes), "join rate"
    if total < FEW:
        words = f"too little feedback to say: {total:,} pieces in the last two thirds of the sample"
        return Finding(name, "look", words)
    share = outcomes["joined"] / total
    others = [f"{k} {n:,}" for k, n in outcomes.most_common() if k not in ("joined",) and n]
    words = f"{percent(share)} of {total:,} pieces of feedback join an impression"
    words += f"; others: {', '.join(others)}" if others else ""
    return Finding(name, "wrong" if share < LEAST_JOINED else "good", words)


def _partitions(outcomes: Counter[str], looked: Looked, config: Config) -> Iterator[Finding]:
    if outcomes["joined"] < FEW:
        return
    name = "same partition"
    if len({one.partition for one in looked.seen}) == 1:
        yield Finding(name, "look", "all records are of one partition: nothing is known")
        return
    share = of.joined_by_partition(looked.seen, config.plan)["joined"] / outcomes["joined"]
    words = f"{percent(share)} of what joins is in the partition of its impression"
    if share < LEAST_SAME_PARTITION:
        words += ": give both topics the same key, partitioner and number of partitions"
        yield Finding(name, "wrong", words)
    else:
        yield Finding(name, "good", words)


def _ranks(offsets: Counter[int]) -> Iterator[Finding]:
    if offsets.total() < FEW:
        return
    (offset, count), name = offsets.most_common(1)[0], "ranks"
    share = count / offsets.total()
    if share < LEAST_ONE_RANK:
        listed = ", ".join(
            f"{o:+d}: {percent(n / offsets.total())}" for o, n in offsets.most_common(4)
        )
        yield Finding(name, "wrong", f"mixed: reported rank less place in the list is {listed}")
    elif offset:
        base = 1 + offset
        words = f"{percent(share)} of the feedback counts ranks from {base}: rank_base = {base}"
        yield Finding(name, "wrong", words)
    else:
        yield Finding(name, "good", f"{percent(share)} of the feedback names the item's own rank")


def _times(looked: Looked) -> Iterator[Finding]:
    if skews := of.percentiles(of.skews_s(looked), (1, 50, 99)):
        low, middle, high = skews
        words = f"event less record: {low:+.1f} s, {middle:+.1f} s, {high:+.1f} s (1 %, 50 %, 99 %)"
        ahead = high > MOST_SKEW_S
        words += (
            ": events that are further ahead than events.max_future are refused" if ahead else ""
        )
        yield Finding("time", "wrong" if ahead else "good", words)
    if delays := of.percentiles(of.delays_s(looked), (50, 95)):
        words = f"{delays[0]:.0f} s in the middle, {delays[1]:.0f} s for 95 %, within this sample"
        yield Finding("feedback after", "good", words)


def _ids(looked: Looked) -> Iterator[Finding]:
    distinct = of.distinct_ids(looked)
    if distinct is not None and distinct < LEAST_DISTINCT_IDS:
        words = f"one id has {1 / distinct:.0f} impressions: this is a list, not a search"
        yield Finding("ids", "wrong", words)
    elif distinct is not None:
        yield Finding(
            "ids", "good", f"{percent(distinct)} of the impressions have an id of their own"
        )


def _attributes(looked: Looked, config: Config) -> Iterator[Finding]:
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
        yield Finding(f"attribute {name}", "look" if many else "good", words)
