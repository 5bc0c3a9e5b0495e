"""The configuration that is proposed for a sample: a source for each topic, of the preset that maps
the most of its records.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from ...config import NAMES, Config, decoder_of, load, presets
from ...events import (
    FORMATS,
    NOT_MAPPED,
    TOMBSTONE,
    Decoded,
    Impression,
    LogRecord,
    Rejected,
    Skipped,
)
from ...lane import COUNTED_BESIDE
from ...mapping import ALL_MEMBERS
from .guessed_tables import Guess
from .guessing import GuessedRecords, guess_tables
from .looked import Looked, attribute_values, joined, looked_at, rank_offsets
from .parts import MOST_RECORDS, elements_of, json_value, toml, with_value
from .profile import (
    IdPair,
    Profile,
    attribute_line,
    attributes,
    crawlers,
    drop_lines,
    expressions,
    id_pairs,
)
from .visitors import Opening, opened, opening_of

LEAST_SHARE: Final = 0.2
"""Of the records of a topic must map for a preset to be proposed."""
TRIED_RECORDS: Final = 2000
"""So many of each topic are tried."""
ANY_CLOCK: Final = '[events]\nmax_future = "366d"'
"""A configuration that refuses no event for its time: the doctor says how far clocks are off."""
ANY_ID: Final = "'any'"
"""A JMESPath that gives every record one id."""


@dataclass
class Trial:
    """Records of a topic under one preset."""

    preset: str
    records: int = 0
    """Those that may be events: all but tombstones."""
    mapped: int = 0
    """Records that are events, or contain some."""
    refused: int = 0
    """Those of which nothing is an event and something is refused: valid ones may be skipped."""
    impressions: int = 0
    feedback: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why records are no events: the first reason of each to refuse it, else that to skip it, and
    that of tombstones."""
    firsts: dict[str, str] = field(default_factory=dict)
    """Reason → the detail of the first record with it."""

    @property
    def share(self) -> float:
        """The share of the records that map."""
        return self.mapped / self.records if self.records else 0.0

    def note(self, events: Sequence[Decoded]) -> None:
        """Note what one record comes to."""
        found = [event for event in events if not isinstance(event, Rejected)]
        self.records += not _is_tombstone(events)
        if found:
            self.mapped += 1
            lists = sum(isinstance(event, Impression) for event in found)
            self.impressions += lists
            self.feedback += len(found) - lists
            return
        rejected = [event for event in events if isinstance(event, Rejected)]
        rejected.sort(key=lambda event: event.skipped)
        first = rejected[0] if rejected else Skipped(NOT_MAPPED)
        self.refused += not first.skipped
        self.reasons[first.reason] += 1
        self.firsts.setdefault(first.reason, first.detail)


def _is_tombstone(events: Sequence[Decoded]) -> bool:
    return any(isinstance(event, Rejected) and event.reason == TOMBSTONE for event in events)


def has_ids(preset: str) -> bool:
    """Whether a preset knows where the id of a search stands; the specifications of the others
    have none."""
    table = presets().get(preset, {})
    return "feedback" not in table or "id" in table["feedback"]


def tables_of(preset: str) -> tuple[str, ...]:
    """The tables that a preset has: those of lists, of feedback, or both; none for an event format,
    which has a reader of its own."""
    return tuple(name for name in ("impression", "feedback") if name in presets().get(preset, {}))


def same_tables(preset: str) -> tuple[str, ...]:
    """The other presets with the same tables, which differ in what of a record is an event."""
    tables = {name: _tables(name) for name in presets()}
    own = tables.get(preset)
    return tuple(name for name, of in tables.items() if name != preset and of == own)


def _tables(preset: str) -> dict[str, object]:
    table = presets()[preset]
    return {name: table[name] for name in ("impression", "feedback") if name in table}


def _trial_text(preset: str, topic: str) -> str:
    """A source as TOML. Where the preset has no ids, all records have one id while they are
    tried."""
    lines = [ANY_CLOCK, "[[sources]]", f"topic = {toml(topic)}", f"preset = {toml(preset)}"]
    if not has_ids(preset):
        for table in tables_of(preset):
            lines += [f"[sources.{table}]", f"id = {toml(ANY_ID)}"]
    return "\n".join(lines)


def tried_preset(preset: str, topic: str, records: Sequence[LogRecord]) -> Trial:
    """The first records of a topic under a preset."""
    decode = decoder_of(load(_trial_text(preset, topic), {}, "a trial"))
    trial = Trial(preset)
    for record in records[:TRIED_RECORDS]:
        trial.note(decode.of_record(record))
    return trial


