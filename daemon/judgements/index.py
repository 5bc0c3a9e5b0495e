"""The index of a directory of dated files: which are in force from when, and their hashes. Pure.

A line for each file: its name, the start in RFC 3339, the SHA-256 of its bytes. The name begins
with the start, `2026-11-20T0000Z-quepid.csv`. Only what stands here is read: half a CSV file is a
good CSV file, and only the hash tells it from the whole.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from ..events import shown, timestamp_text
from .faults import Fault

HOUR_MS: Final = 3_600_000
MOST_FILES: Final = 10_000
LEAD_MS: Final = 15 * 60_000
"""A file is listed so long, and `events.max_future` more, before its start: so every worker has
read the index before the first event that the file grades."""
NAME_RULE: Final = (
    "must be a time such as 2026-11-20T0000Z-, then 1 to 100 letters, digits, dots, dashes and"
    " underscores"
)
_NAME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d{4})Z-[A-Za-z0-9._-]{1,100}", re.ASCII)
_START: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:00:00Z", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_IN_NAME: Final = "%Y-%m-%dT%H%M"


@dataclass(frozen=True, order=True)
class IndexEntry:
    """One file of judgements; entries are ordered by their start."""

    start_ms: int
    """The file is in force for events from then on."""
    name: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.name} {start_text(self.start_ms)} {self.sha256}"


class FaultyIndex(Exception):
    """An index that breaks rules; `faults` lists all of them."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = list(faults)


def parse(data: bytes, file: str = "index") -> list[IndexEntry]:
    """Parse an index into its entries, by ascending start. Raises FaultyIndex with every fault.

    >>> text = f"2026-11-20T0000Z-a.csv 2026-11-20T00:00:00Z {'0' * 64}\\n"
    >>> [(entry.name, entry.start_ms) for entry in parse(text.encode())]
    [('2026-11-20T0000Z-a.csv', 1795132800000)]
    """
    entries: list[IndexEntry] = []
    faults: list[Fault] = []
    starts: dict[int, str] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            entry = _entry(line)
            if (other := starts.setdefault(entry.start_ms, entry.name)) != entry.name:
                raise ValueError(f"{entry.name}: starts when {other} does, further up")
            if entry in entries[-1:] or any(entry.name == before.name for before in entries):
                raise ValueError(f"{entry.name}: is listed twice")
        except ValueError as error:
            faults.append(Fault(file, number, str(error)))
            continue
        entries.append(entry)
    if len(entries) > MOST_FILES:
        faults.append(Fault(file, 0, f"{len(entries)} files: must be at most {MOST_FILES}"))
    if faults:
        raise FaultyIndex(faults)
    return sorted(entries)


def text_of(entries: Sequence[IndexEntry]) -> bytes:
    """The index of these entries, in their order."""
    return "".join(f"{entry}\n" for entry in entries).encode()


def file_name(start_ms: int, name: str) -> str:
    """The name under which a file stands in the directory. Raises ValueError.

    >>> file_name(1_795_132_800_000, "quepid.csv")
    '2026-11-20T0000Z-quepid.csv'
    """
    start = datetime.fromtimestamp(start_ms / 1000, timezone.utc)
    full = f"{start.strftime(_IN_NAME)}Z-{name}"
    if _NAME.fullmatch(full) is None:
        raise ValueError(f"name={shown(name)}: of {shown(full)}: {NAME_RULE}")
    return full


def from_now(entries: Collection[IndexEntry], now_ms: int) -> list[IndexEntry]:
    """The entry that is in force at this instant and all that start later, by ascending start:
    those that every process must have. Earlier ones are needed by late lanes only."""
    begun = [entry.start_ms for entry in entries if entry.start_ms <= now_ms]
    first_ms = max(begun, default=now_ms)
    return sorted(entry for entry in entries if entry.start_ms >= first_ms)


def earliest_start_ms(now_ms: int, max_future_ms: int) -> int:
    """The first whole hour at which a file that is listed now may start.

    >>> earliest_start_ms(10 * HOUR_MS, 60_000) // HOUR_MS
    11
    """
    return -(-(now_ms + LEAD_MS + max_future_ms) // HOUR_MS) * HOUR_MS


def _entry(line: bytes) -> IndexEntry:
    """The entry of a line. Raises ValueError."""
    fields = line.decode(errors="replace").split()
    if len(fields) != 3:
        value = shown(line.decode(errors="replace"))
        raise ValueError(f"{value}: must be 3 fields, name start SHA-256")
    name, start, sha256 = fields
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"name={shown(name)}: {NAME_RULE}")
    if _START.fullmatch(start) is None:
        raise ValueError(f"start={shown(start)}: must be a whole hour, as 2026-11-20T00:00:00Z")
    if _SHA256.fullmatch(sha256) is None:
        raise ValueError(f"sha256={shown(sha256)}: must be 64 hexadecimal digits")
    start_ms = _milliseconds(match[1], _IN_NAME)
    if start_ms != _milliseconds(start, "%Y-%m-%dT%H:%M:%SZ"):
        raise ValueError(f"start={start}: must be the time at which {name} begins")
    return IndexEntry(start_ms, name, sha256)


def _milliseconds(text: str, form: str) -> int:
    """Milliseconds since the epoch. Raises ValueError."""
    try:
        moment = datetime.strptime(text, form).replace(tzinfo=timezone.utc)
    except ValueError:
        raise ValueError(f"{text}: is no date and time") from None
    return int(moment.timestamp()) * 1000


def start_text(start_ms: int) -> str:
    return timestamp_text(start_ms).replace(".000Z", "Z")
