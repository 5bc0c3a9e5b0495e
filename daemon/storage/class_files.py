"""The files of classes of a lane: what its head says of them, and how that is read back. Pure."""

from typing import Final

import msgspec

from ..judgements.timeline import NOTHING_READ
from ..lane.class_settling import latest_ms
from ..lane.lane import Lane
from .judged import TimelineHead, timeline_head
from .packing import pack

CLASSES_FIELD: Final = "classes"
NOTHING: Final = b""
"""The value of the field of a lane where attributes were derived by files and are not any more."""


class ClassesHead(msgspec.Struct, array_like=True, frozen=True):
    """What the head of a lane says of the files by which attributes are derived."""

    latest_ms: int = NOTHING_READ
    """The latest event time of the lane: a file that starts later can be adopted."""
    timelines: dict[str, TimelineHead] = {}
    """By attribute; without those that nothing was derived of so far."""


def packed_class_files(lane: Lane) -> bytes:
    """Return the field of the head of a lane; NOTHING where no attribute is derived by files."""
    if not lane.class_files:
        return NOTHING
    timelines = {
        name: timeline_head(files.timeline, ())
        for name, files in sorted(lane.class_files.items())
        if files.timeline is not None
    }
    return pack(ClassesHead(latest_ms(lane), timelines))


def restore_class_files(lane: Lane, head: ClassesHead | None) -> None:
    """Give a lane its files as its last commit left them. Raises KeyError where the head does not
    say them."""
    if not lane.class_files:
        return
    if head is None:
        raise KeyError(CLASSES_FIELD)
    for name, files in lane.class_files.items():
        if name in head.timelines:
            files.timeline = head.timelines[name].timeline
