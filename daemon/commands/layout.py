"""`relevanced layout`: shows which layout is in force in a namespace, or puts one in force."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from ..config import Config, layout_of, read
from ..errors import Unavailable
from ..recompute.clients import connected
from ..storage import LayoutRegistry, namespace
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
