"""An experiment's finding for people: warnings first, then a table per variant. Pure."""

import io
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .specs import INTERLEAVED
from .types import Finding, Findings, Interleaving, MetricFinding, Variant

READING: Final = (
    "Intervals hold at every look together (95 %), with users as the units: look as often as you "
    "like, and stop when you like."
)
_UNBOUNDED: Final = 100_000


def render_report(found: Finding, as_of: str | None, output: str) -> str:
    """The report as `table` or `json`: the object of /api/v1/experiments with one experiment."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(Findings(as_of, (found,)))).decode() + "\n"
    return to_table(found, as_of)


def to_table(found: Finding, as_of: str | None) -> str:
    """The whole report."""
    console = Console(file=io.StringIO(), width=_UNBOUNDED, force_terminal=False)
    with console.capture() as capture:
        for line in _head(found, as_of):
            console.print(line, markup=False, highlight=False)
        for variant in found.variants:
            if variant.variant not in (found.control, INTERLEAVED):
                console.print(_table(found, variant))
                for line in _stratified(found, variant):
                    console.print(line, markup=False, highlight=False)
        if found.interleaving is not None:
            console.print(_interleaved(found.interleaving), markup=False, highlight=False)
        for line in _discoveries(found):
            console.print(line, markup=False, highlight=False)
        if found.variants:
            console.print(READING, markup=False, highlight=False)
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "\n".join(lines).rstrip() + "\n"


def _head(found: Finding, as_of: str | None) -> Iterator[str]:
    share = 100 * found.impressions / found.planned_impressions
    planned = f"{share:.0f} % of the {found.planned_impressions:,} that are planned"
    yield _visible(f"{found.experiment}: {found.status}, as of {as_of or '(no time yet)'}")
    yield f"{found.impressions:,} settled impressions, {planned}"
    for warning in found.warnings:
        yield _visible(f"WARNING {warning}")
    for variant in found.variants:
        role = " (control)" if variant.variant == found.control else ""
        told = f"{variant.impressions:,} impressions, {variant.users:,.0f} {_unit(found)}"
        yield _visible(f"  {variant.variant}{role}: {told}")


def _interleaved(found: Interleaving) -> str:
    lists = found.wins + found.ties + found.losses
    interval = _interval(found.lower, found.upper, "{:+.4f}")
    return (
        f"{lists:,} interleaved lists: won {found.wins:,}, tied {found.ties:,}, lost"
        f" {found.losses:,}; delta {_number(found.delta, '{:+.4f}')} {interval}: {found.verdict}"
    )


def _stratified(found: Finding, variant: Variant) -> Iterator[str]:
    """What is left when the arms' traffic differs, of the metrics that decide."""
    for metric in variant.metrics:
        told = metric.stratified
        if told is not None and told.difference is not None and metric.role != "secondary":
            interval = _interval(told.lower, told.upper, "{:+.4f}")
            yield _visible(
                f"  {metric.metric}, as if both had the same mix of {found.stratify_by}:"
                f" {told.difference:+.4f} {interval} ({100 * (told.covered or 0):.0f} % covered)"
            )


def _discoveries(found: Finding) -> Iterator[str]:
    """Which verdicts hold together, where several were asked for."""
    metrics = [(v.variant, m) for v in found.variants for m in v.metrics]
    compared = [(f"{v} {m.metric}", m.discovery) for v, m in metrics if m.discovery is not None]
    yield from _named("comparisons", compared)
    told = [(v, m.metric, m.stratified.segments) for v, m in metrics if m.stratified is not None]
    apart = [(f"{v} {name} in {s.segment}", s.discovery) for v, name, of in told for s in of]
    yield from _named(f"comparisons within {found.stratify_by}", apart)


def _named(what: str, compared: Sequence[tuple[str, bool]]) -> Iterator[str]:
    if len(compared) > 1:
        named = ", ".join(name for name, discovery in compared if discovery) or "none"
        yield _visible(
            f"Discoveries among all {len(compared)} {what} (e-BH, at most 5 % of them false):"
            f" {named}"
        )


def _unit(found: Finding) -> str:
    return {"user_id": "users", "impression": "units"}.get(found.unit, f"of {found.unit}")


def _table(found: Finding, variant: Variant) -> Table:
    title = Text(_visible(f"{variant.variant} against {found.control}"))
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("metric", no_wrap=True)
    for name in (found.control, variant.variant, "difference", "interval", "relative"):
        table.add_column(Text(_visible(name)), justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for metric in variant.metrics:
        table.add_row(*(Text(cell) for cell in _cells(metric)))
    return table


def _cells(metric: MetricFinding) -> tuple[str, ...]:
    name = metric.metric if metric.role == "secondary" else f"{metric.metric} ({metric.role})"
    return (
        name,
        _number(metric.control_mean, "{:.4f}"),
        _number(metric.mean, "{:.4f}"),
        _number(metric.difference, "{:+.4f}"),
        _interval(metric.lower, metric.upper, "{:+.4f}"),
        _relative(metric),
        metric.words,
    )


def _relative(metric: MetricFinding) -> str:
    if metric.relative_difference is None:
        return ""
    lower, upper = (
        None if end is None else 100 * end for end in (metric.relative_lower, metric.relative_upper)
    )
    interval = _interval(lower, upper, "{:+.1f}")
    return f"{100 * metric.relative_difference:+.1f} % {interval}".rstrip()


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _interval(lower: float | None, upper: float | None, form: str) -> str:
    if lower is None or upper is None:
        return ""
    return f"[{form.format(lower)}, {form.format(upper)}]"


def _visible(text: str) -> str:
    """The text with what a terminal would act upon spelled out."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
