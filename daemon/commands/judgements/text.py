"""What the commands print about files of judgements."""

from collections.abc import Sequence

from ...judgements.directory import Listed
from ...judgements.grades import Counts, Fault
from ...judgements.index import Entry, start_text


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


def in_force_line(entry: Entry, counts: Counts) -> str:
    """From when a file is in force, and how much it judges."""
    return f"{entry.name}: in force from {start_text(entry.start_ms)}, {counts_text(counts)}"


def counts_text(counts: Counts) -> str:
    """How much a file judges.

    >>> counts_text(Counts(queries=1, judgements=2, unrated=3))
    '1 query, 2 judgements, 3 pairs without a rating'
    """
    parts = [
        _count(counts.queries, "query", "queries"),
        _count(counts.judgements, "judgement", "judgements"),
    ]
    if counts.unrated:
        parts.append(_count(counts.unrated, "pair", "pairs") + " without a rating")
    return ", ".join(parts)


def fault_lines(faults: Sequence[Fault], most: int, more: int = 0) -> list[str]:
    """The first `most` faults, and how many more there are."""
    lines = [str(fault) for fault in faults[:most]]
    left = len(faults) - len(lines) + more
    return [*lines, f"and {left:,} more"] if left else lines


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
