"""The dated files of each lane: of judgements, and of classes of queries. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from ...events.timestamps import timestamp_text
from ...exporter.judged_files import LaneFiles
from ...exporter.lane_view import classes_by_attribute
from ...exporter.pane_reader import Reading
from ...judgements.index import Entry
from ...judgements.timeline import NOTHING_READ

CLASSES_PATH: Final = "/api/v1/classes"


class DatedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of judgements, or of classes of queries."""

    name: str
    start: str
    """Event time from which on it is in force."""
    sha256: str
    """Of its bytes."""


class LaneDatedFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files that one lane has, of judgements or of classes."""

    lane: int
    """Its number: that of a partition."""
    latest: str | None
    """The latest event time that it has read; null before the first event. It refuses a file that
    it does not know and that does not start later."""
    first: str | None
    """Start of the first file that can still be needed: the lane passes over files that start
    before. null where it has none."""
    files: tuple[DatedFile, ...]
    """Those that it has adopted: of judgements as long as an hour that they graded is kept, of
    classes as long as an impression may need them."""
    refused: tuple[DatedFile, ...]
    """Those that it refused."""


class AttributeFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of classes of one attribute."""

    attribute: str
    """Its name, as in [[derive]]."""
    refused: tuple[DatedFile, ...]
    """Files that some lanes refused, because they were listed too late."""
    lanes: tuple[LaneDatedFiles, ...]
    """The lanes that have read an event with it."""


class ClassFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of classes by which lanes derive attributes of queries."""

    derived: tuple[AttributeFiles, ...]
    """By attribute; none where no attribute is derived by files."""


def class_files(reading: Reading) -> ClassFiles:
    """The files of classes of all lanes."""
    by_attribute = classes_by_attribute(reading.views, reading.plan)
    return ClassFiles(
        tuple(
            AttributeFiles(attribute, refused_files(lanes), tuple(map(lane_files, lanes)))
            for attribute, lanes in by_attribute.items()
        )
    )


def refused_files(lanes: Iterable[LaneFiles]) -> tuple[DatedFile, ...]:
    """The files that some of the lanes refused, by ascending start."""
    return tuple(map(dated_file, sorted({entry for lane in lanes for entry in lane.refused})))


def dated_file(entry: Entry) -> DatedFile:
    """A file as answers name it."""
    return DatedFile(entry.name, timestamp_text(entry.start_ms), entry.sha256)


def lane_files(files: LaneFiles) -> LaneDatedFiles:
    """The files of a lane as answers list them."""
    return LaneDatedFiles(
        lane=files.lane,
        latest=None if files.latest_ms == NOTHING_READ else timestamp_text(files.latest_ms),
        first=timestamp_text(files.first_ms) if files.entries else None,
        files=tuple(map(dated_file, files.entries)),
        refused=tuple(map(dated_file, files.refused)),
    )
