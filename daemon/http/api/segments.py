"""The segments of each grouping. Pure."""

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.pane_reader import Reading
from ...exporter.selection import busiest_rows


class Named(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One segment and its impressions in the longest live window."""

    segment: str
    impressions: int


class Grouping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shown segments of a grouping, busiest first; equally busy ones by name."""

    grouping: str
    segments: tuple[Named, ...]


class Segments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every grouping: `all` first, then in configured order."""

    as_of: str | None
    groupings: tuple[Grouping, ...]


def segments(reading: Reading) -> Segments:
    """The segments that are shown by name, and the `other` of each grouping."""
    impressions = reading.selection.fold(busiest_rows(reading.snapshot))[:, 0].tolist()
    by_grouping: dict[str, list[Named]] = {name: [] for name in reading.plan.grouping_names}
    for (grouping, segment), count in zip(reading.selection.segments, impressions, strict=True):
        by_grouping[grouping].append(Named(segment, count))
    as_of_ms = reading.snapshot.as_of_ms
    return Segments(
        None if as_of_ms is None else timestamp_text(as_of_ms),
        tuple(
            Grouping(name, tuple(sorted(named, key=_busiest_first)))
            for name, named in by_grouping.items()
        ),
    )


def _busiest_first(named: Named) -> tuple[int, str]:
    return (-named.impressions, named.segment)
