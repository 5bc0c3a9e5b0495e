"""Why nothing in the files counts, and which format they may have. Pure.

What recorded data says of an experiment beside its finding: its effect by day, and
what an exclusion left out.

Kinds of feedback that have no grade, with how often they occur: a misspelt kind shows here.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from relevanced.metrics import Sketch

from ..attribution import Run
from ..events import FORMATS, Event, Feedback, Limits, Rejected, decoder
from ..experiments import Arm, DayEffect, Findings, by_day, excluded_of, nothing_left, sample_ratio
from ..lane import Lane

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
_any_value: Final = msgspec.json.Decoder().decode


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
    objects = (value for value in values if isinstance(value, dict))
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
        return _any_value(line)
    except (ValueError, RecursionError):
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


def days_of(lane: Lane, experiment: str) -> tuple[DayEffect, ...]:
    """The effect of one experiment by day; none where the lane has no such experiment."""
    tracking, tallies = lane.plan.tracking, lane.experiments.by_name.get(experiment)
    spec = None if tracking is None else tracking.spec(experiment)
    if spec is None or tallies is None:
        return ()
    return by_day(spec, [tallies], lane.plan.metrics)


class NothingLeft(Exception):
    """An exclusion covers all impressions of the experiment."""


def with_excluded(found: Findings, lane: Lane, experiment: str) -> Findings:
    """The findings, with what was left out of one experiment. Raises NothingLeft."""
    tracking = lane.plan.tracking
    spec = None if tracking is None else tracking.spec(experiment)
    if tracking is None or spec is None or not tracking.excluded:
        return found
    counted = lane.experiments.by_name.get(experiment)
    # An arm that lost nothing belongs to the ratio too.
    arms = {variant: Arm.empty(0) for variant in (counted.arms if counted else ())}
    arms |= lane.experiments.left_out.get(experiment, {})
    srm = sample_ratio(spec, {name: Sketch(arm.users) for name, arm in arms.items()})
    excluded = excluded_of(spec, tracking.excluded, arms, srm)
    kept = {one.experiment: one.impressions for one in found.experiments}
    if excluded.impressions and not kept.get(experiment):
        raise NothingLeft(nothing_left(experiment, tracking.excluded, excluded.impressions))
    return Findings(
        found.as_of,
        tuple(
            msgspec.structs.replace(one, excluded=excluded) if one.experiment == experiment else one
            for one in found.experiments
        ),
    )


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
