"""The command line: names, options and help of every command. What they do is loaded when they run.

Exit codes: 0, 1 failure, 2 bad usage or configuration (every fault listed).
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from ..config.kinds import ConfigError
from . import options

USAGE_EXIT: Final = 2

LAZY_COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "eval": (
        "relevanced.daemon.commands.evaluation.command:eval_command",
        "Score TREC run files against judgements, offline.",
    ),
    "simulate": (
        "relevanced.daemon.commands.simulate.command:simulate_command",
        "Produce simulated search traffic to a topic or a file.",
    ),
    "check-config": (
        "relevanced.daemon.commands.check_config:check_config_command",
        "Say every fault of a configuration, or what it comes to.",
    ),
    "report": (
        "relevanced.daemon.commands.report:report_command",
        "Say what an experiment has shown so far.",
    ),
    "propensities": (
        "relevanced.daemon.commands.report:propensities_command",
        "Estimate how likely each rank is looked at, from recorded events.",
    ),
    "healthcheck": (
        "relevanced.daemon.commands.healthcheck:healthcheck_command",
        "Ask the daemon that runs here how it is.",
    ),
}
"""Command → (module:name, what the list of commands says of it)"""

ORDER: Final = (
    "run",
    "demo",
    "replay",
    "report",
    "eval",
    "propensities",
    "simulate",
    "check-config",
    "healthcheck",
)


class LazyGroup(click.Group):
    """Loads a command's module when the command is used, and tells configuration faults."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a user meets them."""
        return list(ORDER)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None where there is none of that name."""
        if cmd_name not in LAZY_COMMANDS:
            return super().get_command(ctx, cmd_name)
        command: click.Command = options.load(LAZY_COMMANDS[cmd_name][0])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without loading any."""
        lines = {name: text for name, (_, text) in LAZY_COMMANDS.items()}
        lines |= {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, lines[name]) for name in ORDER])

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; configuration faults end it with all of them on the error stream."""
        try:
            return super().invoke(ctx)
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
@click.option(
    "--role",
    type=click.Choice(["all", "worker", "exporter"]),
    default="all",
    show_default=True,
    help="worker: reads Kafka and serves no scores. exporter: serves scores and reads no Kafka.",
)
def run(config_file: str | None, role: str) -> None:
    """Run the daemon: Kafka in, Redis state, Prometheus out."""
    config = _configured(config_file, {})
    sys.exit(options.load("relevanced.daemon.commands.app:run")(config, role))


@cli.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=9465,
    show_default=True,
    help="Where the page and the scores are served.",
)
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same users.")
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Events a second.",
)
@click.option(
    "--regression-after",
    type=options.duration,
    default="20s",
    show_default=True,
    help="When the ranking of one country gets worse.",
)
@click.option(
    "--duration", type=options.duration, help="End by itself.  [default: until interrupted]"
)
def demo(port: int, seed: int, rate: int, regression_after: int, duration: int | None) -> None:
    """See it all on simulated traffic, with nothing else installed."""
    options.load("relevanced.daemon.telemetry.logs:configure")("warning", "auto", sys.stderr)
    code = options.load("relevanced.daemon.commands.demo.run:demo")(
        port=port,
        seed=seed,
        rate=rate,
        regression_after_s=regression_after // 1000,
        max_seconds=None if duration is None else duration // 1000,
    )
    sys.exit(code)


@cli.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE...",
)
@options.config_option()
@click.option("--format", "format_name", help="Format of the events.  [default: as configured]")
@options.output_option("How the scores are printed.", "table", "json", "csv")
@click.option("--experiment", help="Print what this experiment shows instead of the scores.")
@click.option("--as-is", is_flag=True, help="Take the order of the files, as a live stream would.")
def replay(
    files: tuple[str, ...],
    config_file: str | None,
    format_name: str | None,
    output: str,
    experiment: str | None,
    as_is: bool,
) -> None:
    """Score recorded events with the daemon's own pipeline."""
    overrides = {} if format_name is None else {"RELEVANCED_EVENTS__FORMAT": format_name}
    config = _configured(config_file, overrides)
    code = options.load("relevanced.daemon.commands.replay:replay")(
        list(files),
        config,
        output,
        experiment=experiment,
        as_is=as_is,
        progress=sys.stderr.isatty(),
    )
    sys.exit(code)


def main() -> None:
    """The `relevanced` command."""
    cli(prog_name="relevanced")


def _configured(config_file: str | None, overrides: Mapping[str, str]) -> Any:
    """The configuration, with the log set up by it. Raises ConfigError."""
    config = options.load("relevanced.daemon.config.loading:read")(
        config_file, {**os.environ, **overrides}
    )
    options.load("relevanced.daemon.telemetry.logs:configure")(
        config.log.level, config.log.format, sys.stderr
    )
    return config
