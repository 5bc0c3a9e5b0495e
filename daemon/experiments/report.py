"""The finding of an experiment as a report: warnings first, then a table per variant. Pure."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .by_day import DAYS_CAUTION, INTERLEAVED_DAYS, are_interleaved_alone
from .spec import IMPRESSION, INTERLEAVED, units_of
from .types import (
    DayEffect,
    Excluded,
    Finding,
    Findings,
    Interleaving,
    MetricFinding,
    OverTime,
    Variant,
)

ALL_LISTS: Final = (
    "Means are over all impressions of a variant; one for which a metric is undefined counts as its"
    " worst value."
)
EARLIER: Final = " Of the first day and those before it, only the sum is known."
_UNBOUNDED: Final = 100_000


def render_report(finding: Finding, as_of: str | None, output: str) -> str:
    """The report as `table`, or as `json`: the object of /api/v1/experiments with this experiment
    alone."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(Findings(as_of, (finding,)))).decode() + "\n"
    return report_table(finding, as_of)


def render_days(found: OverTime, output: str) -> str:
    """The effects by day alone, as `table`, or as `json`: the answer of
    /api/v1/experiments/NAME/over-time."""
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"
    lines = [f"{found.experiment}: as of {found.as_of or '(no time yet)'}"]
    lines += [f"WARNING {warning}" for warning in found.warnings]
    lines = [_visible(line) for line in lines]
    lines += [] if found.excluded is None else _excluded_lines(found.excluded)
    none = found.caution == INTERLEAVED_DAYS
    return _printed([*lines, found.caution if none else _days_table(found.days)])


def report_table(finding: Finding, as_of: str | None) -> str:
    """The whole report as text."""
    parts: list[str | Table] = [*_head_lines(finding, as_of)]
    for variant in finding.variants:
        if variant.variant not in (finding.control, INTERLEAVED):
            parts.append(_variant_table(finding, variant))
            parts += [*_defined_lines(finding, variant), *_stratified_lines(finding, variant)]
            parts += _without_busiest_lines(variant)
    names = [one.variant for one in finding.variants]
    if finding.by_day:
        parts += ["", _days_table(finding.by_day)]
    elif finding.by_day == () and are_interleaved_alone(finding.control, names):
        parts += ["", INTERLEAVED_DAYS]
    if finding.interleaving is not None:
        parts.append(_interleaved_line(finding.interleaving))
    if finding.busiest:
        parts.append(_busiest_line(finding))
    parts += _discovery_lines(finding)
    if finding.variants:
        parts.append(_how_to_read(finding))
    return _printed(parts)


def _printed(parts: Iterable[str | Table]) -> str:
    console = Console(file=io.StringIO(), width=_UNBOUNDED, force_terminal=False)
    with console.capture() as capture:
        for part in parts:
            console.print(Text(part) if isinstance(part, str) else part)
    lines = [line.rstrip() for line in capture.get().split("\n")]
    return "\n".join(lines).rstrip() + "\n"


def _head_lines(finding: Finding, as_of: str | None) -> Iterator[str]:
    share = 100 * finding.impressions / finding.planned_impressions
    planned = f"{share:.0f} % of the {finding.planned_impressions:,} planned"
    yield _visible(f"{finding.experiment}: {finding.status}, as of {as_of or '(no time yet)'}")
    yield f"{finding.impressions:,} settled impressions, {planned}"
    for warning in finding.warnings:
        yield _visible(f"WARNING {warning}")
    if isinstance(finding.excluded, Excluded):
        yield from _excluded_lines(finding.excluded)
    if finding.beyond_cap:
        yield f"left out beyond the cap of a unit and day: {finding.beyond_cap:,} impressions"
    yield from _periods_lines(finding)
    # Never "impressions", which are counted beside them.
    units = "units" if finding.unit == IMPRESSION else units_of(finding.unit)
    if finding.users_since is not None:
        yield f"{units} are those since {finding.users_since}; earlier, other shares were planned:"
    for variant in finding.variants:
        role = " (control)" if variant.variant == finding.control else ""
        counts = f"{variant.impressions:,} impressions, {variant.users:,.0f} {units}"
        yield _visible(f"  {variant.variant}{role}: {counts}")


def _periods_lines(finding: Finding) -> Iterator[str]:
    """Where the share of a variant beside the control changed: what is compared."""
    for variant in finding.variants:
        if variant.periods or variant.mixed_days:
            yield _visible(
                f"The shares of {variant.variant} and {finding.control} changed: differences, and"
                " the means beside them, are within these periods, each with the weight of its"
                " information:"
            )
        for period in variant.periods:
            shares = ", ".join(f"{name} {_share(share)}" for name, share in period.shares.items())
            yield _visible(f"  {period.first_day} – {period.last_day}: {shares}")
        if variant.mixed_days:
            days = ", ".join(variant.mixed_days)
            yield f"  left out, because the shares changed within them: {days}"


def _excluded_lines(excluded: Excluded) -> Iterator[str]:
    lost = ", ".join(f"{arm.variant} {arm.impressions:,}" for arm in excluded.variants)
    yield _visible(f"{excluded.words}{f' ({lost})' if lost else ''}")
    if excluded.warning:
        yield _visible(f"WARNING {excluded.warning}")
    yield excluded.caution


def _how_to_read(finding: Finding) -> str:
    metrics = [metric for variant in finding.variants for metric in variant.metrics]
    undefined = f"{ALL_LISTS} " if any(metric.defined for metric in metrics) else ""
    return (
        f"{undefined}Each interval holds with 95 % confidence at all looks together, with"
        f" {_visible(units_of(finding.unit))} as the units: look as often as you like, and stop"
        " when you like."
    )


