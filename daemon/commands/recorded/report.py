"""What `replay` reports: the scores, and what became of every event that was read. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from ...events.types import DROP_REASONS, REJECTION_REASONS
from ...exporter.scores import Events, Report, Score
from ...exporter.snapshot import EVERYTHING, LIVE
from .judged_report import ReplayJudged
from .refusals import Refused

WAITING: Final = "waiting"
"""The outcome of feedback that waits for its impression, or for its item, when the files end."""


class Window(msgspec.Struct, frozen=True):
    """A window, and the view of it."""

    window: str
    view: str


WHOLE: Final = Window(EVERYTHING, LIVE)
"""The window of everything in the files, settled or not. Its scores come first."""


class ReplayEvents(Events, frozen=True):
    """Counts of the events in the files. The feedback outcomes have `waiting` as well."""

    ignored_kinds: dict[str, int]
    """Kinds without a grade, the most frequent first; together as many as `ignored_kind`."""


class ReplayReport(msgspec.Struct, frozen=True):
    """The object that `replay --output json` prints: that of the API, and more."""

    as_of: str | None
    whole: Window
    events: ReplayEvents
    refused: tuple[Refused, ...]
    """Each reason why something was refused or left out, the most frequent first."""
    scores: tuple[Score, ...]
    judged: ReplayJudged | None = None
    """None where [judgements] is off."""


def replay_report(
    report: Report,
    refused: Sequence[Refused],
    ignored_kinds: Mapping[str, int],
    waiting: int,
    judged: ReplayJudged | None = None,
) -> ReplayReport:
    """The report of a replay, from that of its lane."""
    events = msgspec.structs.asdict(report.events)
    events["feedback_outcomes"] = {**report.events.feedback_outcomes, WAITING: waiting}
    scores = sorted(report.scores, key=lambda score: score.window != EVERYTHING)
    return ReplayReport(
        as_of=report.as_of,
        whole=WHOLE,
        events=ReplayEvents(**events, ignored_kinds=dict(ignored_kinds)),
        refused=tuple(refused),
        scores=tuple(scores),
        judged=judged,
    )


def summary(report: ReplayReport) -> str:
    """What became of the events, a line each for impressions, feedback, and each reason of
    refusal."""
    events = report.events
    kinds = ", ".join(f"{_visible(kind)} {n:,}" for kind, n in events.ignored_kinds.items())
    details = {"ignored_kind": f" ({kinds})"} if kinds else {}
    lines = [
        f"{events.impressions:,} impressions: {_listed(events.impression_outcomes, {})}",
        f"{events.feedback:,} feedback: {_listed(events.feedback_outcomes, details)}",
    ]
    return "\n".join((*lines, *(refused_line(one) for one in report.refused)))


def _listed(counts: Mapping[str, int], details: Mapping[str, str]) -> str:
    found: Iterable[tuple[str, int]] = ((name, n) for name, n in counts.items() if n)
    return ", ".join(f"{name} {n:,}{details.get(name, '')}" for name, n in found) or "none"


def refused_line(refused: Refused) -> str:
    """How often a reason of refusal occurred, and where first."""
    verb = "refused" if refused.reason in REJECTION_REASONS else "skipped"
    if refused.reason in DROP_REASONS:
        verb = "left out"
    first = "" if refused.count == 1 else "the first "
    where = f"{first}in {_visible(refused.file)}, line {refused.line:,}"
    shown = f" in {_visible(refused.record)}" if refused.record else ""
    return f"{verb} {refused.reason} {refused.count:,}, {where}: {refused.detail}{shown}"


def _visible(text: str) -> str:
    """The text with control characters, which a terminal would act upon, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
