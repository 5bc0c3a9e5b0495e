"""`relevanced map` on the command line: what recorded records come to, to write a mapping with."""

import sys

import click

from . import options


@click.command("map")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE...",
)
@options.config_option()
@options.kcat_option()
@options.topic_option()
def map_command(
    files: tuple[str, ...], config_file: str | None, kcat: bool, topic: str | None
) -> None:
    """Print what the records of FILES come to under [[sources]], as events of the native format.

    On standard error: how many events there are, and for each reason why records are refused,
    skipped or dropped, how often and the first one. Exits with 1 where there is no event.
    """
    from .map_files import map_files

    config = options.configured(config_file, {}, takes_sources=True)
    sys.exit(map_files(list(files), config, kcat=kcat, topic=topic, out=sys.stdout.buffer))
