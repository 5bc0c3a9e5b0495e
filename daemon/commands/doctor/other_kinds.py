"""Events that a preset leaves out because it does not know their kind. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ...config.decoders import decoder_of
from ...config.presets import presets
from ...events.types import NOT_MAPPED, LogRecord, Rejected
from ...mapping.expressions import expression
from .elements import elements_of, find, replaced
from .finding import Finding
from .json_values import MOST_RECORDS, json_value
from .proposing import Source, config_of

SHOWN_KINDS: Final = 5


def other_kinds(source: Source, records: Sequence[LogRecord]) -> Counter[str]:
    """Kind → events of this kind that neither table of the preset maps."""
    path = _path(source.trial.preset)
    if path is None:
        return Counter()
    kind, decode = expression(path), decoder_of(config_of([source]))
    found = Counter[str]()
    for record in records[:MOST_RECORDS]:
        for value in elements_of(source.trial.preset, json_value(record.value)):
            element = replaced(record, msgspec.json.encode(value))
            if all(_is_not_mapped(event) for event in decode.of_record(element)):
                name = find(kind, value)
                found.update([name] if isinstance(name, str) else [])
    return found


def found(
    sources: Sequence[Source], samples: Mapping[str, Sequence[LogRecord]], values: bool
) -> Iterator[Finding]:
    """A line for each topic that has some. `values`: whether they are named."""
    for source in sources:
        kinds = other_kinds(source, samples[source.topic])
        if kinds:
            count = "1 value" if len(kinds) == 1 else f"{len(kinds)} values"
            listed = ", ".join(f"{name} {n:,}" for name, n in kinds.most_common(SHOWN_KINDS))
            words = (
                f"{kinds.total():,} records have another {_path(source.trial.preset)} than the"
                f" preset knows, {count}: add those that are feedback to kinds of"
                f" [sources.feedback] ({listed if values else '--show-values: which'})"
            )
            yield Finding(f"other kinds in {source.topic}", "look", words)


def _path(preset: str) -> str | None:
    """Where a preset with a table of kinds finds the kind of an event."""
    table = presets().get(preset, {}).get("feedback", {})
    return str(table["kind"]) if "kinds" in table else None


def _is_not_mapped(event: object) -> bool:
    return isinstance(event, Rejected) and event.reason == NOT_MAPPED
