"""By which files of judgements lanes grade, and what is said where they differ. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..changes import MIXED
from ..judgements import (
    NOTHING_READ,
    IndexEntry,
    earliest_by_log_ms,
    in_force,
    start_text,
)


@dataclass(frozen=True)
class LaneFiles:
    """What one lane has graded by; or classed, with files of classes."""

    since_ms: int
    """The first whole hour of the judged columns."""
    entries: tuple[IndexEntry, ...] = ()
    """By ascending start, those included that grade nothing any more."""
    refused: tuple[IndexEntry, ...] = ()
    lane: int = 0
    latest_ms: int = NOTHING_READ
    """The latest event time that it has read: a file that starts later can be adopted."""
    first_ms: int = 0
    """Start of the first file that can still grade: what starts before is passed over."""

    def at(self, time_ms: int) -> IndexEntry | None:
        """The file that grades what happens then."""
        return in_force(self.entries, time_ms)

    def has_graded_since(self, file: IndexEntry) -> bool:
        """Whether it may have graded anything since the start of a file. A lane without events
        adopts the file with its next one."""
        return self.latest_ms >= file.start_ms or file in self.refused or file in self.entries

    @property
    def earliest_ms(self) -> int:
        """The first whole hour from which on it would take a file, by what it has read."""
        return earliest_by_log_ms(self.latest_ms)


@dataclass(frozen=True)
class GradingFiles:
    """What scores are graded by at one instant."""

    since_ms: int
    """Since when all lanes have graded by these files."""
    until_ms: int | None
    """When one of them goes over to its next file, as far as is known; None: by none."""
    files: tuple[IndexEntry, ...]
    """One, or where lanes disagree several, by ascending start."""
    is_mixed: bool
    """Whether lanes disagree, one without a file included. Nothing is compared with such hours."""

    @property
    def name(self) -> str:
        """That of the file, or `MIXED`."""
        return MIXED if self.is_mixed else self.files[0].name


def grading_at(lanes: Sequence[LaneFiles], time_ms: int) -> GradingFiles | None:
    """What grades at this instant; None where no lane has a file then, or one has no judged columns
    yet. A lane that has graded nothing since the newest file began disagrees with nobody."""
    in_force_now = [file for lane in lanes if (file := lane.at(time_ms)) is not None]
    began_ms = max((lane.since_ms for lane in lanes), default=0)
    if not in_force_now or began_ms > time_ms:
        return None
    newest = max(in_force_now, key=lambda file: file.start_ms)
    found = {lane.at(time_ms) for lane in lanes if lane.has_graded_since(newest)}
    files = tuple(sorted(file for file in found if file is not None))
    next_ms = [
        entry.start_ms for lane in lanes for entry in lane.entries if entry.start_ms > time_ms
    ]
    return GradingFiles(
        max(began_ms, *(file.start_ms for file in files)),
        min(next_ms, default=None),
        files,
        len(found) > 1,
    )


def words_of(lanes: Sequence[LaneFiles], grading: GradingFiles | None) -> str:
    """What is wrong with the files that lanes grade by; "" where nothing is."""
    found = refusals(lanes)
    if grading is not None and grading.is_mixed:
        names = ", ".join(entry.name for entry in grading.files)
        found.append(f"lanes grade by different files of judgements ({names})")
    return "; ".join(found)


def refusals(lanes: Sequence[LaneFiles]) -> list[str]:
    """For each file that lanes refused, which lanes, and from when on all of them would take it."""
    refusing: dict[IndexEntry, list[LaneFiles]] = {}
    for lane in lanes:
        for entry in lane.refused:
            refusing.setdefault(entry, []).append(lane)
    return [
        f"lanes {', '.join(map(str, sorted(lane.lane for lane in of)))} refused {entry.name}, which"
        " was listed after they had read events of its time: put it in place again from"
        f" {start_text(max(lane.earliest_ms for lane in of))} on, or later"
        for entry, of in sorted(refusing.items())
    ]
