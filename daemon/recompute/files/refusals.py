"""What of recorded events does not count, and why: refused lines, and kinds without a grade.

Where nothing counts, the first refused lines say which format they may have.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from ...attribution import Run
from ...changes import sentences
from ...events import (
    DROP_REASONS,
    FORMATS,
    REJECTION_REASONS,
    Event,
    Feedback,
    InvalidField,
    Limits,
    Rejected,
    decoded,
    decoder,
)
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
    "two_variants": "experiments: an impression must have at most one variant of each",
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


def refused_line(refused: Refused) -> str:
    """How often a reason of refusal occurred, and where first."""
    verb = "refused" if refused.reason in REJECTION_REASONS else "skipped"
    if refused.reason in DROP_REASONS:
        verb = "left out"
    first = "" if refused.count == 1 else "the first "
    where = f"{first}in {sentences.printable(refused.file)}, line {refused.line:,}"
    shown = f" in {sentences.printable(refused.record)}" if refused.record else ""
    return f"{verb} {refused.reason} {refused.count:,}, {where}: {refused.detail}{shown}"


STARTS: Final[Mapping[bytes, str]] = {
    b"\x28\xb5\x2f\xfd": "compressed with zstd: zstdcat FILE | relevanced replay /dev/stdin",
    b"BZh": "compressed with bzip2: bzcat FILE | relevanced replay /dev/stdin",
    b"\xfd7zXZ": "compressed with xz: xzcat FILE | relevanced replay /dev/stdin",
    b"PK\x03\x04": "a zip archive: unzip -p FILE | relevanced replay /dev/stdin",
    b"PAR1": "Parquet: export it as JSON lines",
    b"Obj\x01": "Avro: export it as JSON lines",
    b"\xff\xfe": "text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | relevanced replay /dev/stdin",
    b"\xfe\xff": "text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE | relevanced replay /dev/stdin",
}
"""First bytes of a file → what it is, and the way out."""
SHOWN_NAMES: Final = 8
"""So many fields of an unknown record are named."""
_ANY_VALUE: Final = msgspec.json.Decoder()


def explained(
    events: int,
    outcomes: Mapping[str, int],
    refused: Mapping[str, int],
    samples: Sequence[bytes],
    name: str,
) -> str:
    """Why no impression was accepted of files that were read in the format `name`.

    Given are the number of events, the outcomes of impressions, the reasons of refusal, and the
    first lines that were refused.
    """
    if events:
        listed = _listed(outcomes) or "there is none"
        said = f"No impression was accepted ({listed}): there is nothing to score."
        return f"{said} Of what was refused: {guess(samples, name)}" if samples else said
    if not refused:
        return "No event was read: the files have no lines."
    if not samples:
        return f"No event was read as format {name}: {_listed(refused)}."
    return f"No event was read as format {name}. {guess(samples, name)}"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items() if n)


def guess(samples: Sequence[bytes], name: str) -> str:
    """A sentence on what these lines may be, which are not of the format `name`."""
    for start, words in STARTS.items():
        if samples[0].startswith(start):
            return f"The first line looks like {words}"
    for other in FORMATS:
        read = sum(_has_event(line, other) for line in samples)
        if other != name and read:
            of = f"{read} of the first {len(samples)} lines refused"
            return f"They look like format {other} ({of} are events of it): --format {other}"
    values = [value for value in map(_value, samples) if value is not None]
    if not values:
        return _guess_of_text(samples)
    objects = [value for value in values if isinstance(value, dict)]
    if not objects and samples[0].lstrip().startswith((b"{", b"[")):
        return _guess_of_text(samples)
    names = list(dict.fromkeys(name for value in objects for name in value))
    shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
    return (
        f"The lines are JSON with the fields {shown or '(none)'}; an event of format native has"
        f" type, impression_id, timestamp. Known formats: {', '.join(FORMATS)}"
    )


def _has_event(line: bytes, name: str) -> bool:
    decoded = decoder(name, Limits())(line, None)
    return any(not isinstance(event, Rejected) for event in decoded)


def _value(line: bytes) -> object:
    try:
        return decoded("line", line, _ANY_VALUE, "wrong_type")
    except InvalidField:
        return None


def _guess_of_text(samples: Sequence[bytes]) -> str:
    first = samples[0].lstrip()
    separators: Mapping[str, Callable[[bytes], bool]] = {
        "tabs": lambda line: b"\t" in line,
        "commas": lambda line: b"," in line,
    }
    if first.startswith((b"{", b"[")):
        return (
            "They look like JSON values that go on over several lines; each must be one line:"
            " jq -c . FILE | relevanced replay /dev/stdin"
        )
    for separator, has in separators.items():
        if all(has(line) for line in samples):
            table = f"a table separated by {separator}"
            return f"They look like {table}; each line must be one JSON value"
    return "The lines are not JSON; each must be one JSON value"


MOST_KINDS: Final = 1_000
"""So many kinds are counted by name; the rarest beyond them are counted together."""
OTHERS: Final = "(others)"


class IgnoredKinds:
    """Counts the feedback that has no grade, by kind."""

    def __init__(self, grades: Collection[str]) -> None:
        self._grades = grades
        self._counts: Counter[str] = Counter()

    def count_run(self, run: Run) -> None:
        """Count the feedback of a run."""
        self._add(run.kinds)
        if run.others:
            self.count(run.others.values())

    def count(self, events: Iterable[Event]) -> None:
        """Count the feedback among events."""
        self._add(
            event.kind or ""
            for event in events
            if isinstance(event, Feedback) and event.grade is None
        )

    def by_kind(self) -> Mapping[str, int]:
        """Kind → count, the most frequent first."""
        return dict(self._counts.most_common())

    def _add(self, kinds: Iterable[str]) -> None:
        for kind, count in Counter(kinds).items():
            if kind not in self._grades:
                self._counts[kind] += count
        if len(self._counts) > MOST_KINDS:
            kept = Counter(dict(self._counts.most_common(MOST_KINDS // 2)))
            kept[OTHERS] += self._counts.total() - kept.total()
            self._counts = kept