def _defined_lines(finding: Finding, variant: Variant) -> Iterator[str]:
    for metric in variant.metrics:
        some = metric.defined
        if some is None:
            continue
        means = (
            f"{_number(mean, '{:.4f}') or 'undefined'} in {name} ({_share(share)} of its lists)"
            for name, mean, share in (
                (finding.control, some.control_mean, some.control_share),
                (variant.variant, some.mean, some.share),
            )
        )
        differ = (
            "the shares differ, so these are different lists"
            if some.shares_differ
            else ("no difference of the shares has been found")
        )
        interval = _interval(some.lower, some.upper, "{:+.4f}")
        change = f"{_number(some.difference, '{:+.4f}')} {interval}".strip() or "no statement"
        yield _visible(
            f"  {metric.metric} over defined lists alone: {', '.join(means)}; {change};"
            f" no verdict: {differ}"
        )


def _share(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def _interleaved_line(lists: Interleaving) -> str:
    count = lists.wins + lists.ties + lists.losses
    interval = _interval(lists.lower, lists.upper, "{:+.4f}")
    return (
        f"{count:,} interleaved lists: won {lists.wins:,}, tied {lists.ties:,}, lost"
        f" {lists.losses:,}; delta {_number(lists.delta, '{:+.4f}')} {interval}: {lists.verdict}"
    )


def _stratified_lines(finding: Finding, variant: Variant) -> Iterator[str]:
    """The difference under a common mix of segments, for the primary metric and guardrails."""
    for metric in variant.metrics:
        common = metric.stratified
        if common is not None and common.difference is not None and metric.role != "secondary":
            interval = _interval(common.lower, common.upper, "{:+.4f}")
            covered = f"{100 * (common.covered or 0):.0f} % covered"
            yield _visible(
                f"  {metric.metric}, if both variants had the same mix of {finding.stratify_by}:"
                f" {common.difference:+.4f} {interval} ({covered})"
            )


def _busiest_line(finding: Finding) -> str:
    shares = (f"{one.unit} {_share(one.share)} of {one.variant}" for one in finding.busiest)
    return _visible(f"Units with more than 1 % of a variant: {', '.join(shares)}")


def _without_busiest_lines(variant: Variant) -> Iterator[str]:
    for metric in variant.metrics:
        without = metric.without_busiest
        if without is not None and without.difference is not None and metric.role != "secondary":
            interval = _interval(without.lower, without.upper, "{:+.4f}")
            yield (
                f"  {metric.metric}, without the 64ths of users that the busiest units are in:"
                f" {without.difference:+.4f} {interval}: {without.verdict}"
            )


def _discovery_lines(finding: Finding) -> Iterator[str]:
    """The discoveries, where there are several comparisons."""
    metrics = [(v.variant, m) for v in finding.variants for m in v.metrics]
    compared = [(f"{v} {m.metric}", m.discovery) for v, m in metrics if m.discovery is not None]
    yield from _named_discoveries("comparisons", compared)
    within = [
        (f"{variant} {metric.metric} in {segment.segment}", segment.discovery)
        for variant, metric in metrics
        if metric.stratified is not None
        for segment in metric.stratified.segments
    ]
    yield from _named_discoveries(f"comparisons within {finding.stratify_by}", within)


def _named_discoveries(what: str, compared: Sequence[tuple[str, bool]]) -> Iterator[str]:
    if len(compared) > 1:
        named = ", ".join(name for name, discovery in compared if discovery) or "none"
        yield _visible(
            f"Discoveries among all {len(compared)} {what} (e-BH, at most 5 % of them false):"
            f" {named}"
        )


def _variant_table(finding: Finding, variant: Variant) -> Table:
    title = Text(_visible(f"{variant.variant} against {finding.control}"))
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("metric", no_wrap=True)
    for name in (finding.control, variant.variant, "difference", "interval", "relative", "scored"):
        table.add_column(Text(_visible(name)), justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for metric in variant.metrics:
        table.add_row(*(Text(cell) for cell in _metric_cells(metric)))
    return table


def _days_table(rows: Sequence[DayEffect]) -> Table:
    table = Table(title=Text("by day (UTC)"), title_justify="left", box=SIMPLE_HEAD)
    sums = any(row.day_impressions is None for row in rows)
    table.caption, table.caption_justify = Text(DAYS_CAUTION + EARLIER * sums), "left"
    for name in ("day", "variant", "metric"):
        table.add_column(name, no_wrap=True)
    for name in ("that day", "interval", "impressions", "so far", "interval", "impressions"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = (
            *(row.day, _visible(row.variant), row.metric),
            _number(row.day_difference, "{:+.4f}"),
            _interval(row.day_lower, row.day_upper, "{:+.4f}"),
            _of_both(row.day_control_impressions, row.day_impressions),
            _number(row.difference, "{:+.4f}"),
            _interval(row.lower, row.upper, "{:+.4f}"),
            _of_both(row.control_impressions, row.impressions),
        )
        table.add_row(*map(Text, cells))
    return table


def _of_both(control: int | None, variant: int | None) -> str:
    return "–" if control is None or variant is None else f"{control:,} / {variant:,}"


def _metric_cells(metric: MetricFinding) -> tuple[str, ...]:
    name = metric.metric if metric.role == "secondary" else f"{metric.metric} ({metric.role})"
    return (
        name,
        _number(metric.control_mean, "{:.4f}"),
        _number(metric.mean, "{:.4f}"),
        _number(metric.difference, "{:+.4f}"),
        _interval(metric.lower, metric.upper, "{:+.4f}"),
        _relative_text(metric),
        f"{metric.control_scored or 0:,} / {metric.scored:,}",
        metric.words,
    )


def _relative_text(metric: MetricFinding) -> str:
    if metric.relative_difference is None:
        return metric.relative_words
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
    """The text with control characters, which a terminal would act upon, as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
