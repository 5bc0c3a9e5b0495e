"""What records come to under each preset: the share that maps, and why the others do not."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ...config.decoders import decoder_of
from ...config.loading import load
from ...config.presets import NAMES, presets
from ...events.decoder import FORMATS
from ...events.types import NOT_MAPPED, Decoded, Impression, LogRecord, Rejected
from .toml import toml

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
    mapped: int = 0
    """Records that are events, or contain some."""
    impressions: int = 0
    feedback: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why records are no events: the first reason of each."""
    firsts: dict[str, str] = field(default_factory=dict)
    """Reason → the detail of the first record with it."""

    @property
    def share(self) -> float:
        """The share of the records that map."""
        return self.mapped / self.records if self.records else 0.0

    def note(self, events: Sequence[Decoded]) -> None:
        """Note what one record comes to."""
        self.records += 1
        found = [event for event in events if not isinstance(event, Rejected)]
        if found:
            self.mapped += 1
            lists = sum(isinstance(event, Impression) for event in found)
            self.impressions += lists
            self.feedback += len(found) - lists
            return
        rejected = (event for event in events if isinstance(event, Rejected))
        first = next(rejected, Rejected(NOT_MAPPED))
        self.reasons[first.reason] += 1
        self.firsts.setdefault(first.reason, first.detail)


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


def tried(preset: str, topic: str, records: Sequence[LogRecord]) -> Trial:
    """The first records of a topic under a preset."""
    decode = decoder_of(load(_trial_text(preset, topic), {}, "a trial"))
    trial = Trial(preset)
    for record in records[:TRIED_RECORDS]:
        trial.note(decode.of_record(record))
    return trial


def trials(topic: str, records: Sequence[LogRecord], *, has_codec: bool = False) -> list[Trial]:
    """All presets, the one that maps the most first; of equals, that with both impressions and
    feedback, then by their order in the documents. `has_codec`: without those that have a reader
    of their own, as that reads plain JSON only."""
    names = [name for name in NAMES if not has_codec or name not in FORMATS]
    found = [tried(preset, topic, records) for preset in names]
    return sorted(found, key=lambda t: (-t.share, not (t.impressions and t.feedback)))


def proposed(found: Sequence[Trial]) -> Trial | None:
    """The preset to propose; None where none maps enough."""
    best = found[0] if found else None
    return best if best is not None and best.share >= LEAST_SHARE else None
