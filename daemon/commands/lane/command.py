"""The group `relevanced lane` and its subcommands."""

import click

from .accept_new_log import accept_new_log_command
from .begin_anew import begin_anew_command


@click.group("lane")
def lane_command() -> None:
    """Let lanes that have stopped continue, at an operator's decision."""


lane_command.add_command(accept_new_log_command)
lane_command.add_command(begin_anew_command)