def tried_presets(
    topic: str, records: Sequence[LogRecord], *, has_codec: bool = False
) -> list[Trial]:
    """All presets, the one that maps the most first; of equals, that with both impressions and
    feedback, then by their order in the documents. `has_codec`: without those that have a reader
    of their own, as that reads JSON only."""
    names = [name for name in NAMES if not has_codec or name not in FORMATS]
    found = [tried_preset(preset, topic, records) for preset in names]
    return sorted(found, key=lambda t: (-t.share, not (t.impressions and t.feedback)))


def proposed_preset(found: Sequence[Trial]) -> Trial | None:
    """The preset to propose; None where none maps enough."""
    best = found[0] if found else None
    return best if best is not None and best.share >= LEAST_SHARE else None


WITHOUT_IDS: Final = ("native", "ubi")
"""Formats whose ids are a part of them."""
LEAST_GUESSED: Final = 0.3
"""Of the feedback must join by guessed tables."""
LEAST_JOINED: Final = 0.5
"""Below this share, another id is looked for."""


@dataclass(frozen=True)
class ProposedSource:
    """What is proposed for one topic."""

    topic: str
    trial: Trial
    ids: IdPair | None = None
    """The ids of searches, where those of the preset do not join."""
    rank_base: int | None = None
    """None: that of the preset."""
    guess: Guess | None = None
    """The tables where no preset reads the records."""
    opening: Opening = Opening()
    """How the guessed tables reach the data of records."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Name → path, where those of the preset say nothing."""
    drops: tuple[str, ...] = ()
    """What is left out, as TOML."""

    @property
    def lacks_ids(self) -> bool:
        """Whether neither the preset nor the records say by which id feedback joins."""
        return self.ids is None and not has_ids(self.trial.preset)

    def lines(self) -> Iterator[str]:
        """The source as TOML, with a comment on each line. Where ids are lacking, one for all."""
        yield from self._tables()
        yield from self.drops

    def _tables(self) -> Iterator[str]:
        yield "[[sources]]"
        yield f"topic = {toml(self.topic)}  # {self.trial.records:,} records were tried"
        if self.guess is not None:
            yield from self.opening.lines()
            yield from self.guess.lines()
            return
        same = "".join(f"; {name} has the same tables" for name in same_tables(self.trial.preset))
        share = f"{100 * self.trial.share:.1f} % of them map{same}"
        yield f"preset = {toml(self.trial.preset)}  # {share}"
        lists, feedback = list[str](), list[str]()
        if self.rank_base is not None:
            line = f"rank_base = {self.rank_base}  # by the ranks of items in their lists"
            lists.append(line)
            feedback.append(line)
        # One id for all where they are lacking.
        pair = IdPair(ANY_ID, ANY_ID, 0.0, 0.0) if self.lacks_ids else self.ids
        if pair is not None:
            share = f"{100 * pair.common:.1f} % of the feedback has the id of a list"
            lists.append(f"id = {toml(pair.of_lists)}  # guessed: check; {share}")
            feedback.append(f"id = {toml(pair.of_feedback)}  # guessed: check")
        if self.attributes:
            lists.append(attribute_line(self.attributes))
        for table, lines in (("impression", lists), ("feedback", feedback)):
            if lines and table in tables_of(self.trial.preset):
                yield from (f"[sources.{table}]", *lines)


def config_of(sources: Sequence[ProposedSource]) -> Config:
    """The configuration with these sources, in which no clock is too far ahead, and which reads all
    attributes that the sources name."""
    lines = [ANY_CLOCK, *(line for one in sources for line in one.lines())]
    config = load("\n".join(lines), {}, "proposed")
    tables = (table for source in config.sources for table in source.impressions)
    names = {name for table in tables for name in table.attributes or ()}
    groupings = {*config.segments.groupings, *((name,) for name in names if name != ALL_MEMBERS)}
    return replace(config, segments=replace(config.segments, groupings=tuple(sorted(groupings))))


def propose_sources(
    samples: Mapping[str, Sequence[LogRecord]], with_codec: Collection[str] = ()
) -> list[ProposedSource]:
    """The sources of the topics that a preset can read, or whose tables can be guessed.
    `with_codec`: the topics whose records were not JSON."""
    best = {
        topic: proposed_preset(tried_presets(topic, records, has_codec=topic in with_codec))
        for topic, records in samples.items()
    }
    sources = [ProposedSource(topic, trial) for topic, trial in best.items() if trial is not None]
    if sources:
        sources = _with_rank_base(_with_ids(sources, samples), samples)
        sources = [_with_attributes(one, samples) for one in sources]
    unread = {topic: samples[topic] for topic, trial in best.items() if trial is None}
    return [_without_crawlers(one, samples[one.topic]) for one in [*sources, *_guessed(unread)]]


