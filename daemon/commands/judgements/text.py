"""What the commands print about files of judgements."""

from collections.abc import Sequence
from typing import Final

from ...judgements.directory import Listed
from ...judgements.grades import Fault
from ...judgements.index import Entry, start_text

MOST_FAULTS_SHOWN: Final = 100


def directory_lines(found: Listed) -> list[str]:
    """A line for each file that is listed and as the index says, and one of those that nothing
    reads."""
    lines = [in_force_line(entry, counts) for entry, counts in found.counts.items()]
    if not found.entries:
        lines.append("the index lists no file")
    if found.unlisted:
        names = ", ".join(found.unlisted)
        lines.append(f"not listed in the index, so nothing reads it: {names}")
    return lines


def in_force_line(entry: Entry, counts: object) -> str:
    """From when a file is in force, and how much it says."""
    return f"{entry.name}: in force from {start_text(entry.start_ms)}, {counts}"


def fault_lines(faults: Sequence[Fault], more: int = 0) -> list[str]:
    """The first faults, and how many more there are."""
    lines = [str(fault) for fault in faults[:MOST_FAULTS_SHOWN]]
    left = len(faults) - len(lines) + more
    return [*lines, f"and {left:,} more"] if left else lines
