"""What is to be said of a sample of topics, line by line, and how it is printed and written."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ...changes import sentences
from ...config import ONE, REKEY, Config, decoder_of, presets
from ...events import FORMATS, NOT_MAPPED, TOMBSTONE, LogRecord, Rejected
from ...lane import COUNTED_BESIDE
from ...mapping import expression
from ...plan import Plan
from ...recompute.unjoined import Unjoined
from ...schemas import JSON
from ...worker import meeting_advice, meeting_lanes
from . import bodies, looked as of, traffic_findings
from .bodies import GivenBodies, Written
from .looked import FEW, Looked, attribute_values
from .parts import (
    MOST_RECORDS,
    DoctorFinding,
    Level,
    elements_of,
    find_value,
    is_wrong,
    json_value,
    percent,
    toml,
    units_of,
    with_value,
)
from .proposing import ProposedSource, Trial, config_of, same_tables
from .traffic_findings import USUAL, cores_text, needed_lateness_s, needed_window_s, size_of

SHOWN_KINDS: Final = 5


def unmapped_kinds(source: ProposedSource, records: Sequence[LogRecord]) -> Counter[str]:
    """Kind → events of this kind that neither table of the preset maps."""
    path = _kind_path(source.trial.preset)
    if path is None:
        return Counter()
    kind, decode = expression(path), decoder_of(config_of([source]))
    found = Counter[str]()
    for record in records[:MOST_RECORDS]:
        for value in elements_of(source.trial.preset, json_value(record.value)):
            element = with_value(record, msgspec.json.encode(value))
            if all(_is_not_mapped(event) for event in decode.of_record(element)):
                name = find_value(kind, value)
                found.update([name] if isinstance(name, str) else [])
    return found


def _unmapped_kind_findings(
    sources: Sequence[ProposedSource], samples: Mapping[str, Sequence[LogRecord]], values: bool
) -> Iterator[DoctorFinding]:
    """A line for each topic that has some. `values`: whether they are named."""
    for source in sources:
        kinds = unmapped_kinds(source, samples[source.topic])
        if kinds:
            count = "1 value" if len(kinds) == 1 else f"{len(kinds)} values"
            listed = ", ".join(f"{name} {n:,}" for name, n in kinds.most_common(SHOWN_KINDS))
            words = (
                f"{kinds.total():,} records have another {_kind_path(source.trial.preset)} than the"
                f" preset knows, {count}: add those that are feedback to kinds of"
                f" [sources.feedback] ({listed if values else '--show-values: which'})"
            )
            yield DoctorFinding(f"other kinds in {source.topic}", "look", words)


def _kind_path(preset: str) -> str | None:
    """Where a preset with a table of kinds finds the kind of an event."""
    table = presets().get(preset, {}).get("feedback", {})
    return str(table["kind"]) if "kinds" in table else None


def _is_not_mapped(event: object) -> bool:
    return isinstance(event, Rejected) and event.reason == NOT_MAPPED


LEAST_DECODED: Final = 0.95
LEAST_JOINED: Final = 0.3
LEAST_SAME_PARTITION: Final = 0.99


def findings(
    samples: Mapping[str, Sequence[LogRecord]],
    sources: Sequence[ProposedSource],
    looked: Looked,
    config: Config,
    *,
    values: bool = False,
) -> Iterator[DoctorFinding]:
    """All lines, of the records by topic, which these sources read. `config` is what is proposed.
    `values`: whether refusals are shown with the value that was refused, and segments with their
    names."""
    chosen = {source.topic: source.trial for source in sources}
    for topic, records in samples.items():
        yield _decoded(topic, len(records), chosen.get(topic), values)
        yield from _refused(topic, looked, values)
    yield from _unmapped_kind_findings(sources, samples, values)
    if not looked.seen:
        return
    yield _events(looked)
    if any(source.lacks_ids for source in sources):
        words = (
            "feedback and lists have no value in common: log the id of the search in both, and"
            " name it as id of [sources.impression] and [sources.feedback]; or join by the visitor,"
            ' where both name one: join = "last_touch" in [attribution]'
        )
        yield DoctorFinding("join rate", "wrong", words)
        return
    outcomes = of.joined(looked.seen, config.plan)
    yield _joins(outcomes, looked, config.plan, values)
    yield from _partitions(outcomes, looked, config)
    yield from traffic_findings.found_in_events(looked, config, units_of(config, samples), values)
    yield from traffic_findings.found(samples, looked, config, values)


def _decoded(topic: str, records: int, trial: Trial | None, values: bool) -> DoctorFinding:
    name = f"records of {topic}"
    if not records:
        return DoctorFinding(name, "wrong", "none arrived: is the topic in use, and long enough?")
    if trial is None:
        words = (
            f"{records:,} read; no preset maps a fifth of them, and no tables could be guessed by"
            " which feedback joins: describe them in [[sources]]"
        )
        return DoctorFinding(name, "wrong", words)
    share = percent(trial.share)
    # The preset, and those that read such records alike.
    presets = " or ".join([trial.preset, *same_tables(trial.preset)]) if trial.preset else ""
    how = f"with preset {presets}" if presets else "with the guessed tables"
    first = "the first " if trial.records + trial.reasons[TOMBSTONE] < records else ""
    words = f"{share} of {first}{trial.records:,} map {how}"
    others = [f"{count:,} {reason}" for reason, count in trial.reasons.most_common()]
    if others:
        words += f"; others: {', '.join(others)}{_example(trial, values)}"
    refused_share = trial.refused / trial.records
    level: Level = "wrong" if refused_share > 1 - LEAST_DECODED else "good"
    return DoctorFinding(name, level, words)


def _refused(topic: str, looked: Looked, values: bool) -> Iterator[DoctorFinding]:
    """What the proposed source refuses in the whole sample of a topic, also in batches of which
    other elements map; nothing where it refuses nothing."""
    reasons = looked.refused.get(topic)
    if not reasons:
        return
    total = reasons.total() + sum(1 for one in looked.seen if one.topic == topic)
    share = reasons.total() / total
    listed = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    example = f"the first: {looked.firsts[topic]}" if values else "--show-values: an example"
    words = f"{percent(share)} of {total:,} events in the whole sample: {listed} ({example})"
    level: Level = "wrong" if share > 1 - LEAST_DECODED else "look"
    yield DoctorFinding(f"refused in {topic}", level, words)


def _example(trial: Trial, values: bool) -> str:
    """The first refusal, or how to see it; empty where records are only not mapped."""
    detailed = [reason for reason, _ in trial.reasons.most_common() if trial.firsts[reason]]
    if not detailed:
        return ""
    return (
        f" (the first: {trial.firsts[detailed[0]]})" if values else " (--show-values: an example)"
    )


def _events(looked: Looked) -> DoctorFinding:
    lists = sum(1 for _ in looked.impressions)
    reactions = len(looked.seen) - lists
    missing = "impressions" if not lists else "feedback" if not reactions else ""
    words = f"{lists:,} impressions, {reactions:,} pieces of feedback"
    if missing:
        words += f": without {missing} there is nothing to score"
    return DoctorFinding("events", "wrong" if missing else "good", words)


def _joins(outcomes: Counter[str], looked: Looked, plan: Plan, values: bool) -> DoctorFinding:
    total, name = outcomes.total(), "join rate"
    total -= sum(outcomes[outcome] for outcome in COUNTED_BESIDE)
    if total < FEW:
        words = f"too little feedback to say: {total:,} pieces in the last two thirds of the sample"
        return DoctorFinding(name, "look", words)
    share = outcomes["joined"] / total
    others = [f"{k} {n:,}" for k, n in outcomes.most_common() if k not in ("joined",) and n]
    words = f"{percent(share)} of {total:,} pieces of feedback in the last two thirds of the sample"
    words += " join an impression"
    words += f"; others: {', '.join(others)}" if others else ""
    unjoined = Unjoined.of([of.in_one_lane(looked.seen, plan)], of.ignored_kinds(looked, plan))
    if unjoined is not None:
        words, shown = unjoined.text(values=values), unjoined.text()
        words += " (--show-values: examples)" if words != shown else ""
    return DoctorFinding(name, "wrong" if share < LEAST_JOINED else "good", words)


def _partitions(outcomes: Counter[str], looked: Looked, config: Config) -> Iterator[DoctorFinding]:
    if outcomes["joined"] < FEW:
        return
    name = "same partition"
    share = _same_partition(outcomes, looked, config)
    if share is None:
        yield DoctorFinding(name, "look", "all records are of one partition: nothing is known")
        return
    words = f"{percent(share)} {IN_PARTITION}"
    if share >= LEAST_SAME_PARTITION:
        yield DoctorFinding(name, "good", words)
    elif config.kafka.lanes in (ONE, REKEY):
        words += f': the proposal has lanes = "{config.kafka.lanes}", for which it makes no'
        yield DoctorFinding(name, "look", f"{words} difference")
    else:
        words += ": give both topics the same key, partitioner and number of partitions, or"
        yield DoctorFinding(name, "wrong", f"{words} {meeting_advice(_cores(looked, config))}")


IN_PARTITION: Final = "of the feedback that joins is in the partition of its impression"


def _same_partition(outcomes: Counter[str], looked: Looked, config: Config) -> float | None:
    """The share of the feedback that joins by partition; None where the sample has only one."""
    if len({one.partition for one in looked.seen}) == 1:
        return None
    return of.joined_by_partition(looked.seen, config.plan)["joined"] / outcomes["joined"]


def _lanes(looked: Looked, config: Config, *, is_json: bool) -> Iterator[str]:
    """The line that lets all partitions meet, where feedback is not where its impression is.
    `is_json`: whether all records are."""
    outcomes = of.joined(looked.seen, config.plan)
    share = _same_partition(outcomes, looked, config) if outcomes["joined"] >= FEW else None
    if share is not None and share < LEAST_SAME_PARTITION:
        cores = _cores(looked, config) * is_json
        why = f"{percent(share)} {IN_PARTITION}; {cores_text(cores)}"
        yield f"lanes = {toml(meeting_lanes(cores))}  # {why}"


def _cores(looked: Looked, config: Config) -> float:
    """What the daemon would take of this machine; 0 where a stage cannot divide these events, or
    the sample has no length."""
    size = size_of(looked, config.plan, 1, config.history.days)
    return size.cores if size is not None and config.can_be_rekeyed else 0.0


MARKS: Final = {"good": "ok   ", "look": "look ", "wrong": "WRONG"}
MOST_GROUPED: Final = 50
"""Values of an attribute that is proposed as a grouping."""


class TopicDiagnosis(msgspec.Struct, frozen=True):
    """The result as JSON."""

    wrong: bool
    """Whether numbers would be wrong."""
    findings: list[DoctorFinding]
    configuration: str | None
    """The proposed configuration; null where there is none."""


def as_text(found: Sequence[DoctorFinding]) -> Iterator[str]:
    """A line for each finding."""
    width = max(len(finding.name) for finding in found)
    for finding in found:
        words = sentences.printable(finding.words)
        yield f"{MARKS[finding.level]}  {finding.name:<{width}}  {words}"


def as_json(found: Sequence[DoctorFinding], configuration: str | None) -> str:
    """All of it."""
    result = TopicDiagnosis(is_wrong(found), list(found), configuration)
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()


def configuration(
    sources: Sequence[ProposedSource],
    looked: Looked,
    config: Config,
    brokers: Sequence[str],
    ways: Mapping[str, Written],
    given: GivenBodies,
) -> str | None:
    """The configuration with a comment on each line; None where no source can be proposed whole.
    `config`: that of these sources. `ways`: how the records of each topic are written."""
    if not sources or any(source.lacks_ids for source in sources):
        return None
    # The readers of these formats take JSON only.
    if any(one.trial.preset in FORMATS and ways[one.topic].codec != JSON for one in sources):
        return None
    used = {source.topic: ways[source.topic] for source in sources}
    is_json = all(way.codec == JSON for way in used.values())
    kafka = [*_kafka_lines(brokers), *_lanes(looked, config, is_json=is_json)]
    begin = [*kafka, *REDIS_LINES, *bodies.registry_lines(used, given)]
    return "\n".join((*begin, *_source_lines(sources, looked, used, given))) + "\n"


def _kafka_lines(brokers: Sequence[str]) -> Iterator[str]:
    yield "# Proposed by relevanced doctor. relevanced check-config says what else can be set."
    yield "[kafka]"
    if brokers:
        yield f"bootstrap_servers = {toml(list(brokers))}"
    else:
        yield 'bootstrap_servers = ["localhost:9092"]  # change it: where Kafka is'


REDIS_LINES: Final = (
    "[redis]",
    'url = "redis://localhost:6379/0"  # change it: where Redis is',
)


def _source_lines(
    sources: Sequence[ProposedSource],
    looked: Looked,
    ways: Mapping[str, Written],
    given: GivenBodies,
) -> Iterator[str]:
    yield from _attribution(looked)
    yield from _groupings(looked)
    for source in sources:
        yield ""
        header, topic, *rest = source.lines()
        yield from (header, topic, *bodies.lines(ways[source.topic], given), *rest)


def _attribution(looked: Looked) -> Iterator[str]:
    needed = {
        "lateness": (needed_lateness_s(looked), USUAL.lateness_s, "99 % of the events come"),
        "window": (needed_window_s(looked), USUAL.window_s, "95 % of the feedback comes"),
    }
    lines = list[str]()
    for key, (seconds, default, who) in needed.items():
        if seconds > default:
            minutes = math.ceil(seconds * 4 / 3 / 60)  # with a third to spare
            lines.append(f'{key} = "{minutes}m"  # {who} within {seconds:.0f} s')
    yield from ("[attribution]", *lines) if lines else ()


def _groupings(looked: Looked) -> Iterator[str]:
    counts = {name: len(values) for name, values in attribute_values(looked).items()}
    kept = [name for name, count in counts.items() if 1 < count <= MOST_GROUPED]
    listed = ", ".join(f"{name}: {counts[name]} values" for name in kept) or "no attribute"
    yield "[segments]"
    yield f"groupings = {toml([[name] for name in kept])}  # {listed}"
