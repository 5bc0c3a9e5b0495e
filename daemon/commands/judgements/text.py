"""What the commands print about files of judgements."""

from collections.abc import Sequence

from ...judgements.directory import Listed
from ...judgements.grades import Fault, Judgements
from ...judgements.index import start_text


def directory_lines(found: Listed) -> list[str]:
    """A line for each file that is listed and as the index says, and one of those that nothing
    reads."""
    lines = [
        f"{entry.name}: in force from {start_text(entry.start_ms)}, {counts(judgements)}"
        for entry, judgements in found.judgements.items()
    ]
    if not found.entries:
        lines.append("the index lists no file")
    if found.unlisted:
        names = ", ".join(found.unlisted)
        lines.append(f"not listed in the index, so nothing reads it: {names}")
    return lines


def counts(judgements: Judgements) -> str:
    """How much a file judges.

    >>> counts(Judgements({"shoes": {"d7": 1.0, "d9": 0.0}}, unrated=3))
    '1 query, 2 judgements, 3 pairs without a rating'
    """
    parts = [
        _count(len(judgements.by_query), "query", "queries"),
        _count(judgements.count, "judgement", "judgements"),
    ]
    if judgements.unrated:
        parts.append(_count(judgements.unrated, "pair", "pairs") + " without a rating")
    return ", ".join(parts)


def fault_lines(faults: Sequence[Fault], most: int, more: int = 0) -> list[str]:
    """The first `most` faults, and how many more there are."""
    lines = [str(fault) for fault in faults[:most]]
    left = len(faults) - len(lines) + more
    return [*lines, f"and {left:,} more"] if left else lines


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
