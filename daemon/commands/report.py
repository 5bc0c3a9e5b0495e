"""`relevanced report`: what a running daemon reports of one experiment."""

import os
import ssl
from base64 import b64encode
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import click
import msgspec

from ..config.loading import read
from ..experiments.report import render_days
from ..experiments.types import Findings, OverTime
from . import options
from .experiment_report import UnknownExperiment, experiment_report, finding_of, with_days
from .healthcheck import answer, connection

PATH: Final = "/api/v1/experiments"
TIMEOUT_S: Final = 10.0
DEFAULT_URL: Final = "http://localhost:9465"


class Refusal(msgspec.Struct):
    """The answer to a request that cannot be answered."""

    error: str


T = TypeVar("T", bound=msgspec.Struct)


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
    if url is not None and config_file is not None:
        raise click.UsageError("--url and --config: give one of them")
    to, path, headers = _connection(url or DEFAULT_URL)
    if config_file is not None:
        to, path, headers = connection(read(config_file, os.environ), TIMEOUT_S), PATH, {}
    findings = _fetched(to, path, headers, Findings)
    try:
        finding_of(findings, experiment)
    except UnknownExperiment as error:
        raise click.ClickException(str(error)) from error
    if by_day or excluded:
        days = _fetched(to, path + _of_days(experiment, excluded), headers, OverTime)
        findings = with_days(findings, experiment, days.days)
    if excluded:
        click.echo(render_days(days, output), nl=False)
    else:
        click.echo(experiment_report(findings, experiment, output), nl=False)


def _of_days(experiment: str, excluded: Sequence[str]) -> str:
    query = urlencode([("exclude", stretch) for stretch in excluded])
    return f"/{quote(experiment, safe='')}/over-time{'?' * bool(query)}{query}"


def _connection(url: str) -> tuple[HTTPConnection, str, dict[str, str]]:
    """A connection to the URL's host, the path there, and headers with the URL's password."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError("--url: must be http://host:port or https://host:port")
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    path = parts.path.rstrip("/") + PATH
    if parts.scheme == "http":
        return HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S), path, headers
    context = ssl.create_default_context()
    to = HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=context)
    return to, path, headers


def _reason(body: str) -> str:
    """The reason in an answer of this program; else the answer as it is."""
    try:
        return msgspec.json.decode(body, type=Refusal).error
    except msgspec.DecodeError:
        return body


def _fetched(to: HTTPConnection, path: str, headers: dict[str, str], kind: type[T]) -> T:
    where = f"{to.host}:{to.port}{path}"
    try:
        status, body = answer(to, path, headers)
    except (OSError, HTTPException) as error:
        raise click.ClickException(f"{where}: no answer: {error}") from error
    if status != 200:
        raise click.ClickException(f"{where}: answered {status}: {_reason(body)}")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise click.ClickException(f"{where}: is no answer of this program: {error}") from error
