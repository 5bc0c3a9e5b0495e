"""What `verify` says of lanes, and its exit code. Pure."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from .differences import Difference

Result: TypeAlias = Literal["equal", "differs", "not provable", "not begun"]
NOTHING_PROVEN: Final = "no pane that is kept begins after what the log no longer proves"
MAY_HAVE_GONE: Final = (
    "this takes for granted that no record that is gone has a later timestamp than the first that"
    " is left, as it is with message.timestamp.type=LogAppendTime"
)


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
    """What could not be compared."""

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
    return "\n".join([*lines, total])


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
    return lines + [f"  {note}" for note in outcome.notes]


def as_json(outcomes: Sequence[Outcome]) -> str:
    """All outcomes as one JSON array."""
    return msgspec.json.encode(outcomes).decode()
