"""The command line: names, options and help of every command.

A command imports what it needs when it is called, not with this module: `--help` and shell
completion answer without loading numpy, aiokafka, redis or aiohttp.

Exit codes: 0, 1 failure, 2 bad usage or configuration (every fault listed).
"""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ..config.kinds import ConfigError
from . import options

if TYPE_CHECKING:
    from ..http.api.health import Role

USAGE_EXIT: Final = 2


def _eval() -> click.Command:
    from .evaluation.command import eval_command

    return eval_command


def _simulate() -> click.Command:
    from .simulate.command import simulate_command

    return simulate_command


def _check_config() -> click.Command:
    from .check_config import check_config_command

    return check_config_command


def _plan() -> click.Command:
    from .plan_experiment import plan_command

    return plan_command


def _metrics() -> click.Command:
    from .list_metrics import metrics_command

    return metrics_command


def _settings() -> click.Command:
    from .list_settings import settings_command

    return settings_command


def _report() -> click.Command:
    from .report import report_command

    return report_command


def _propensities() -> click.Command:
    from .propensities import propensities_command

    return propensities_command


def _lane() -> click.Command:
    from .lane.command import lane_command

    return lane_command


def _layout() -> click.Command:
    from .layout_command import layout_command

    return layout_command


def _replay() -> click.Command:
    from .replay_command import replay_command

    return replay_command


def _map() -> click.Command:
    from .map_command import map_command

    return map_command


def _doctor() -> click.Command:
    from .doctor.command import doctor_command

    return doctor_command


def _verify() -> click.Command:
    from .verify.command import verify_command

    return verify_command


def _backfill() -> click.Command:
    from .backfill.command import backfill_command

    return backfill_command


def _queries() -> click.Command:
    from .queries_command import queries_command

    return queries_command


def _judgements() -> click.Command:
    from .judgements.command import judgements_command

    return judgements_command


def _classes() -> click.Command:
    from .judgements.classes_command import classes_command

    return classes_command


def _healthcheck() -> click.Command:
    from .healthcheck import healthcheck_command

    return healthcheck_command


LAZY_COMMANDS: Final[Mapping[str, tuple[Callable[[], click.Command], str]]] = {
    "eval": (_eval, "Score TREC run files against judgements, offline."),
    "replay": (_replay, "Score recorded events with the daemon's own pipeline."),
    "doctor": (_doctor, "Look at topics, say what they come to, and propose a configuration."),
    "map": (_map, "Print what records of [[sources]] come to, as native events."),
    "simulate": (_simulate, "Produce simulated search traffic to a topic or a file."),
    "check-config": (
        _check_config,
        "List every fault of a configuration, or its effective values.",
    ),
    "metrics": (_metrics, "List the metrics that can be named, or explain some of them."),
    "settings": (_settings, "List every setting as commented TOML."),
    "plan": (_plan, "Say how long an experiment takes until it detects a change."),
    "report": (_report, "Print what an experiment has shown so far."),
    "queries": (_queries, "Print which queries are frequent, bad, or worse than usual."),
    "judgements": (_judgements, "Check files of judgements, put them in place, list gaps."),
    "classes": (_classes, "Check files of classes of queries, and put them in place."),
    "propensities": (
        _propensities,
        "Estimate how likely each rank is looked at, from recorded events.",
    ),
    "lane": (_lane, "Let lanes that have stopped continue, at an operator's decision."),
    "layout": (_layout, "Show which layout is in force, or put one in force."),
    "verify": (_verify, "Prove the numbers in Redis from the records in Kafka."),
    "backfill": (_backfill, "Fill the hours that the lanes do not have, from Kafka or files."),
    "healthcheck": (_healthcheck, "Ask the daemon on this machine for its health."),
}
"""Command → (what loads it, its line in the list of commands)."""

ORDER: Final = (
    "run",
    "demo",
    "replay",
    "doctor",
    "map",
    "plan",
    "report",
    "queries",
    "eval",
    "judgements",
    "classes",
    "propensities",
    "simulate",
    "metrics",
    "settings",
    "check-config",
    "lane",
    "layout",
    "verify",
    "backfill",
    "healthcheck",
)


class LazyGroup(click.Group):
    """Loads a command's module when the command is used, and prints configuration faults."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order in which a user needs them."""
        return list(ORDER)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None where there is none of that name."""
        if cmd_name not in LAZY_COMMANDS:
            return super().get_command(ctx, cmd_name)
        load, _ = LAZY_COMMANDS[cmd_name]
        return load()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without loading any."""
        lines = {name: text for name, (_, text) in LAZY_COMMANDS.items()}
        lines |= {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, lines[name]) for name in ORDER])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a faulty configuration ends it with every fault on the error stream."""
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
def run(config_file: str | None, role: "Role") -> None:
    """Run the daemon: Kafka in, Redis state, Prometheus out."""
    from .run_daemon import run as run_daemon

    sys.exit(run_daemon(options.configured(config_file, {}, takes_sources=True), role))


@cli.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=9465,
    show_default=True,
    help="Port at which the web page and the scores are served.",
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
    help="Time until the ranking of one country gets worse.",
)
@click.option(
    "--duration",
    type=options.duration,
    help="How long the demo runs.  [default: until interrupted]",
)
def demo(port: int, seed: int, rate: int, regression_after: int, duration: int | None) -> None:
    """Try it all on simulated traffic, with nothing else installed."""
    from ..telemetry import logs
    from .demo.run import demo as run_demo

    logs.configure("warning", "auto", sys.stderr)
    code = run_demo(
        port=port,
        seed=seed,
        rate=rate,
        regression_after_s=regression_after // 1000,
        max_seconds=None if duration is None else duration // 1000,
    )
    sys.exit(code)


def main() -> None:
    """The `relevanced` command."""
    cli(prog_name="relevanced")
