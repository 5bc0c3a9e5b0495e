"""When files of classes come into use in a lane, and when they leave it. Pure.

An impression has the class that the file in force at its own time gives its query. It is accepted
until its base pane settles, so a file is needed until every pane before its successor has.
"""

from ..judgements.timeline import NOTHING_READ, Timeline, pruned
from .lane import Lane


def class_by_files(lane: Lane) -> None:
    """Let the next batch be read by the files that the lane was given."""
    if not lane.class_files:
        return
    given = {name: files for name, files in lane.class_files.items() if files.classes is not None}
    timelines = dict.fromkeys(lane.class_files, Timeline())
    timelines |= {name: files.timeline or Timeline() for name, files in given.items()}
    lane.texts.use_files(
        timelines,
        {
            entry: found.by_query
            for files in given.values()
            for entry, found in (files.classes or {}).items()
        },
    )


def let_class_files_go(lane: Lane) -> None:
    """Drop the files that no impression can need any more. After the lane has settled."""
    timing = lane.plan.timing
    for files in lane.class_files.values():
        if files.timeline is not None:
            files.timeline = pruned(
                files.timeline, lane.watermark_ms, timing.base_ms, timing.settle_ms
            )


def latest_ms(lane: Lane) -> int:
    """The latest event time of the lane: a file that starts later can be adopted.

    The greatest of its watermarks and of the times of its accepted impressions: those that are not
    open any more are behind its watermarks.
    """
    marks = [mark for mark in lane.watermarks.values() if mark is not None]
    for pane in lane.open.panes()[-1:]:
        index = lane.open.index_of(lane.open.pane_slots(pane))
        marks.append(int(lane.open.times_ms.at(index).max()))
    return max(marks, default=NOTHING_READ)
