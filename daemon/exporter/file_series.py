"""Dated files that lanes refused, as samples. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from ..judgements.index import Entry, start_text
from ..telemetry import file_families as families
from ..telemetry.family import Family
from .judged_files import LaneFiles
from .labels import escape

Sample: TypeAlias = tuple[Family, str, float]
"""(family, labels, value)."""
JUDGEMENTS: Final = "judgements"


def samples(
    judgements: Sequence[LaneFiles], classes: Mapping[str, Sequence[LaneFiles]]
) -> Iterator[Sample]:
    """The samples of the lanes' files of judgements, and of classes by attribute; none where
    nothing was refused."""
    yield from _earliest(JUDGEMENTS, judgements)
    for attribute, lanes in classes.items():
        refused = Counter(entry for lane in lanes for entry in lane.refused)
        for entry, count in sorted(refused.items()):
            labels = f'attribute="{escape(attribute)}",{_named(entry)}'
            yield families.CLASSES_REFUSED, labels, count
        yield from _earliest(f"classes of {attribute}", lanes)


def _earliest(files: str, lanes: Sequence[LaneFiles]) -> Iterator[Sample]:
    for lane in lanes:
        for entry in lane.refused:
            labels = f'files="{escape(files)}",{_named(entry)},lane="{lane.lane}"'
            yield families.EARLIEST_START, labels, lane.earliest_ms / 1000


def _named(entry: Entry) -> str:
    return f'name="{escape(entry.name)}",start="{start_text(entry.start_ms)}"'
