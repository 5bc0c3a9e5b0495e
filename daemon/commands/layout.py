"""`relevanced layout`: shows which layout is in force in a namespace, or puts one in force.

And what becomes of each column when a namespace goes to another layout, in words, and whether a
roll-out in place would end what serves.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import click

from ..config import Config, layout_of, read
from ..errors import Unavailable
from ..lane import has_same_queries, optional_rows_go_on
from ..plan import BY_JUDGEMENTS, Plan
from ..recompute.redis_client import connected
from ..storage import LayoutRegistry, Namespace, namespace
from . import options

T = TypeVar("T")


@click.group("layout")
def layout_command() -> None:
    """Show which layout is in force in a namespace, or put one in force.

    The layout is what is counted: metrics, groupings, windows, experiments, propensities, derived
    attributes, history. All workers of a namespace work under the same one, whatever their own
    files say.
    """


@layout_command.command("show")
@options.config_option("The configuration of the namespace.")
def show_command(config_file: str | None) -> None:
    """Print every layout that was in force, and which one of them FILE has."""
    config = read(config_file, os.environ)
    own, found = layout_of(config), _with_registry(config, lambda registry: registry.history())
    click.echo(f"namespace {namespace(config)}")
    for one in found:
        marks = [" in force"] * (one is found[-1]) + [" this file"] * (one.digest == own.digest)
        click.echo(f"generation {one.number}: {one.digest}{','.join(marks)}")
    if not found:
        click.echo("no worker has proposed a layout yet")
    if own.digest not in {one.digest for one in found}:
        click.echo(f"this file: {own.digest}, was never in force")


@layout_command.command("use")
@options.config_option("The configuration with the layout.")
def use_command(config_file: str | None) -> None:
    """Put the layout of FILE in force now.

    For a rollback that must not wait: without this, the layout of an earlier configuration is in
    force again a minute after the last worker of the later one has ended. Workers follow within
    seconds. While workers with another new layout start, that one comes into force.
    """
    config = read(config_file, os.environ)
    own = layout_of(config)
    used = _with_registry(config, lambda registry: registry.use(own.digest, own.text))
    click.echo(f"namespace {namespace(config)}: generation {used.number}, {used.digest}, in force")


def _with_registry(config: Config, act: Callable[[LayoutRegistry], Awaitable[T]]) -> T:
    async def run() -> T:
        async with connected(config) as client:
            return await act(LayoutRegistry(client, namespace(config)))

    try:
        return asyncio.run(run())
    except Unavailable as error:
        raise click.ClickException(str(error)) from error


BACKFILL = "once it is deployed, `relevanced backfill --kafka` counts what Kafka has of them"
BEGINS = "begins with the next impressions"
ANEW = "begin anew with the next whole hour"


def layout_changes(old: Plan, new: Plan) -> Iterator[str]:
    """A line for each metric, grouping and window that stays, begins or ends; none where both plans
    have the same."""
    yield from _metrics(old, new)
    yield from _named("grouping", old.grouping_names[1:], new.grouping_names[1:], BEGINS)
    yield from _derived(old, new)
    before, after = ([window.name for window in plan.timing.windows] for plan in (old, new))
    made = "is made of the panes of other windows as far as they reach, and shown once it is whole"
    yield from _named("window", before, after, made)
    yield from _judged(old, new)
    yield from _queries(old, new)
    yield from _history(old.history_hours, new.history_hours)
    begins = set(new.column_ids) - set(old.column_ids)
    begins |= set(new.grouping_ids) - set(old.grouping_ids)
    if new.history_hours and (begins or not old.history_hours):
        yield f"earlier hours of what begins: {BACKFILL}"


def _metrics(old: Plan, new: Plan) -> Iterator[str]:
    if old.column_ids == new.column_ids:
        return
    known = dict(zip(old.column_ids, old.metrics, strict=True))
    kept = [m.name for i, m in zip(new.column_ids, new.metrics, strict=True) if i in known]
    yield from _kept("metrics", kept)
    for id_, metric in zip(new.column_ids, new.metrics, strict=True):
        if id_ in known:
            continue
        if metric.needs == "impression":
            yield (
                f"metric {metric.name}: is computed for every pane that is open, and shown in a"
                " window once all of it has it"
            )
        else:
            yield f"metric {metric.name}: {BEGINS}"
    names = {metric.name for metric in new.metrics}
    for id_, metric in known.items():
        if id_ not in new.column_ids:
            anew = " as it was" if metric.name in names else ""
            yield f"metric {metric.name}: is lost{anew}; if it comes back, it begins anew"


def _named(kind: str, old: Sequence[str], new: Sequence[str], begins: str) -> Iterator[str]:
    if set(old) == set(new):
        return
    yield from _kept(f"{kind}s", [name for name in new if name in old])
    for name in new:
        if name not in old:
            yield f"{kind} {name}: {begins}"
    for name in old:
        if name not in new:
            yield f"{kind} {name}: is lost; if it comes back, it begins anew"


def _derived(old: Plan, new: Plan) -> Iterator[str]:
    before = dict(zip(old.grouping_names, old.grouping_ids, strict=True))
    for name, id_ in zip(new.grouping_names, new.grouping_ids, strict=True):
        if before.get(name, id_) != id_:
            yield f"grouping {name}: begins anew, as it is derived by another rule"


def _kept(kind: str, names: Iterable[str]) -> Iterator[str]:
    if listed := ", ".join(names):
        yield f"{kind} {listed}: kept"


def _judged(old: Plan, new: Plan) -> Iterator[str]:
    if old.judged is None or new.judged is None:
        return
    if not optional_rows_go_on(BY_JUDGEMENTS, old, new):
        yield f"judged metrics: all {ANEW}, and their hours are removed"


def _queries(old: Plan, new: Plan) -> Iterator[str]:
    if old.queries is None or new.queries is None or has_same_queries(old, new):
        return
    yield f"tables of queries: {ANEW}"


def _history(old: int, new: int) -> Iterator[str]:
    if not new and old:
        yield "hours: all are removed, and with them the baselines"
    elif new and not old:
        yield "hours: begin with the next whole hour"
    elif new < old:
        yield f"hours: those that are older than {new // 24} days are removed"
    elif new > old:
        yield f"hours: kept for {new // 24} days from now on"


def in_place_refusal(config: Config) -> str:
    """Why workers of this configuration must not replace those that run, and the way to go; ""
    where they may. Raises Unavailable."""
    predecessor = asyncio.run(_predecessor(config))
    if predecessor is None:
        return ""
    return (
        f"the workers of {predecessor} serve, and this configuration starts the fresh namespace"
        f" {namespace(config)}: in place, they would end before it has caught up. Install it beside"
        " them, with the same redis.namespace (a second release, project or unit); it takes over"
        " once it has caught up; then remove the former one. To accept the gap instead: with Helm,"
        " upgradeCheck.enabled=false"
    )


async def _predecessor(config: Config) -> str | None:
    async with connected(config) as client:
        topics = config.kafka.topics
        own = Namespace(client, config.redis.namespace, namespace(config), topics)
        return (await own.term()).predecessor
