"""What lanes need dated files for: to grade lists, and to derive attributes."""

from functools import partial
from typing import Final

from ..judgements.classes import QueryClasses
from ..judgements.grades import Judgements
from ..lane.class_settling import latest_ms
from ..lane.lane import Lane
from ..telemetry.process import Telemetry
from .watched_directory import InLane, Use

JUDGEMENTS: Final = "judgements"
NO_JUDGEMENTS: Final = "judgements.directory is not set here, and the layout in force grades by it"


def judgements_use(telemetry: Telemetry) -> Use[Judgements]:
    """Judgements, by which lists are graded."""
    return Use(JUDGEMENTS, _judged, NO_JUDGEMENTS, telemetry.judgements_read)


def _judged(lane: Lane) -> InLane[Judgements] | None:
    judged = lane.judged
    if judged is None:
        return None
    return InLane(judged.timeline, judged.latest_ms, judged.prepare)


def classes_use(attribute: str, telemetry: Telemetry) -> Use[QueryClasses]:
    """Classes of queries, which are the values of an attribute."""
    missing = f"[[derive]] of {attribute} has no directory here"
    shown = partial(telemetry.classes_read, attribute)
    return Use(f"classes of {attribute}", partial(_classed, attribute), missing, shown)


def _classed(attribute: str, lane: Lane) -> InLane[QueryClasses] | None:
    files = lane.class_files.get(attribute)
    return None if files is None else InLane(files.timeline, latest_ms(lane), files.prepare)