def _with_attributes(
    source: ProposedSource, samples: Mapping[str, Sequence[LogRecord]]
) -> ProposedSource:
    """The source with attributes of the records, where those of its preset have no two values."""
    table = presets().get(source.trial.preset, {}).get("impression")
    if table is None:
        return source
    values = attribute_values(_look([source], samples))
    if any(len(found) > 1 for found in values.values()):
        return source
    lists, _ = _profiles([source], samples)
    own = dict(table.get("attributes", {})) if values else {}
    found = attributes(lists, set(expressions(table)))
    return replace(source, attributes={**found, **own} if found else {})


def _without_crawlers(source: ProposedSource, records: Sequence[LogRecord]) -> ProposedSource:
    """The source with a rule that leaves crawlers out, where records name some."""
    if source.trial.preset in WITHOUT_IDS:
        return source
    whole = (value for value, _ in opened(records, source.opening))
    values = [one for value in whole for one in elements_of(source.trial.preset, value)]
    found = [share for share in crawlers(values)[:1] if share.out]
    return replace(source, drops=drop_lines(found[0])) if found else source


def _guessed(samples: Mapping[str, Sequence[LogRecord]]) -> list[ProposedSource]:
    """The sources of topics with guessed tables; none where they cannot be, or hardly any feedback
    joins by them."""
    ways = {topic: opening_of(records) for topic, records in samples.items()}
    found = guess_tables({topic: _objects(samples[topic], way) for topic, way in ways.items()})
    sources = [
        ProposedSource(topic, Trial(""), guess=guess, opening=ways[topic])
        for topic, guess in sorted(found.items())
    ]
    if not sources:
        return []
    config = config_of(sources)
    decode = decoder_of(config)
    for source in sources:
        for record in samples[source.topic]:
            source.trial.note(decode.of_record(record))
    joins = join_share(_look(sources, samples), config)
    return sources if joins >= LEAST_GUESSED else []


def _objects(records: Sequence[LogRecord], way: Opening) -> GuessedRecords:
    """The data of records that is an object."""
    kept = list(opened(records, way))
    return GuessedRecords([value for value, _ in kept], [stamp_ms for _, stamp_ms in kept])


def _look(sources: Sequence[ProposedSource], samples: Mapping[str, Sequence[LogRecord]]) -> Looked:
    read = {one.topic: samples[one.topic] for one in sources}
    return looked_at(read, decoder_of(config_of(sources)))


def join_share(looked: Looked, config: Config) -> float:
    """Of the feedback, what joins."""
    outcomes = joined(looked.seen, config.plan)
    total = outcomes.total() - sum(outcomes[outcome] for outcome in COUNTED_BESIDE)
    return outcomes["joined"] / total if total else 0.0


def _with_ids(
    sources: list[ProposedSource], samples: Mapping[str, Sequence[LogRecord]]
) -> list[ProposedSource]:
    """The sources, with other ids where more joins by them."""
    if any(one.trial.preset in WITHOUT_IDS for one in sources):
        return sources
    before = 0.0
    if all(has_ids(one.trial.preset) for one in sources):
        before = join_share(_look(sources, samples), config_of(sources))
    if before >= LEAST_JOINED:
        return sources
    lists, feedback = _profiles(sources, samples)
    if not lists.records or not feedback.records:
        return sources
    for pair in id_pairs(lists, feedback)[:3]:
        changed = [replace(one, ids=pair) for one in sources]
        if join_share(_look(changed, samples), config_of(changed)) > before:
            return changed
    return sources


def _profiles(
    sources: Sequence[ProposedSource], samples: Mapping[str, Sequence[LogRecord]]
) -> tuple[Profile, Profile]:
    """The profiles of what is an impression, and of what is feedback alone, of the elements of
    batches too."""
    decode, lists, feedback = decoder_of(config_of(sources)), Profile(), Profile()
    for one in sources:
        for record in samples[one.topic][:MOST_RECORDS]:
            for value in elements_of(one.trial.preset, json_value(record.value)):
                element = with_value(record, msgspec.json.encode(value))
                events = [e for e in decode.of_record(element) if not isinstance(e, Rejected)]
                if events:
                    has_list = any(isinstance(event, Impression) for event in events)
                    (lists if has_list else feedback).note(value)
    return lists, feedback


def _with_rank_base(
    sources: list[ProposedSource], samples: Mapping[str, Sequence[LogRecord]]
) -> list[ProposedSource]:
    """The sources, with the other base of ranks where items stand at their own ranks by it."""
    if any(one.trial.preset in WITHOUT_IDS for one in sources):
        return sources

    def at_their_rank(candidate: list[ProposedSource]) -> int:
        return rank_offsets(_look(candidate, samples))[0]

    candidates = [[replace(one, rank_base=base) for one in sources] for base in (0, 1)]
    found = [at_their_rank(candidate) for candidate in (sources, *candidates)]
    best = max(range(3), key=lambda n: (found[n], -n))
    return (sources, *candidates)[best]
