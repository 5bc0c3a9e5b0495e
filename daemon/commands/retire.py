"""`relevanced retire`: lets the alert rules forget an installation that is about to be removed."""

import asyncio
import os

import click

from ..config import Config, read
from ..errors import Unavailable
from ..events import timestamp_text
from ..recompute.redis_client import connected
from ..storage import Namespace, namespace
from . import options


@click.command("retire")
@options.config_option("The configuration of the installation.")
def retire_command(config_file: str | None) -> None:
    """Say that an installation is about to be removed for good.

    For an hour its exporters serve relevanced_superseded 1, as those do for which another one
    serves, and the alert rules forget it once its processes are gone. Wait a minute, until
    Prometheus has scraped that, then remove them. What Redis has of it stays until it expires.
    """
    config = read(config_file, os.environ)
    try:
        until_ms = asyncio.run(_retire(config))
    except Unavailable as error:
        raise click.ClickException(str(error)) from error
    if until_ms is None:
        raise click.ClickException(f"namespace {namespace(config)} has never had a worker")
    click.echo(
        f"namespace {namespace(config)} is retired until {timestamp_text(until_ms)}: remove its"
        " processes a minute from now or later, once Prometheus has scraped them"
    )


async def _retire(config: Config) -> int | None:
    async with connected(config) as client:
        name = namespace(config)
        return await Namespace(client, config.redis.namespace, name).retire()
