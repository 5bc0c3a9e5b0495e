"""What `verify` says of lanes, and its exit code. Pure."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from .differences import Difference, LeftOut

Result: TypeAlias = Literal["equal", "differs", "not provable", "not begun"]
NOTHING_PROVEN: Final = "no pane that is kept begins after what the log no longer proves"
MAY_HAVE_GONE: Final = (
    "this takes for granted that no record that is gone has a later timestamp than the first that"
    " is left, as it is with message.timestamp.type=LogAppendTime"
)

NEVER_COMPARED: Final = tuple(
    LeftOut(*pair)
    for pair in (
        (
            "token, sequence, idle and stall marks, sequences of keys",
            "they say when and by whom something was written",
        ),
        (
            "counts of gaps, of logs that were replaced and of events behind lifts, and lifts",
            "they say what happened to the logs",
        ),
        (
            "numbers of blocks, of open impressions and of waiting feedback",
            "they follow the order in which topics were read and the size of batches; that no block"
            " is dropped before what it contains is checked",
        ),
        (
            "generation, digest, text, panes and history of layouts, and since when they hold after"
            " a change",
            "they follow the configurations; the columns and rows that they come to are compared",
        ),
        (
            "from which hour on tables of queries are kept",
            "it follows the configurations since; the hours are compared",
        ),
        (
            "since when a changed experiment counts",
            "it follows the configurations; it is counted again from there",
        ),
        (
            "the busiest units of an experiment, and since when its units count anew",
            "which of many units are kept follows the size of batches; a change of shares that was"
            " declared late holds from when it was read",
        ),
        ("files that were refused", "whether they were listed too late is not in the log"),
        (
            "hours that backfill filled",
            "they are beside the lanes, and follow from files or another reading of the log",
        ),
    )
)
"""Of every lane."""


class Outcome(msgspec.Struct, frozen=True):
    """One lane: whether what is stored is what its log proves."""

    lane: int
    result: Result
    reason: str = ""
    """Why nothing was compared, where nothing was."""
    proven_from: str | None = None
    """Where the log has lost its beginning: panes and hours from this instant on were compared."""
    records: int = 0
    panes: int = 0
    hours: int = 0
    query_hours: int = 0
    """Hours of tables of queries."""
    judged_hours: int = 0
    """Hours of judged rows."""
    integers: int = 0
    """That were compared."""
    differences: int = 0
    first: tuple[Difference, ...] = ()
    """The first of them."""
    notes: tuple[str, ...] = ()
    """What could not be compared of this lane."""
    left_out: tuple[LeftOut, ...] = ()
    """What is stored and not compared: hours of this lane, and what never is."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing speaks against the lane."""
        return self.result in ("equal", "not begun")


def not_provable(lane: int, reason: str) -> Outcome:
    """The outcome of a lane of which nothing can be compared."""
    return Outcome(lane, "not provable", reason)


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """0 where every lane is equal or has not begun, else 1."""
    return 0 if all(outcome.is_sound for outcome in outcomes) else 1


def as_text(outcomes: Sequence[Outcome]) -> str:
    """A paragraph for each lane, and a last line for all."""
    lines = [line for outcome in outcomes for line in _lines(outcome)]
    sound = sum(outcome.is_sound for outcome in outcomes)
    integers = sum(outcome.integers for outcome in outcomes)
    total = f"{sound} of {len(outcomes)} lanes are proven, {integers:,} integers compared"
    compared = any(outcome.integers for outcome in outcomes)
    never = [f"  {one.what}: {one.reason}" for one in NEVER_COMPARED if compared]
    return "\n".join([*lines, *(["not compared, in any lane:"] if never else []), *never, total])


def _lines(outcome: Outcome) -> list[str]:
    head = f"lane {outcome.lane}: {outcome.result}"
    if outcome.reason:
        return [f"{head}: {outcome.reason}"]
    if outcome.result == "not begun":
        return [head]
    since = "" if outcome.proven_from is None else f" from {outcome.proven_from} on"
    compared = f"{outcome.records:,} records, {outcome.panes:,} panes, {outcome.hours:,} hours"
    if outcome.query_hours:
        compared += f", {outcome.query_hours:,} hours of queries"
    if outcome.judged_hours:
        compared += f", {outcome.judged_hours:,} judged hours"
    counted = f" in {outcome.differences:,} integers" if outcome.differences else ""
    lines = [f"{head}{counted}{since} ({compared}, {outcome.integers:,} integers)"]
    lines += [f"  {difference.text()}" for difference in outcome.first]
    if outcome.differences > len(outcome.first):
        lines.append(f"  and {outcome.differences - len(outcome.first):,} more")
    hours = [one for one in outcome.left_out if one not in NEVER_COMPARED]
    lines += [f"  {one.what} are not compared: {one.reason}" for one in hours]
    return lines + [f"  {note}" for note in outcome.notes]


def as_json(outcomes: Sequence[Outcome]) -> str:
    """All outcomes as one JSON array."""
    return msgspec.json.encode(outcomes).decode()
