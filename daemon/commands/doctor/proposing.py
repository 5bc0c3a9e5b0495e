"""The configuration that is proposed for a sample: a source for each topic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from ...config.decoders import decoder_of
from ...config.loading import load
from ...config.settings import Config
from ...events.types import Impression, LogRecord, Rejected
from . import looked as of
from .ids import IdPair, id_pairs
from .looked import Looked, joined, looked_at
from .profile import Profile
from .trials import ANY_CLOCK, ANY_ID, Trial, has_ids, proposed, toml, trials

_any_value: Final = msgspec.json.Decoder().decode
WITHOUT_IDS: Final = ("native", "ubi")
"""Formats whose ids are a part of them."""
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

    @property
    def lacks_ids(self) -> bool:
        """Whether neither the preset nor the records say by which id feedback joins."""
        return self.ids is None and not has_ids(self.trial.preset)

    def lines(self) -> Iterator[str]:
        """The source as TOML, with a comment on each line. Where ids are lacking, one for all."""
        yield "[[sources]]"
        yield f"topic = {toml(self.topic)}  # {self.trial.records:,} records were tried"
        yield f"preset = {toml(self.trial.preset)}  # {100 * self.trial.share:.1f} % of them map"
        ranks = []
        if self.rank_base is not None:
            ranks = [f"rank_base = {self.rank_base}  # by the places of items in their lists"]
        if self.ids is None and has_ids(self.trial.preset):
            for table in ("impression", "feedback") if ranks else ():
                yield from (f"[sources.{table}]", *ranks)
            return
        pair = self.ids or IdPair(ANY_ID, ANY_ID, 0.0, 0.0)
        share = f"{100 * pair.common:.1f} % of the feedback has the id of a list"
        yield from ("[sources.impression]", *ranks)
        yield f"id = {toml(pair.of_lists)}  # guessed: check; {share}"
        yield from ("[sources.feedback]", *ranks)
        yield f"id = {toml(pair.of_feedback)}  # guessed: check"


def config_of(sources: Sequence[Source]) -> Config:
    """The configuration with these sources, in which no clock is too far ahead."""
    lines = [ANY_CLOCK, *(line for one in sources for line in one.lines())]
    return load("\n".join(lines), {}, "proposed")


def propose(samples: Mapping[str, Sequence[LogRecord]]) -> list[Source]:
    """The sources of the topics that a preset can read."""
    best = {topic: proposed(trials(topic, records)) for topic, records in samples.items()}
    sources = [Source(topic, trial) for topic, trial in best.items() if trial is not None]
    if not sources:
        return []
    sources = _with_ids(sources, samples)
    return _with_rank_base(sources, samples)


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
    """The profiles of the records with impressions, and of those with feedback alone."""
    decode, lists, feedback = decoder_of(config_of(sources)), Profile(), Profile()
    for one in sources:
        for record in samples[one.topic]:
            events = [e for e in decode.of_record(record) if not isinstance(e, Rejected)]
            value = _json(record.value)
            if events and value is not None:
                has_list = any(isinstance(event, Impression) for event in events)
                (lists if has_list else feedback).note(value)
    return lists, feedback


def _json(value: bytes | None) -> Any:
    try:
        return None if value is None else _any_value(value)
    except (ValueError, RecursionError):
        return None


def _with_rank_base(
    sources: list[Source], samples: Mapping[str, Sequence[LogRecord]]
) -> list[Source]:
    """The sources, with the other base of ranks where items stand at their own ranks by it."""
    if any(one.trial.preset in WITHOUT_IDS for one in sources):
        return sources

    def at_their_rank(candidate: list[Source]) -> int:
        return of.rank_offsets(_look(candidate, samples))[0]

    candidates = [[replace(one, rank_base=base) for one in sources] for base in (0, 1)]
    found = [at_their_rank(candidate) for candidate in (sources, *candidates)]
    best = max(range(3), key=lambda n: (found[n], -n))
    return (sources, *candidates)[best]
