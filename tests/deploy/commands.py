"""Commands and HTTP paths of the program, to check the files that name them."""

from collections.abc import Sequence

import click

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.http import HttpServer
from relevanced.daemon.telemetry import Telemetry


def parsed(words: Sequence[str]) -> click.Context:
    """The context of a command line without the program's name. Raises ClickException."""
    with click.Context(cli, info_name="relevanced") as context:
        command = cli.get_command(context, words[0])
        if command is None:
            raise click.UsageError(f"there is no command {words[0]}")
        return command.make_context(words[0], list(words[1:]), parent=context)


def served_paths() -> set[str]:
    """Every path that the HTTP server serves."""
    application = HttpServer(Telemetry("0"), "all")._application(None)
    return {route.resource.canonical for route in application.router.routes() if route.resource}
