"""The files of classes by which a lane derives an attribute. Pure data, and part of the lane's
state: `class_settling` has what happens to them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..judgements.classes import QueryClasses
from ..judgements.index import Entry
from ..judgements.timeline import Timeline
from ..plan import Plan


@dataclass
class ClassFiles:
    """Those of one attribute."""

    timeline: Timeline | None = None
    """The files that are or will be in force; None: the lane has derived nothing by files, and
    takes the whole index."""
    classes: Mapping[Entry, QueryClasses] | None = None
    """Of each file of the timeline, given before each batch; None: no files were given, as to a
    command that has none, and no query has a class."""

    def prepare(self, timeline: Timeline, classes: Mapping[Entry, QueryClasses]) -> None:
        """Set by which files the next batch is classed. `classes` has all of the timeline."""
        self.timeline, self.classes = timeline, classes


def class_files_of(plan: Plan) -> dict[str, ClassFiles]:
    """Those of a lane that begins, by attribute."""
    return {one.attribute: ClassFiles() for one in plan.derivations if one.by_files}


def class_files_under(plan: Plan, before: Mapping[str, ClassFiles]) -> dict[str, ClassFiles]:
    """Those of a lane that goes to this plan: an attribute that was derived by files before goes on
    with them."""
    return {
        name: replace(before[name]) if name in before else files
        for name, files in class_files_of(plan).items()
    }
