"""What was refused of recorded events: how often for each reason, and where it occurred first."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from ...events.types import Rejected
from .line_files import file_and_line

SHOWN_BYTES: Final = 120
"""So much of a refused line is shown."""
SAMPLES: Final = 20
SAMPLE_BYTES: Final = 65_536
"""So many refused lines, none longer than that, are kept to guess their format from."""
RULES: Final = {
    "long_value": "attributes, experiments: a value must have at most 256 bytes",
    "bad_value": "attributes, experiments: a value must be text, a number or a truth value",
    "long_name": "attributes, experiments: a name must have at most 256 bytes",
    "bad_query": "query: must be text",
}
"""The rules of the reasons that come without a sentence about the value."""


class Refused(msgspec.Struct, frozen=True):
    """One reason, and the first line it occurred in."""

    reason: str
    count: int
    file: str
    line: int
    detail: str
    """The value and the rule that it breaks."""
    record: str
    """The beginning of the line."""


class Refusals:
    """Counts what is refused, and remembers the first of each reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.samples: list[bytes] = []
        """The first refused lines."""
        self._first: dict[str, tuple[int, str, bytes]] = {}

    def note(self, place: int, rejected: Rejected, line: bytes) -> None:
        """Count one rejection of the line at a place. Lines may come in any order."""
        reason = rejected.reason
        self.counts[reason] += 1
        if line and len(self.samples) < SAMPLES and len(line) <= SAMPLE_BYTES:
            self.samples.append(line)
        first = self._first.get(reason)
        if first is None or place < first[0]:
            self._first[reason] = (place, rejected.detail, line[:SHOWN_BYTES])

    def listed(self, paths: Sequence[str]) -> tuple[Refused, ...]:
        """All reasons, the most frequent first."""
        found = []
        for reason, count in sorted(self.counts.items(), key=lambda pair: (-pair[1], pair[0])):
            place, detail, line = self._first[reason]
            file, number = file_and_line(place)
            detail = detail or RULES.get(reason, "")
            record = line.decode(errors="replace")
            found.append(Refused(reason, count, paths[file], number, detail, record))
        return tuple(found)
