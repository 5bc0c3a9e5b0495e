"""`relevanced report`: what a running daemon reports of one experiment."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

import click

from ..experiments import Findings, OverTime, render_days
from ..recompute.replay_report import UnknownExperiment, experiment_report, finding_of, with_days
from . import options
from .daemon_client import DEFAULT_URL, daemon_at

PATH: Final = "/api/v1/experiments"


@click.command("report")
@click.argument("experiment")
@click.option(
    "--url", help=f"Address at which the daemon serves its scores.  [default: {DEFAULT_URL}]"
)
@options.config_option("Ask at the address of this configuration's http.listen instead.", None)
@click.option("--by-day", is_flag=True, help="Print the effect on each day (UTC) too.")
@click.option(
    "--exclude",
    "excluded",
    metavar="FROM/TO",
    multiple=True,
    help="Print the effect by day alone, without these days (UTC), such as 2026-11-20/2026-11-21:"
    " for a cause outside of the outcome, such as an outage. May be given several times.",
)
@options.output_option("How the report is printed.", "table", "json")
def report_command(
    experiment: str,
    url: str | None,
    config_file: str | None,
    by_day: bool,
    excluded: tuple[str, ...],
    output: str,
) -> None:
    """Print what EXPERIMENT has shown so far: warnings, differences with intervals, verdicts.

    May be run at any time and as often as you like: the intervals are valid at all looks together.
    """
    daemon = daemon_at(url, config_file)
    findings = daemon.fetched(PATH, Findings)
    try:
        finding_of(findings, experiment)
    except UnknownExperiment as error:
        raise click.ClickException(str(error)) from error
    if by_day or excluded:
        days = daemon.fetched(PATH + _of_days(experiment, excluded), OverTime)
        findings = with_days(findings, experiment, days.days)
    if excluded:
        click.echo(render_days(days, output), nl=False)
    else:
        click.echo(experiment_report(findings, experiment, output), nl=False)


def _of_days(experiment: str, excluded: Sequence[str]) -> str:
    query = urlencode([("exclude", stretch) for stretch in excluded])
    return f"/{quote(experiment, safe='')}/over-time{'?' * bool(query)}{query}"
