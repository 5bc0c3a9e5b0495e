"""The results of a part of the benchmark: figures with their goals, as a table and as Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

MARKS: Final = {True: "yes", False: "NO", None: ""}


@dataclass(frozen=True)
class Finding:
    """One figure. `values` are the repetitions of which it is the median; they take turns with the
    repetitions of what it is compared with."""

    name: str
    """Unique, and the same in every run: `end_to_end.batch_10000`."""
    words: str
    value: float
    unit: str
    values: tuple[float, ...] = ()
    goal: float | None = None
    higher_is_better: bool = False
    compared: bool = False
    """Whether it can be compared between runs and machines: a ratio inside one run, or a count."""

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None where there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.higher_is_better else self.value <= self.goal


@dataclass(frozen=True)
class Curve:
    """A curve of the plot of how cost grows."""

    name: str
    words: str
    x: tuple[float, ...]
    cpu_us: tuple[float, ...]
    slope: float
    """Slope of the logarithms: 1 is linear, 0 constant."""


@dataclass(frozen=True)
class PartResult:
    """All results of one part."""

    findings: Sequence[Finding]
    curves: Sequence[Curve] = ()
    notes: Sequence[str] = ()
    """What could not be measured, and why."""


def together(runs: Sequence[PartResult]) -> PartResult:
    """Several runs of one part: the medians of their repetitions, and of the points of curves.
    Notes are those of the last run."""
    last = runs[-1]
    findings = [
        _median_of([one for run in runs for one in run.findings if one.name == finding.name])
        for finding in last.findings
    ]
    curves = [
        _curve_of([one for run in runs for one in run.curves if one.name == curve.name])
        for curve in last.curves
    ]
    return PartResult(findings, curves, last.notes)


def _median_of(found: Sequence[Finding]) -> Finding:
    values = tuple(value for one in found for value in one.values or (one.value,))
    return replace(found[-1], value=median(values), values=values)


def _curve_of(found: Sequence[Curve]) -> Curve:
    points = zip(*(curve.cpu_us for curve in found), strict=True)
    return replace(
        found[-1], cpu_us=tuple(map(median, points)), slope=median(curve.slope for curve in found)
    )


def ratio(
    name: str,
    words: str,
    pairs: Sequence[tuple[float, float]],
    goal: float | None = None,
    *,
    higher_is_better: bool = False,
) -> Finding:
    """A finding: the median over repetitions of first ÷ second."""
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
    """A finding: the median over repetitions of an absolute figure; lower is better."""
    return Finding(name, words, median(values), unit, tuple(values), goal, compared=compared)


def table(findings: Sequence[Finding]) -> str:
    """The findings as an aligned text table."""
    if not findings:
        return ""
    rows = [("", "", "goal", "met", "repetitions")]
    for finding in findings:
        sign = "≥" if finding.higher_is_better else "≤"
        goal = "" if finding.goal is None else f"{sign} {formatted(finding.goal)}"
        spread = (
            f"{formatted(min(finding.values))} … {formatted(max(finding.values))}"
            if finding.values
            else ""
        )
        repeated = f"{len(finding.values)}: {spread}" if len(finding.values) > 1 else ""
        rows.append(
            (
                finding.words,
                f"{formatted(finding.value)} {finding.unit}",
                goal,
                MARKS[finding.met],
                repeated,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        f"{row[0]:{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:{widths[3]}}"
        f"  {row[4]}".rstrip()
        for row in rows
    ]
    return "\n".join(lines[1:] if all(finding.goal is None for finding in findings) else lines)


def markdown(findings: Iterable[Finding]) -> str:
    """The ratios as a Markdown table for the guide: all other figures depend on the machine."""
    lines = ["| what | measured | goal |", "|---|--:|--:|"]
    for finding in findings:
        if finding.unit == "×" or (not finding.unit and finding.goal is not None):
            sign = "≥" if finding.higher_is_better else "≤"
            goal = "" if finding.goal is None else f"{sign} {formatted(finding.goal)}"
            lines.append(
                f"| {finding.words} | {formatted(finding.value)}{finding.unit and ' ×'} | {goal} |"
            )
    return "\n".join(lines)


def formatted(value: float) -> str:
    """The value with three significant digits, or as an integer from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
