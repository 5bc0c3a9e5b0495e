"""`relevanced propensities`: how likely each rank is looked at, estimated from recorded events.

Where rankers showed the same item for the same query at different ranks, its clicks there differ by
the ranks alone.
"""

import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final

import click
import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress

from relevanced.metrics.harvesting import Exposures, Harvest, harvest

from ..config.kinds import quoted
from ..config.loading import Config, read
from ..config.propensities import Table, written_table
from ..events.decoder import decoder
from ..events.types import Feedback, Impression, Limits
from . import options
from .replay import lines_of


class _Query(msgspec.Struct):
    """The query of an impression, under the name that each format has for it."""

    query: str | None = None
    user_query: str | None = None


DIGITS: Final = 4
"""Decimals of a propensity in a configuration: the estimate is no more precise."""
WHOLE: Final = "all"
"""The name of the table of all traffic. As the only table of a configuration it applies to every
impression."""
_read_query = msgspec.json.Decoder(_Query).decode


@dataclass
class RecordedLists:
    """Result lists, and which of their ranks were clicked."""

    by_id: dict[str, tuple[int, str, tuple[str, ...]]] = field(default_factory=dict)
    """Impression id → (time in ms, query, items)."""
    clicked: set[tuple[str, int]] = field(default_factory=set)
    """(impression id, 0-based rank)."""


@dataclass(frozen=True)
class Scope:
    """Which propensities are estimated."""

    depth: int
    surface: tuple[str, str] | None = None
    """(attribute, value) of the impressions that count; None: all impressions."""


class Rank(msgspec.Struct, frozen=True):
    """One line of the table."""

    rank: int
    propensity: float | None
    """Null where no chain of shared items connects the rank with the first."""
    stderr: float | None
    shared_items: int


@dataclass(frozen=True)
class Estimate:
    """The propensities of ranks 1…depth."""

    harvest: Harvest
    until_ms: int
    """Time of the latest impression."""


def estimate(paths: Sequence[str], config: Config, scope: Scope, *, progress: bool) -> Estimate:
    """Estimate the propensities from the files' events. Raises OSError for a file that cannot be
    read."""
    with Progress(console=Console(file=sys.stderr, quiet=not progress), transient=True) as bars:
        lists = recorded_lists(lines_of(paths, bars), config, scope)
    until_ms = max((time_ms for time_ms, _, _ in lists.by_id.values()), default=0)
    return Estimate(harvest(exposures(lists, scope.depth), scope.depth), until_ms)


def as_toml(found: Estimate, scope: Scope) -> str:
    """The table for `[propensities]` of a configuration. Its version is the day of the latest
    impression."""
    attribute, value = scope.surface or (None, WHOLE)
    described = "all impressions"
    if attribute is not None:
        described = f"impressions with {quoted(f'{attribute}={value}')}"
    day = datetime.fromtimestamp(found.until_ms / 1000, timezone.utc).date().isoformat()
    ranks = tuple(max(round(value, DIGITS), 10.0**-DIGITS) for value in found.harvest.table())
    table = "\n".join(written_table(value, Table(day, ranks))).lstrip()
    return f"# of {described}\n{table}\n"


def recorded_lists(lines: Iterable[bytes], config: Config, scope: Scope) -> RecordedLists:
    """The result lists of the scope that have a query, with the clicks on them. Later pages are
    left out; feedback counts where it stands after its impression."""
    attribute, value = scope.surface or ("", "")
    names = (attribute,) if attribute else ()
    lists, limits = RecordedLists(), msgspec.structs.replace(config.limits, attributes=names)
    for event, query in _events(lines, config.events.format, limits):
        if isinstance(event, Impression):
            in_scope = not attribute or event.attributes.get(attribute) == value
            if in_scope and query and event.first_rank == 1:
                entry = (event.time_ms, query, event.items)
                lists.by_id.setdefault(event.impression_id, entry)
        elif event.kind in config.attribution.grades and event.item is not None:
            _click(lists, event, event.item, config.attribution.window_s * 1000)
    return lists


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
            query = _read_query(line)
        except (ValueError, RecursionError):
            query = _Query()
        for event in decode(line, None):
            if isinstance(event, Impression | Feedback):
                yield event, query.query or query.user_query


def exposures(lists: RecordedLists, depth: int) -> Exposures:
    """How often each item of a query was shown, and clicked, at each rank."""
    query_ids: dict[str, int] = {}
    item_ids: dict[tuple[int, str], int] = {}
    cells: dict[tuple[int, int, int], list[int]] = {}
    for impression_id, (_, query, items) in lists.by_id.items():
        query_id = query_ids.setdefault(query, len(query_ids))
        for rank0, item in enumerate(items[:depth]):
            item_id = item_ids.setdefault((query_id, item), len(item_ids))
            cell = cells.setdefault((query_id, item_id, rank0 + 1), [0, 0])
            cell[0] += 1
            cell[1] += (impression_id, rank0) in lists.clicked
    rows = [(*key, *counts) for key, counts in cells.items()]
    return Exposures(*np.array(rows, np.int64).reshape(-1, 5).T)


def ranks_of(found: Harvest) -> list[Rank]:
    """The rows of the table, one for each rank."""
    columns = (found.values.tolist(), found.stderr.tolist(), found.shared_items.tolist())
    return [
        Rank(rank, _finite_or_none(value), _finite_or_none(stderr), shared)
        for rank, (value, stderr, shared) in enumerate(zip(*columns, strict=True), 1)
    ]


def as_table(ranks: Sequence[Rank]) -> str:
    """The table for people; a value that is not known is left blank."""
    lines = [f"{'rank':>4}  {'propensity':>10}  {'± error':>8}  {'shared items':>12}"]
    for row in ranks:
        propensity, stderr = ("" if x is None else f"{x:.4f}" for x in (row.propensity, row.stderr))
        lines.append(f"{row.rank:>4}  {propensity:>10}  {stderr:>8}  {row.shared_items:>12,}")
    return "\n".join(lines)


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


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
def propensities_command(
    files: tuple[str, ...], config_file: str | None, depth: int, surface: str | None, output: str
) -> None:
    """Estimate how likely each rank is looked at, relative to the first, from recorded events.

    Needs several rankings of the same queries, such as an experiment produces: only items that were
    shown at different ranks for the same query count.
    """
    config = read(config_file, os.environ)
    attribute, equals, value = (surface or "").partition("=")
    if surface is not None and not (attribute and value):
        raise click.BadParameter("must be ATTRIBUTE=VALUE", param_hint="--surface")
    scope = Scope(depth, (attribute, value) if equals else None)
    try:
        found = estimate(files, config, scope, progress=sys.stderr.isatty())
    except OSError as error:
        raise click.ClickException(f"{error.filename}: cannot be read: {error.strerror}") from error
    if output == "toml":
        click.echo(as_toml(found, scope), nl=False)
    elif output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(ranks_of(found.harvest))))
    else:
        click.echo(as_table(ranks_of(found.harvest)))
