"""What is to be said of a sample of topics, line by line. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ...config.settings import Config
from ...events.types import LogRecord
from . import event_findings, other_kinds, traffic_findings
from . import looked as of
from .finding import Finding, Level, percent
from .looked import Looked
from .proposing import Source
from .ranks import FEW
from .trials import Trial, same_tables
from .units import units_of

LEAST_DECODED: Final = 0.95
LEAST_JOINED: Final = 0.3
LEAST_SAME_PARTITION: Final = 0.99


def findings(
    samples: Mapping[str, Sequence[LogRecord]],
    sources: Sequence[Source],
    looked: Looked,
    config: Config,
    *,
    values: bool = False,
) -> Iterator[Finding]:
    """All lines, of the records by topic, which these sources read. `config` is what is proposed.
    `values`: whether refusals are shown with the value that was refused, and segments with their
    names."""
    chosen = {source.topic: source.trial for source in sources}
    for topic, records in samples.items():
        yield _decoded(topic, len(records), chosen.get(topic), values)
    yield from other_kinds.found(sources, samples, values)
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
    yield from event_findings.found(looked, config, units_of(config, samples), values)
    yield from traffic_findings.found(samples, looked, config, values)


def _decoded(topic: str, records: int, trial: Trial | None, values: bool) -> Finding:
    name = f"records of {topic}"
    if not records:
        return Finding(name, "wrong", "none arrived: is the topic in use, and long enough?")
    if trial is None:
        words = (
            f"{records:,} read; no preset maps a fifth of them, and no tables could be guessed by"
            " which feedback joins: describe them in [[sources]]"
        )
        return Finding(name, "wrong", words)
    share = percent(trial.share)
    how = f"with preset {_names(trial.preset)}" if trial.preset else "with the guessed tables"
    words = f"{share} of {trial.records:,} map {how}"
    others = [f"{count:,} {reason}" for reason, count in trial.reasons.most_common()]
    if others:
        words += f"; others: {', '.join(others)}{_example(trial, values)}"
    skipped = sum(count for reason, count in trial.reasons.items() if reason == "not_mapped")
    refused_share = 1 - (trial.mapped + skipped) / trial.records
    level: Level = "wrong" if refused_share > 1 - LEAST_DECODED else "good"
    return Finding(name, level, words)


def _names(preset: str) -> str:
    """The preset, and those that read such records alike."""
    return " or ".join([preset, *same_tables(preset)])


def _example(trial: Trial, values: bool) -> str:
    """The first refusal, or how to see it; empty where records are only not mapped."""
    detailed = [reason for reason, _ in trial.reasons.most_common() if trial.firsts[reason]]
    if not detailed:
        return ""
    return (
        f" (the first: {trial.firsts[detailed[0]]})" if values else " (--show-values: an example)"
    )


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
    words = f"{percent(share)} of {total:,} pieces of feedback in the last two thirds of the sample"
    words += " join an impression"
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
    words = f"{percent(share)} of the feedback that joins is in the partition of its impression"
    if share < LEAST_SAME_PARTITION:
        words += ": give both topics the same key, partitioner and number of partitions"
        yield Finding(name, "wrong", words)
    else:
        yield Finding(name, "good", words)
