"""Which segments there are. Pure."""

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.pane_reader import Reading
from ...exporter.selection import busiest_rows


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One segment and how much traffic it has in the longest live window."""

    segment: str
    impressions: int


class Grouping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The segments of a grouping that are shown, busiest first, equals by name."""

    grouping: str
    segments: tuple[Named, ...]


class Segments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every grouping, the whole first, then as they are configured."""

    as_of: str | None
    groupings: tuple[Grouping, ...]


def segments(reading: Reading) -> Segments:
    """What is shown by name, and each grouping's `other`."""
    impressions = reading.selection.fold(busiest_rows(reading.snapshot))[:, 0].tolist()
    found: dict[str, list[Named]] = {name: [] for name in reading.plan.grouping_names}
    for (grouping, segment), count in zip(reading.selection.segments, impressions, strict=True):
        found[grouping].append(Named(segment, count))
    as_of_ms = reading.snapshot.as_of_ms
    return Segments(
        None if as_of_ms is None else timestamp_text(as_of_ms),
        tuple(Grouping(name, tuple(sorted(named, key=_rank))) for name, named in found.items()),
    )


def _rank(named: Named) -> tuple[int, str]:
    return (-named.impressions, named.segment)
