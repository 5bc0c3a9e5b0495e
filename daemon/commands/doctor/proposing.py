"""The configuration that is proposed for a sample: a source for each topic."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from ...config.decoders import decoder_of
from ...config.loading import load
from ...config.presets import presets
from ...config.settings import Config
from ...events.types import Impression, LogRecord, Rejected
from ...mapping.tables import ALL_MEMBERS
from .attributes import attribute_line, attributes, expressions
from .crawlers import crawlers, drop_lines
from .elements import elements_of, replaced
from .guessed_tables import Guess
from .guessing import Records, guessed
from .ids import IdPair, id_pairs
from .json_values import MOST_RECORDS, json_value
from .looked import Looked, attribute_values, joined, looked_at
from .openings import Opening, opened, opening_of
from .profile import Profile
from .ranks import rank_offsets
from .toml import toml
from .trials import ANY_CLOCK, ANY_ID, Trial, has_ids, proposed, same_tables, tables_of, trials

WITHOUT_IDS: Final = ("native", "ubi")
"""Formats whose ids are a part of them."""
LEAST_GUESSED: Final = 0.3
"""Of the feedback must join by guessed tables."""
LEAST_JOINED: Final = 0.5
"""Below this share, another id is looked for."""


@dataclass(frozen=True)
class Source:
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
        for table, own in (("impression", self._of_lists()), ("feedback", self._ids())):
            lines = [*self._rank_base(), *own]
            if lines and table in tables_of(self.trial.preset):
                yield from (f"[sources.{table}]", *lines)

    def _rank_base(self) -> Iterator[str]:
        if self.rank_base is not None:
            yield f"rank_base = {self.rank_base}  # by the ranks of items in their lists"

    def _of_lists(self) -> Iterator[str]:
        if (pair := self._pair()) is not None:
            share = f"{100 * pair.common:.1f} % of the feedback has the id of a list"
            yield f"id = {toml(pair.of_lists)}  # guessed: check; {share}"
        if self.attributes:
            yield attribute_line(self.attributes)

    def _ids(self) -> Iterator[str]:
        if (pair := self._pair()) is not None:
            yield f"id = {toml(pair.of_feedback)}  # guessed: check"

    def _pair(self) -> IdPair | None:
        """The ids to write: one for all where they are lacking."""
        return IdPair(ANY_ID, ANY_ID, 0.0, 0.0) if self.lacks_ids else self.ids


def config_of(sources: Sequence[Source]) -> Config:
    """The configuration with these sources, in which no clock is too far ahead, and which reads all
    attributes that the sources name."""
    lines = [ANY_CLOCK, *(line for one in sources for line in one.lines())]
    config = load("\n".join(lines), {}, "proposed")
    tables = (table for source in config.sources for table in source.impressions)
    names = {name for table in tables for name in table.attributes or ()}
    groupings = {*config.segments.groupings, *((name,) for name in names if name != ALL_MEMBERS)}
    return replace(config, segments=replace(config.segments, groupings=tuple(sorted(groupings))))


def propose(
    samples: Mapping[str, Sequence[LogRecord]], with_codec: Collection[str] = ()
) -> list[Source]:
    """The sources of the topics that a preset can read, or whose tables can be guessed.
    `with_codec`: the topics whose records were not plain JSON."""
    best = {
        topic: proposed(trials(topic, records, has_codec=topic in with_codec))
        for topic, records in samples.items()
    }
    sources = [Source(topic, trial) for topic, trial in best.items() if trial is not None]
    if sources:
        sources = _with_rank_base(_with_ids(sources, samples), samples)
        sources = [_with_attributes(one, samples) for one in sources]
    unread = {topic: samples[topic] for topic, trial in best.items() if trial is None}
    return [_without_crawlers(one, samples[one.topic]) for one in [*sources, *_guessed(unread)]]


def _with_attributes(source: Source, samples: Mapping[str, Sequence[LogRecord]]) -> Source:
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


def _without_crawlers(source: Source, records: Sequence[LogRecord]) -> Source:
    """The source with a rule that leaves crawlers out, where records name some."""
    if source.trial.preset in WITHOUT_IDS:
        return source
    whole = (value for value, _ in opened(records, source.opening))
    values = [one for value in whole for one in elements_of(source.trial.preset, value)]
    found = [share for share in crawlers(values)[:1] if share.out]
    return replace(source, drops=drop_lines(found[0])) if found else source


def _guessed(samples: Mapping[str, Sequence[LogRecord]]) -> list[Source]:
    """The sources of topics with guessed tables; none where they cannot be, or hardly any feedback
    joins by them."""
    ways = {topic: opening_of(records) for topic, records in samples.items()}
    found = guessed({topic: _objects(samples[topic], way) for topic, way in ways.items()})
    sources = [
        Source(topic, Trial(""), guess=guess, opening=ways[topic])
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


def _objects(records: Sequence[LogRecord], way: Opening) -> Records:
    """The data of records that is an object."""
    kept = list(opened(records, way))
    return Records([value for value, _ in kept], [stamp_ms for _, stamp_ms in kept])


def _look(sources: Sequence[Source], samples: Mapping[str, Sequence[LogRecord]]) -> Looked:
    read = {one.topic: samples[one.topic] for one in sources}
    return looked_at(read, decoder_of(config_of(sources)))


def join_share(looked: Looked, config: Config) -> float:
    """Of the feedback, what joins."""
    outcomes = joined(looked.seen, config.plan)
    total = outcomes.total() - outcomes["rank_mismatch"]
    return outcomes["joined"] / total if total else 0.0


def _with_ids(sources: list[Source], samples: Mapping[str, Sequence[LogRecord]]) -> list[Source]:
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
    sources: Sequence[Source], samples: Mapping[str, Sequence[LogRecord]]
) -> tuple[Profile, Profile]:
    """The profiles of what is an impression, and of what is feedback alone, of the elements of
    batches too."""
    decode, lists, feedback = decoder_of(config_of(sources)), Profile(), Profile()
    for one in sources:
        for record in samples[one.topic][:MOST_RECORDS]:
            for value in elements_of(one.trial.preset, json_value(record.value)):
                element = replaced(record, msgspec.json.encode(value))
                events = [e for e in decode.of_record(element) if not isinstance(e, Rejected)]
                if events:
                    has_list = any(isinstance(event, Impression) for event in events)
                    (lists if has_list else feedback).note(value)
    return lists, feedback


def _with_rank_base(
    sources: list[Source], samples: Mapping[str, Sequence[LogRecord]]
) -> list[Source]:
    """The sources, with the other base of ranks where items stand at their own ranks by it."""
    if any(one.trial.preset in WITHOUT_IDS for one in sources):
        return sources

    def at_their_rank(candidate: list[Source]) -> int:
        return rank_offsets(_look(candidate, samples))[0]

    candidates = [[replace(one, rank_base=base) for one in sources] for base in (0, 1)]
    found = [at_their_rank(candidate) for candidate in (sources, *candidates)]
    best = max(range(3), key=lambda n: (found[n], -n))
    return (sources, *candidates)[best]
