"""The command line: names, options and help of every command.

A command imports what it needs when it is called, not with this module: `--help` and shell
completion answer without loading numpy, aiokafka, redis or aiohttp.

Exit codes: 0, 1 failure, 2 bad usage or configuration (every fault listed); as shells give them,
130 after Ctrl-C and 141 where the reader of the output, such as `head`, has enough. Both say
nothing.
"""

import os
import signal
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import click

from ..errors import ConfigError
from ..extras import way_out
from . import options

if TYPE_CHECKING:
    from ..http import Role

USAGE_EXIT: Final = 2
INTERRUPTED_EXIT: Final = 130
CLOSED_PIPE_EXIT: Final = 141
INTERRUPT_AGAIN_S: Final = 0.05


LAZY_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": (
        "..tools.demo:demo_command",
        "Try it all on simulated traffic, with nothing else installed.",
    ),
    "replay": (
        ".replay:replay_command",
        "Score recorded events with the daemon's own pipeline.",
    ),
    "doctor": (
        "..tools.doctor:doctor_command",
        "Look at topics, say what they come to, and propose a configuration.",
    ),
    "map": (
        "..tools.map:map_command",
        "Print what records of [[sources]] come to, as native events.",
    ),
    "plan": (
        "..tools.plan:plan_command",
        "Say how long an experiment takes until it detects a change.",
    ),
    "report": (".report:report_command", "Print what an experiment has shown so far."),
    "queries": (
        ".queries:queries_command",
        "Print which queries are frequent, bad, or worse than usual.",
    ),
    "eval": (
        "..tools.evaluate:eval_command",
        "Score TREC run files against judgements, offline.",
    ),
    "judgements": (
        ".judgements:judgements_command",
        "Check files of judgements, put them in place, list gaps.",
    ),
    "classes": (
        ".classes:classes_command",
        "Check files of classes of queries, and put them in place.",
    ),
    "propensities": (
        "..tools.propensities:propensities_command",
        "Estimate how likely each rank is looked at, from recorded events.",
    ),
    "simulate": (
        "..tools.simulate:simulate_command",
        "Produce simulated search traffic to a topic or a file.",
    ),
    "metrics": (
        "..tools.list_metrics:metrics_command",
        "List the metrics that can be named, or explain some of them.",
    ),
    "settings": ("..tools.list_settings:settings_command", "List every setting as commented TOML."),
    "check-config": (
        ".check_config:check_config_command",
        "List every fault of a configuration, or its effective values.",
    ),
    "lane": (
        ".lane:lane_command",
        "Let lanes that have stopped continue, at an operator's decision.",
    ),
    "layout": (
        ".layout:layout_command",
        "Show which layout is in force, or put one in force.",
    ),
    "retire": (
        ".retire:retire_command",
        "Let the alert rules forget what is about to be removed.",
    ),
    "verify": (
        ".verify:verify_command",
        "Prove the numbers in Redis from the records in Kafka.",
    ),
    "backfill": (
        ".backfill:backfill_command",
        "Fill the hours that the lanes do not have, from Kafka or files.",
    ),
    "password": (
        ".password:password_command",
        "Print the hash of a password for http.web_config.",
    ),
    "healthcheck": (
        ".healthcheck:healthcheck_command",
        "Ask the daemon on this machine for its health.",
    ),
}
"""Command → (where it is, its line in the list of commands), in the order in which a user needs
them; `run` comes first."""
ORDER: Final = ("run", *LAZY_COMMANDS)


class LazyGroup(click.Group):
    """Loads a command's module when the command is used, and prints configuration faults."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order in which a user needs them."""
        return list(ORDER)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None where there is none of that name."""
        if cmd_name not in LAZY_COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = LAZY_COMMANDS[cmd_name][0].partition(":")
        return cast(click.Command, getattr(import_module(module, __package__), name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without loading any."""
        lines = {name: text for name, (_, text) in LAZY_COMMANDS.items()}
        lines |= {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, lines[name]) for name in ORDER])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a faulty configuration ends it with every fault on the error stream, and
        what the installation lacks with the way out."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED_EXIT)
        except BrokenPipeError:
            ctx.exit(CLOSED_PIPE_EXIT)
        except (ImportError, OSError) as error:
            said = way_out(error)
            if said is None:
                raise
            click.echo(f"Error: {said}", err=True)
            ctx.exit(1)
        except ConfigError as error:
            for fault in error.faults:
                click.echo(fault, err=True)
            ctx.exit(USAGE_EXIT)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="relevanced")
def cli() -> None:
    """Watches live search and says, minute by minute, whether results got better or worse."""


@cli.command()
@options.config_option()
@options.role_option(
    "worker: reads Kafka and serves no scores. exporter: serves scores and reads no Kafka."
)
def run(config_file: str | None, role: "Role") -> None:
    """Run the daemon: Kafka in, Redis state, Prometheus out."""
    from .run import run as run_daemon

    config = options.configured(config_file, {}, takes_sources=True, role=role)
    sys.exit(run_daemon(config, role))


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Where an interrupt comes while Python runs a finalizer or a callback, such as one of an
    import, it is printed and forgotten, and the command would go on: it is sent once more."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        again = threading.Timer(INTERRUPT_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True  # a command that ends by itself does not wait for it
        again.start()
    else:
        sys.__unraisablehook__(unraisable)


def main() -> None:
    """The `relevanced` command."""
    sys.unraisablehook = _interrupt_again
    try:
        try:
            cli(prog_name="relevanced")
        finally:
            print(end="", flush=True)
    except BrokenPipeError:
        # What is still buffered goes nowhere: Python would complain of it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CLOSED_PIPE_EXIT)
