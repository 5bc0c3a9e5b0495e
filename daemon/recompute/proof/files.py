"""By which dated files a stored lane is made again, and what is not known of their classes. Pure.

A lane says itself by which files it has graded lists and classed queries of all that is kept: by
these its log is read again. Where the index lists another file for an hour, the lane has refused
that one for good; what it counted is proven all the same, and the difference is said.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from ...events import timestamp_text
from ...judgements import Fault, IndexEntry, Judgements, QueryClasses, Timeline, start_text
from ...lane import Lane
from ...plan import METRIC_COLUMNS, Plan
from ...storage import Head, TimelineHead
from ...views import ALWAYS, NEVER
from .differences import Difference

T = TypeVar("T")
NO_DIRECTORY: Final = "judgements.directory is not set here"
NO_CLASSES: Final = "its directory of classes is not set here"
NOTHING_GRADED: Final = "no batch has been graded yet"
NOTHING_CLASSED: Final = "no query has been classed yet"
REFUSED: Final = (
    "the lane {} without {}, in force from {}, which it refused: what it counted is proven by the"
    " files that it has, and reading the lane again from the start would give others"
)


@dataclass(frozen=True)
class Files(Generic[T]):
    """By which files of one kind a lane is made again."""

    timeline: Timeline = Timeline()
    contents: Mapping[IndexEntry, T] = field(default_factory=dict)
    obstacle: str = ""
    """Why by none; "" where nothing is in the way."""
    notes: tuple[str, ...] = ()
    moved: tuple[Difference, ...] = ()
    """Files that the index lists in another way than the lane."""


Grading = Files[Judgements]
Classing = Files[QueryClasses]


def grading_of(
    head: Head,
    index: Collection[IndexEntry],
    readable: Mapping[IndexEntry, Judgements],
    faults: Collection[Fault],
) -> Grading:
    """The files of a lane's own timeline, as this process has read them."""
    if head.judged is None or head.judgements is None:
        return Files(obstacle=NOTHING_GRADED)
    latest_ms = head.judged.latest_ms
    return _files_of("graded judged rows", head.judgements, latest_ms, index, readable, faults)


def classing_of(
    attribute: str,
    head: Head,
    index: Collection[IndexEntry],
    readable: Mapping[IndexEntry, QueryClasses],
    faults: Collection[Fault],
) -> Classing:
    """The same of the files that give queries this attribute."""
    of_lane = None if head.classes is None else head.classes.timelines.get(attribute)
    if head.classes is None or of_lane is None:
        return Files(obstacle=NOTHING_CLASSED)
    return _files_of("classed queries", of_lane, head.classes.latest_ms, index, readable, faults)


def _files_of(
    verb: str,
    of_lane: TimelineHead,
    latest_ms: int,
    index: Collection[IndexEntry],
    readable: Mapping[IndexEntry, T],
    faults: Collection[Fault],
) -> Files[T]:
    history = of_lane.history
    missing = [entry for entry in history.entries if entry not in readable]
    if missing:
        why = "".join(f" ({fault})" for fault in faults if fault.file.endswith(missing[0].name))
        text = f"the lane {verb} by {missing[0].name} of SHA-256 {missing[0].sha256}: put it back"
        return Files(obstacle=text + why, moved=tuple(_moved(missing, index)))
    first_ms = history.entries[0].start_ms if history.entries else 0
    others = [
        entry
        for entry in sorted(set(index).difference(history.entries))
        if first_ms <= entry.start_ms <= latest_ms
    ]
    notes = (REFUSED.format(verb, one.name, start_text(one.start_ms)) for one in others)
    return Files(Timeline(history.entries), readable, notes=tuple(notes))


def _moved(missing: Collection[IndexEntry], index: Collection[IndexEntry]) -> Iterator[Difference]:
    """Entries of which the index lists one that differs in one thing: an entry never changes."""
    for entry in missing:
        ours = entry.start_ms, entry.name, entry.sha256
        for one in index:
            theirs = one.start_ms, one.name, one.sha256
            if sum(a == b for a, b in zip(ours, theirs, strict=True)) == len(ours) - 1:
                yield Difference("file", f"entries of the index that are {entry}", 1, 0)


