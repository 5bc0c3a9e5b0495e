"""`relevanced propensities`: how likely each rank is looked at, estimated from recorded events.

lines ─▶ decode ─▶ clicks by (query, item, rank) ─▶ harvest ─▶ a table of the configuration, or why
there is none
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress

from relevanced.metrics import (
    DOUBTED_P,
    LEAST_BLOCKS,
    Exposures,
    Harvest,
    consistency,
    harvest,
)

from ..attribution import PageMismatch, list_with_item
from ..commands import options
from ..config import Config, DeclaredTable, quoted, written_table
from ..events import Feedback, Impression, InvalidField, Limits, decoded, decoder
from ..recompute.files import lines_of


class _Query(msgspec.Struct):
    """The query of an impression, under the name that each format has for it."""

    query: str | None = None
    user_query: str | None = None


_QUERY: Final = msgspec.json.Decoder(_Query)


@dataclass(frozen=True)
class Scope:
    """Which propensities are estimated."""

    depth: int
    surface: tuple[str, str] | None = None
    """(attribute, value) of the impressions that count; None: all impressions."""


@dataclass
class RecordedLists:
    """Result lists, and which of their ranks were clicked."""

    by_id: dict[str, tuple[int, str, Sequence[str | None]]] = field(default_factory=dict)
    """Impression id → (time in ms, query, items); None where it is not known what was shown."""
    clicked: set[tuple[str, int]] = field(default_factory=set)
    """(impression id, 0-based rank)."""
    impressions: int = 0
    """Impression records of first pages, in scope or not."""
    in_scope: int = 0
    """Those of them that are in scope, with a query or not."""
    surfaces: Counter[str] = field(default_factory=Counter)
    """Impressions by their value of the attribute of the scope; "" where they have none."""
    by_item: set[str] = field(default_factory=set)
    """Ids of the impressions whose lists are logged item by item."""


def recorded_lists(lines: Iterable[bytes], config: Config, scope: Scope) -> RecordedLists:
    """The result lists of the scope that have a query, with the clicks on them. Later pages are
    left out; feedback counts where it stands after its impression."""
    attribute, _ = scope.surface or ("", "")
    names = (attribute,) if attribute else ()
    lists, limits = RecordedLists(), msgspec.structs.replace(config.limits, attributes=names)
    for event, query in _events(lines, config.events.format, limits):
        if isinstance(event, Impression):
            if event.by_item and event.impression_id in lists.by_item:
                _place(lists, event)
            elif event.first_rank == 1 or event.by_item:
                _add(lists, event, query, scope)
        elif event.kind in config.attribution.grades and event.item is not None:
            _click(lists, event, event.item, config.attribution.window_s * 1000)
    return lists


def _add(lists: RecordedLists, event: Impression, query: str | None, scope: Scope) -> None:
    lists.impressions += 1
    if event.by_item:
        lists.by_item.add(event.impression_id)
    if scope.surface is not None:
        attribute, value = scope.surface
        found = event.attributes.get(attribute)
        lists.surfaces[found or ""] += 1
        if found != value:
            return
    lists.in_scope += 1
    if query:
        items = list_with_item([], event) if event.by_item else event.items
        lists.by_id.setdefault(event.impression_id, (event.time_ms, query, items))


def _place(lists: RecordedLists, event: Impression) -> None:
    """Add one more item of an impression, if it is in scope."""
    found = lists.by_id.get(event.impression_id)
    if found is not None:
        time_ms, query, items = found
        with suppress(PageMismatch):  # the first to arrive wins
            lists.by_id[event.impression_id] = (time_ms, query, list_with_item(items, event))


def _click(lists: RecordedLists, event: Feedback, item: str, window_ms: int) -> None:
    time_ms, _, items = lists.by_id.get(event.impression_id, (0, "", ()))
    if item in items and event.time_ms <= time_ms + window_ms:
        lists.clicked.add((event.impression_id, items.index(item)))


def _events(
    lines: Iterable[bytes], format_name: str, limits: Limits
) -> Iterator[tuple[Impression | Feedback, str | None]]:
    """Each event with the query that its line contains, if any."""
    decode = decoder(format_name, limits)
    for line in lines:
        try:
            query = decoded("line", line, _QUERY, "wrong_type")
        except InvalidField:
            query = _Query()
        for event in decode(line, None):
            if isinstance(event, Impression | Feedback):
                yield event, query.query or query.user_query


def exposures(lists: RecordedLists, depth: int) -> Exposures:
    """How often each item of a query was shown, and clicked, at each rank. The same item on another
    day is another one: what it is worth may have changed, and its rank for that."""
    query_ids: dict[str, int] = {}
    item_ids: dict[tuple[int, int, str], int] = {}
    cells: dict[tuple[int, int, int], list[int]] = {}
    for impression_id, (time_ms, query, items) in lists.by_id.items():
        query_id = query_ids.setdefault(query, len(query_ids))
        for rank0, item in enumerate(items[:depth]):
            if item is None:
                continue
            item_id = item_ids.setdefault((query_id, time_ms // DAY_MS, item), len(item_ids))
            cell = cells.setdefault((query_id, item_id, rank0 + 1), [0, 0])
            cell[0] += 1
            cell[1] += (impression_id, rank0) in lists.clicked
    rows = [(*key, *counts) for key, counts in cells.items()]
    return Exposures(*np.array(rows, np.int64).reshape(-1, 5).T)


DAY_MS: Final = 86_400_000
ASSUMPTION: Final = (
    "Assumed: an item is clicked as often as its rank is looked at, times an appeal of its own (the"
    " position-based model). That is wrong where rankings follow who is looking, or what was"
    " clicked, or where higher ranks are trusted more; compare with a few swapped at random."
)
DIGITS: Final = 4
"""Decimals of a propensity in a configuration: the estimate is no more precise."""
WHOLE: Final = "all"
"""The name of the table of all traffic. As the only table of a configuration it applies to every
impression."""
MOST_VALUES_SHOWN: Final = 5
NOTHING_KNOWN_EXIT: Final = 1


class Rank(msgspec.Struct, frozen=True):
    """One line of the table."""

    rank: int
    propensity: float | None
    """Null where no chain of shared items connects the rank with the first."""
    stderr: float | None
    """Standard error. Null, as the interval, where too few queries tell it: then the propensity is
    not known."""
    lower: float | None
    """The 95 % interval."""
    upper: float | None
    shared_items: int
    queries: int
    """Queries with a shared item at this rank."""


@dataclass(frozen=True)
class PropensityEstimate:
    """The propensities of ranks 1…depth."""

    harvest: Harvest
    consistency: float
    """p-value that appealing items and others have the same propensities; NaN if unknown."""
    lists: RecordedLists

    @property
    def is_doubted(self) -> bool:
        """Whether the assumption is wrong here."""
        return self.consistency < DOUBTED_P

    @property
    def until_ms(self) -> int:
        """Time of the latest impression."""
        return max((time_ms for time_ms, _, _ in self.lists.by_id.values()), default=0)


def estimate(
    paths: Sequence[str], config: Config, scope: Scope, *, progress: bool
) -> PropensityEstimate:
    """Estimate the propensities from the files' events. Raises OSError for a file that cannot be
    read."""
    with Progress(console=Console(file=sys.stderr, quiet=not progress), transient=True) as bars:
        lists = recorded_lists(lines_of(paths, bars, config.limits.max_record_bytes), config, scope)
    seen = exposures(lists, scope.depth)
    return PropensityEstimate(harvest(seen, scope.depth), consistency(seen, scope.depth), lists)


def evidence(found: PropensityEstimate) -> str:
    """What the estimate is made of, in one sentence."""
    lists = found.lists
    queries = len({query for _, query, _ in lists.by_id.values()})
    seen = f"{len(lists.by_id):,} impressions of {queries:,} queries"
    return f"{seen}, {len(lists.clicked):,} results clicked."


def why_nothing_is_known(found: PropensityEstimate, scope: Scope) -> str | None:
    """Why no rank but the first has an estimate with an error; None if one has."""
    if found.harvest.known[1:].any():
        return None
    lists = found.lists
    if not lists.impressions:
        return "there is no impression in these files"
    if not lists.in_scope:
        assert scope.surface is not None
        attribute, value = scope.surface
        return f"no impression has {attribute}={value}: {_values_seen(lists)}"
    if not lists.by_id:
        return f"none of {lists.in_scope:,} impressions has a query: `query`, or UBI's `user_query`"
    if not lists.clicked:
        return "no result was clicked"
    if not found.harvest.shared_items.any():
        return "no item was shown at two ranks for the same query within a day (UTC)"
    least = f"a rank needs {LEAST_BLOCKS} queries that showed items there and at another rank"
    return f"{least}, with clicks at both"


def _values_seen(lists: RecordedLists) -> str:
    common = lists.surfaces.most_common(MOST_VALUES_SHOWN)
    values = [f"{quoted(value) if value else 'none'} {n:,} times" for value, n in common]
    more = len(lists.surfaces) - len(common)
    return "seen " + ", ".join(values) + (f" and {more:,} more" if more else "")


def unknown_ranks(found: Harvest) -> list[int]:
    """The ranks whose propensity has no error."""
    return [rank for rank, known in enumerate(found.known.tolist(), 1) if not known]


def as_toml(found: PropensityEstimate, scope: Scope, *, force: bool = False) -> str:
    """The table for `[propensities]` of a configuration, with the errors as comments. Its version
    is the day of the latest impression. With `force` it has values without an error, too."""
    attribute, value = scope.surface or (None, WHOLE)
    described = "all impressions"
    if attribute is not None:
        described = f"impressions with {quoted(f'{attribute}={value}')}"
    day = datetime.fromtimestamp(found.until_ms / 1000, timezone.utc).date().isoformat()
    values = found.harvest.table(unsure=force)
    ranks = tuple(max(round(value, DIGITS), 10.0**-DIGITS) for value in values)
    errors = ", ".join(
        "unknown" if row.stderr is None else f"{row.stderr:.{DIGITS}f}"
        for row in ranks_of(found.harvest)
    )
    table = "\n".join(written_table(value, DeclaredTable(day, ranks))).lstrip()
    return f"# of {described}\n# standard errors: {errors}\n{table}\n"


def ranks_of(found: Harvest) -> list[Rank]:
    """The rows of the table, one for each rank."""
    return [
        Rank(
            rank=rank0 + 1,
            propensity=_finite_or_none(found.values[rank0]),
            stderr=_finite_or_none(found.stderr[rank0]),
            lower=_finite_or_none(found.lower[rank0]),
            upper=_finite_or_none(found.upper[rank0]),
            shared_items=int(found.shared_items[rank0]),
            queries=int(found.queries[rank0]),
        )
        for rank0 in range(len(found.values))
    ]


def as_table(ranks: Sequence[Rank]) -> str:
    """The table for people; what is not known is left blank."""
    head = ("rank", "propensity", "std. error", "95 % interval", "shared items", "queries")
    widths = (4, 10, 10, 16, 12, 7)
    lines: list[tuple[str, ...]] = [head]
    for row in ranks:
        numbers = ("" if x is None else f"{x:.4f}" for x in (row.propensity, row.stderr))
        known = row.lower is not None and row.upper is not None
        interval = f"{row.lower:.4f} to {row.upper:.4f}" if known else ""
        lines.append(
            (str(row.rank), *numbers, interval, f"{row.shared_items:,}", f"{row.queries:,}")
        )
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines
    )


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@click.command("propensities")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE...",
)
@options.config_option(
    "Configuration: the events' format, which kinds of feedback count, and for how long."
)
@click.option(
    "--depth",
    type=click.IntRange(2, 100),
    default=10,
    show_default=True,
    help="Estimate the ranks from 1 to this one.",
)
@click.option(
    "--surface",
    metavar="ATTRIBUTE=VALUE",
    help="Use only impressions with this value of this attribute, such as device=ios.",
)
@options.output_option(
    "How the table is printed; toml: for a configuration.", "table", "json", "toml"
)
@click.option(
    "--force",
    is_flag=True,
    help="Print the table even if nothing is known, and values without an error into toml.",
)
def propensities_command(
    files: tuple[str, ...],
    config_file: str | None,
    depth: int,
    surface: str | None,
    output: str,
    force: bool,
) -> None:
    """Estimate how likely each rank is looked at, relative to the first, from recorded events.

    Needs several rankings of the same queries, such as an experiment produces: only items that were
    shown at different ranks for the same query on one day (UTC) count. Each rank has its standard
    error and 95 % interval, which take queries as the independent units; a rank with fewer than 8
    such queries is not known. If none but the first is known, no table is printed and the exit code
    is 1. The same holds for toml where appealing items and others have different propensities.
    """
    config = options.read(config_file, {})
    if not config.attribution.is_by_id:
        rule = 'must be "id" here: propensities are estimated by the ids of feedback'
        raise click.ClickException(f"attribution.join={config.attribution.join}: {rule}")
    attribute, equals, value = (surface or "").partition("=")
    if surface is not None and not (attribute and value):
        raise click.BadParameter("must be ATTRIBUTE=VALUE", param_hint="--surface")
    scope = Scope(depth, (attribute, value) if equals else None)
    try:
        found = estimate(files, config, scope, progress=sys.stderr.isatty())
    except OSError as error:
        raise click.ClickException(f"{error.filename}: cannot be read: {error.strerror}") from error
    _say_what_is_unknown(found, scope, force)
    if output == "toml" and found.is_doubted and not force:
        click.echo("No toml is printed; --force prints it all the same.", err=True)
        raise SystemExit(NOTHING_KNOWN_EXIT)
    if output == "toml":
        click.echo(as_toml(found, scope, force=force), nl=False)
    elif output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(ranks_of(found.harvest))))
    else:
        click.echo(as_table(ranks_of(found.harvest)))


def _say_what_is_unknown(found: PropensityEstimate, scope: Scope, force: bool) -> None:
    """Say what the estimate lacks; ends the command if it lacks everything, unless forced."""
    if found.lists.by_id:
        click.echo(evidence(found), err=True)
    reason = why_nothing_is_known(found, scope)
    if reason is not None:
        click.echo(f"Nothing is known about any rank but the first: {reason}.", err=True)
        if not force:
            click.echo("No table is printed; --force prints it all the same.", err=True)
            raise SystemExit(NOTHING_KNOWN_EXIT)
    elif unknown := unknown_ranks(found.harvest):
        ranks = ", ".join(map(str, unknown))
        rule = f"fewer than {LEAST_BLOCKS} queries tell"
        click.echo(f"Not known: rank {ranks} ({rule}). A toml repeats the one above.", err=True)
    if reason is None:
        click.echo(ASSUMPTION, err=True)
    if found.is_doubted:
        words = f"items that are clicked often and others differ, p = {found.consistency:.2g}"
        click.echo(f"Not to be trusted: {words}. That assumption is wrong here.", err=True)
