"""Lines of files of judgements that break a rule. Pure."""

from dataclasses import dataclass
from typing import Final

MOST_FAULTS: Final = 1_000
"""So many faults are kept; the others are counted."""


@dataclass(frozen=True)
class Fault:
    """A line, or a whole file, that breaks a rule."""

    file: str
    line: int
    """Counted from 1; 0 for the file as a whole."""
    reason: str
    """With the value and the rule."""
    lacking: bool = False
    """Whether the file is not there as it was listed, so that nothing is known of its content."""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.reason}"


class FaultyJudgements(Exception):
    """A file that breaks rules."""

    def __init__(self, faults: list[Fault], more: int = 0) -> None:
        lines = [str(fault) for fault in faults]
        super().__init__("\n".join([*lines, f"and {more} more"] if more else lines))
        self.faults = faults
        """The first `MOST_FAULTS`, in the order of the lines."""
        self.more = more
        """How many there are beyond these."""
