"""`relevanced lane`: what only a person can decide about a lane. Each command is a module of its
own, `lane_*.py`."""

import click

from .lane_begin_anew import begin_anew_command


@click.group("lane")
def lane_group() -> None:
    """Help a lane that stopped and says why."""


lane_group.add_command(begin_anew_command)