WEIGHED: Final = "propensities"
UNKNOWN_CLASSES: Final = (
    "which class queries had in {} {}is not known ({}): until then groupings by it are compared as"
    " sums over their segments, and nothing else that follows from it: neither totals by segment,"
    " counts of what was not admitted, nor experiments by it"
)
BEGINS: Final = "the files that the lane names begin there"
_BEFORE_ALL: Final = IndexEntry(ALWAYS, "", "")


class _NotKnown(dict[str, str]):
    """The classes of queries of which no file is known; it notes that one was asked for."""

    was_asked = False

    def get(self, key: str, default: object = None) -> None:  # type: ignore[override]
        """The class as it is before the first file: none."""
        self.was_asked = True


class Classes:
    """What of a lane follows from files of classes, and whether these are known."""

    def __init__(self, plan: Plan, files: Mapping[str, Classing]) -> None:
        """`files`: by attribute, those whose directory is known."""
        by_files = [one.attribute for one in plan.derivations if one.by_files]
        self._files = {name: files.get(name, Files(obstacle=NO_CLASSES)) for name in by_files}
        self._not_known = {name: _NotKnown() for name in by_files}
        self._known_from = {name: _known_from(of) for name, of in self._files.items()}
        self._plan = plan
        self.groupings = frozenset(
            index
            for index, attributes in enumerate(plan.groupings, start=1)
            if not self._files.keys().isdisjoint(attributes)
        )
        """The indices of groupings by such attributes."""
        is_weighted = plan.surfaces is not None and plan.surfaces.attribute in self._files
        self._weighted = [one for one in plan.metrics if is_weighted and one.needs == WEIGHED]

    def begin(self, lane: Lane) -> None:
        """Let a lane that has seen nothing class queries as the stored one did."""
        for name, of in self._files.items():
            timeline = Timeline((_BEFORE_ALL, *of.timeline.entries))
            contents = {**of.contents, _BEFORE_ALL: QueryClasses(self._not_known[name])}
            lane.class_files[name].prepare(timeline, contents)

    def are_known(self, start: int = ALWAYS) -> bool:
        """Whether the class of every impression from an instant on is known, of those that were
        read so far."""
        return all(
            start >= known_from or not self._not_known[name].was_asked
            for name, known_from in self._known_from.items()
        )

    def metrics(self, start: int) -> list[int]:
        """The indices of metrics of which nothing is known in rows from then on."""
        known = self.are_known(start)
        return [] if known else [n for n, m in enumerate(self._plan.metrics) if m in self._weighted]

    def columns(self, start: int) -> list[int]:
        """The columns of rows of which nothing is known from then on."""
        firsts = [self._plan.metric_column(n) for n in self.metrics(start)]
        found = [first + n for first in firsts for n in range(len(METRIC_COLUMNS))]
        return found + [*range(self._plan.weight_column, self._plan.row_width if firsts else 0)]

    def decide(self, metrics: Collection[str], *attributes: str) -> bool:
        """Whether something counted by these metrics and attributes follows from classes that are
        not known."""
        weighted = {metric.name for metric in self._weighted}
        depends = not weighted.isdisjoint(metrics) or not self._files.keys().isdisjoint(attributes)
        return depends and not self.are_known()

    @property
    def moved(self) -> list[Difference]:
        """See `Files.moved`."""
        return [difference for of in self._files.values() for difference in of.moved]

    @property
    def notes(self) -> Iterator[str]:
        """What is not known."""
        for name, of in self._files.items():
            yield from of.notes
            if self._not_known[name].was_asked:
                since = self._known_from[name]
                before = "" if since == NEVER else f"before {timestamp_text(since)} "
                yield UNKNOWN_CLASSES.format(name, before, of.obstacle or BEGINS)


def _known_from(files: Classing) -> int:
    if files.obstacle:
        return NEVER
    entries = files.timeline.entries
    return entries[0].start_ms if entries else ALWAYS
