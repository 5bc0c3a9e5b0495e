"""What a part of the benchmark found: numbers with their goals, as a table and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

MARKS: Final = {True: "yes", False: "NO", None: ""}


@dataclass(frozen=True)
class Finding:
    """One number. `values` are the repetitions of which it is the median, interleaved with those of
    what it is compared to."""

    name: str
    """Unique, and the same in every run: `end_to_end.batch_10000`."""
    words: str
    value: float
    unit: str
    values: tuple[float, ...] = ()
    goal: float | None = None
    higher_is_better: bool = False
    compared: bool = False
    """A ratio inside one run, or a count: comparable between runs and machines."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.higher_is_better else self.value <= self.goal


@dataclass(frozen=True)
class Curve:
    """A line of the plot of how cost grows."""

    name: str
    words: str
    x: tuple[float, ...]
    cpu_us: tuple[float, ...]
    slope: float
    """Of the logarithms: 1 would be linear, 0 constant."""


@dataclass(frozen=True)
class Found:
    """All of one part."""

    findings: Sequence[Finding]
    curves: Sequence[Curve] = ()
    notes: Sequence[str] = ()
    """What could not be measured, and why."""


def ratio(
    name: str,
    words: str,
    pairs: Sequence[tuple[float, float]],
    goal: float | None = None,
    *,
    higher_is_better: bool = False,
) -> Finding:
    """The median over repetitions of first ÷ second."""
    values = tuple(first / second for first, second in pairs)
    return Finding(name, words, median(values), "×", values, goal, higher_is_better, compared=True)


def number(
    name: str,
    words: str,
    values: Sequence[float],
    unit: str,
    goal: float | None = None,
    *,
    compared: bool = False,
) -> Finding:
    """The median of repetitions of an absolute figure, less being better."""
    return Finding(name, words, median(values), unit, tuple(values), goal, compared=compared)


def table(findings: Sequence[Finding]) -> str:
    """For people."""
    if not findings:
        return ""
    rows = [("", "", "goal", "met", "repetitions")]
    for one in findings:
        sign = "≥" if one.higher_is_better else "≤"
        goal = "" if one.goal is None else f"{sign} {told(one.goal)}"
        spread = f"{told(min(one.values))} … {told(max(one.values))}" if one.values else ""
        repeated = f"{len(one.values)}: {spread}" if len(one.values) > 1 else ""
        rows.append((one.words, f"{told(one.value)} {one.unit}", goal, MARKS[one.met], repeated))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        f"{row[0]:{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:{widths[3]}}"
        f"  {row[4]}".rstrip()
        for row in rows
    ]
    return "\n".join(lines[1:] if all(one.goal is None for one in findings) else lines)


def markdown(findings: Iterable[Finding]) -> str:
    """Ratios only, for a README: everything else is of one machine."""
    lines = ["| what | measured | goal |", "|---|--:|--:|"]
    for one in findings:
        if one.unit == "×" or (not one.unit and one.goal is not None):
            sign = "≥" if one.higher_is_better else "≤"
            goal = "" if one.goal is None else f"{sign} {told(one.goal)}"
            lines.append(f"| {one.words} | {told(one.value)}{one.unit and ' ×'} | {goal} |")
    return "\n".join(lines)


def told(value: float) -> str:
    """Three digits, or all of a large number's."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
