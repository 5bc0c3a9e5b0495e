"""`relevanced lane begin-anew`: lets a damaged lane begin with what Kafka still has."""

import asyncio
import os

import click

from ...config.loading import Config, read
from ...errors import Unavailable
from ...storage.redis.registry import PERMISSION_S, Registry
from ...storage.schema import namespace
from .. import options
from ..redis_client import connected


@click.command("begin-anew")
@click.argument("lane", type=click.IntRange(min=0))
@options.config_option("The configuration that the workers run with.")
def begin_anew_command(lane: int, config_file: str | None) -> None:
    """Let the damaged LANE begin anew from the earliest records that Kafka has.

    A lane of which Redis lost parts stops where Kafka no longer has all of its records. With this,
    its worker removes what is left of it at the next try, within a minute, and reads the log again;
    records that Kafka has deleted are counted as a gap. A lane that is not damaged stays as it is.
    """
    config = read(config_file, os.environ)
    try:
        asyncio.run(_permit(config, lane))
    except Unavailable as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"lane {lane} of {namespace(config)} may begin anew within {PERMISSION_S // 60} minutes,"
        " if its worker finds it damaged; a stopped lane is tried once a minute"
    )


async def _permit(config: Config, lane: int) -> None:
    async with connected(config) as client:
        await Registry(client, namespace(config)).permit_to_begin_anew(lane)
