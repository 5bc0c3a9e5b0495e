"""`relevanced propensities`: how likely each rank is looked at, out of recorded events.

Where rankers showed the same item for the same query at different ranks, what it earned there
differs by the ranks alone.
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


class _Asked(msgspec.Struct):
    """What was searched for, as each format spells it."""

    query: str | None = None
    user_query: str | None = None


DIGITS: Final = 4
"""No more of a propensity is known."""
WHOLE: Final = "all"
"""What the table of all traffic is called: as the only one it holds for every impression."""
_read_query = msgspec.json.Decoder(_Asked).decode


@dataclass
class Shown:
    """Impressions by id, and the places of them that were clicked."""

    lists: dict[str, tuple[int, str, tuple[str, ...]]] = field(default_factory=dict)
    """(time, query, items)"""
    clicked: set[tuple[str, int]] = field(default_factory=set)


@dataclass(frozen=True)
class Asked:
    """Which propensities are estimated."""

    depth: int
    surface: tuple[str, str] | None = None
    """(attribute, value) of the impressions that count; None: all of them."""


class Rank(msgspec.Struct, frozen=True):
    """One line of the table."""

    rank: int
    propensity: float | None
    """Null where no chain of shared items leads there."""
    stderr: float | None
    shared_items: int


@dataclass(frozen=True)
class Estimate:
    """The propensities of ranks 1…depth."""

    harvest: Harvest
    until_ms: int
    """Time of the latest impression."""


def estimate(paths: Sequence[str], config: Config, asked: Asked, *, progress: bool) -> Estimate:
    """What the events of the files tell. Raises OSError for a file that cannot be read."""
    with Progress(console=Console(file=sys.stderr, quiet=not progress), transient=True) as bars:
        shown = collected(lines_of(paths, bars), config, asked)
    until_ms = max((time_ms for time_ms, _, _ in shown.lists.values()), default=0)
    return Estimate(harvest(exposures(shown, asked.depth), asked.depth), until_ms)


def as_toml(found: Estimate, asked: Asked) -> str:
    """The table as `[propensities]` of a configuration takes it. Its version is the day of the
    latest impression."""
    attribute, value = asked.surface or (None, WHOLE)
    told = "all impressions"
    if attribute is not None:
        told = f"impressions with {quoted(f'{attribute}={value}')}"
    day = datetime.fromtimestamp(found.until_ms / 1000, timezone.utc).date().isoformat()
    ranks = tuple(max(round(value, DIGITS), 10.0**-DIGITS) for value in found.harvest.table())
    table = "\n".join(written_table(value, Table(day, ranks))).lstrip()
    return f"# of {told}\n{table}\n"


def collected(lines: Iterable[bytes], config: Config, asked: Asked) -> Shown:
    """First pages of a known query, and feedback on them. An impression stands before its
    feedback."""
    attribute, value = asked.surface or ("", "")
    names = (attribute,) if attribute else ()
    shown, limits = Shown(), msgspec.structs.replace(config.limits, attributes=names)
    for event, query in _events(lines, config.events.format, limits):
        if isinstance(event, Impression):
            here = not attribute or event.attributes.get(attribute) == value
            if here and query and event.first_rank == 1:
                told = (event.time_ms, query, event.items)
                shown.lists.setdefault(event.impression_id, told)
        elif event.kind in config.attribution.grades and event.item is not None:
            _click(shown, event, event.item, config.attribution.window_s * 1000)
    return shown


def _click(shown: Shown, event: Feedback, item: str, window_ms: int) -> None:
    time_ms, _, items = shown.lists.get(event.impression_id, (0, "", ()))
    if item in items and event.time_ms <= time_ms + window_ms:
        shown.clicked.add((event.impression_id, items.index(item)))


def _events(
    lines: Iterable[bytes], format_name: str, limits: Limits
) -> Iterator[tuple[Impression | Feedback, str | None]]:
    """Events with what was searched for, where their line tells it."""
    decode = decoder(format_name, limits)
    for line in lines:
        try:
            asked = _read_query(line)
        except (ValueError, RecursionError):
            asked = _Asked()
        for event in decode(line, None):
            if isinstance(event, Impression | Feedback):
                yield event, asked.query or asked.user_query


def exposures(shown: Shown, depth: int) -> Exposures:
    """What each query's items earned at each rank."""
    queries: dict[str, int] = {}
    items: dict[tuple[int, str], int] = {}
    cells: dict[tuple[int, int, int], list[int]] = {}
    for impression_id, (_, query, listed) in shown.lists.items():
        number = queries.setdefault(query, len(queries))
        for place, item in enumerate(listed[:depth]):
            known = items.setdefault((number, item), len(items))
            cell = cells.setdefault((number, known, place + 1), [0, 0])
            cell[0] += 1
            cell[1] += (impression_id, place) in shown.clicked
    told = [(*key, *counts) for key, counts in cells.items()]
    return Exposures(*np.array(told, np.int64).reshape(-1, 5).T)


def ranks_of(found: Harvest) -> list[Rank]:
    """The table, line by line."""
    columns = (found.values.tolist(), found.stderr.tolist(), found.shared_items.tolist())
    return [
        Rank(number, _known(value), _known(stderr), shared)
        for number, (value, stderr, shared) in enumerate(zip(*columns, strict=True), 1)
    ]


def _known(value: float) -> float | None:
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
    help="Ranks that are estimated.",
)
@click.option(
    "--surface",
    metavar="ATTRIBUTE=VALUE",
    help="Look only at impressions that were shown there, as device=ios.",
)
@options.output_option(
    "How the table is printed; toml: for a configuration.", "table", "json", "toml"
)
def propensities_command(
    files: tuple[str, ...], config_file: str | None, depth: int, surface: str | None, output: str
) -> None:
    """Estimate how likely each rank is looked at, relative to the first, from recorded events.

    Needs several rankings of the same queries, as experiments make them: only items that were shown
    at different ranks for the same query tell anything.
    """
    config = read(config_file, os.environ)
    attribute, equals, value = (surface or "").partition("=")
    if surface is not None and not (attribute and value):
        raise click.BadParameter("must be ATTRIBUTE=VALUE", param_hint="--surface")
    asked = Asked(depth, (attribute, value) if equals else None)
    try:
        found = estimate(files, config, asked, progress=sys.stderr.isatty())
    except OSError as error:
        raise click.ClickException(f"{error.filename}: cannot be read: {error.strerror}") from error
    ranks = ranks_of(found.harvest)
    if output == "toml":
        click.echo(as_toml(found, asked), nl=False)
        return
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(ranks)))
        return
    click.echo(f"{'rank':>4}  {'propensity':>10}  {'± error':>8}  {'shared items':>12}")
    for one in ranks:
        cells = ("" if n is None else f"{n:.4f}" for n in (one.propensity, one.stderr))
        propensity, stderr = cells
        click.echo(f"{one.rank:>4}  {propensity:>10}  {stderr:>8}  {one.shared_items:>12,}")
