"""`relevanced report`: what a running daemon says of one experiment; `relevanced propensities`."""

import os
import ssl
import sys
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import unquote, urlsplit

import click
import msgspec

from ..config.loading import read
from ..experiments.report import told_of
from ..experiments.types import Findings
from . import options
from .healthcheck import answer, connection
from .propensities import Asked, as_toml, estimate, ranks_of

PATH: Final = "/api/v1/experiments"
TIMEOUT_S: Final = 10.0
DEFAULT_URL: Final = "http://localhost:9465"


@click.command("report")
@click.argument("experiment")
@click.option("--url", help=f"Where the daemon serves its scores.  [default: {DEFAULT_URL}]")
@options.config_option("Ask at the address of this configuration's http.listen instead.", None)
@options.output_option("How the report is printed.", "table", "json")
def report_command(experiment: str, url: str | None, config_file: str | None, output: str) -> None:
    """Say what EXPERIMENT has shown so far: warnings, differences with intervals, a verdict.

    May be asked at any time and as often as one likes: the intervals hold at every look together.
    """
    if url is not None and config_file is not None:
        raise click.UsageError("--url and --config: give one of them")
    to, path, headers = _connection(url or DEFAULT_URL)
    if config_file is not None:
        to, path, headers = connection(read(config_file, os.environ), TIMEOUT_S), PATH, {}
    click.echo(told(_asked(to, path, headers), experiment, output), nl=False)


def told(findings: Findings, experiment: str, output: str) -> str:
    """The report of one of the experiments. Raises ClickException where it is not among them."""
    named = [one for one in findings.experiments if one.experiment == experiment]
    if not named:
        known = ", ".join(one.experiment for one in findings.experiments) or "none"
        raise click.ClickException(f"{experiment}: no experiment of this name; known: {known}")
    return told_of(named[0], findings.as_of, output)


def _connection(url: str) -> tuple[HTTPConnection, str, dict[str, str]]:
    """To whom, the path there, and the password that the URL holds."""
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


def _asked(to: HTTPConnection, path: str, headers: dict[str, str]) -> Findings:
    where = f"{to.host}:{to.port}{path}"
    try:
        status, body = answer(to, path, headers)
    except (OSError, HTTPException) as error:
        raise click.ClickException(f"{where}: no answer: {error}") from error
    if status != 200:
        raise click.ClickException(f"{where}: answered {status}: {body}")
    try:
        return msgspec.json.decode(body, type=Findings)
    except msgspec.DecodeError as error:
        raise click.ClickException(f"{where}: is no answer of this program: {error}") from error


@click.command("propensities")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE...",
)
@options.config_option(
    "Configuration: the events' format, which kinds of feedback count, and for how long."
)
@click.option(
    "--depth",
    type=click.IntRange(2, 100),
    default=10,
    show_default=True,
    help="Ranks that are estimated.",
)
@click.option(
    "--surface",
    metavar="ATTRIBUTE=VALUE",
    help="Look only at impressions that were shown there, as device=ios.",
)
@options.output_option(
    "How the table is printed; toml: for a configuration.", "table", "json", "toml"
)
def propensities_command(
    files: tuple[str, ...], config_file: str | None, depth: int, surface: str | None, output: str
) -> None:
    """Estimate how likely each rank is looked at, relative to the first, from recorded events.

    Needs several rankings of the same queries, as experiments make them: only items that were shown
    at different ranks for the same query tell anything.
    """
    config = read(config_file, os.environ)
    attribute, equals, value = (surface or "").partition("=")
    if surface is not None and not (attribute and value):
        raise click.BadParameter("must be ATTRIBUTE=VALUE", param_hint="--surface")
    asked = Asked(depth, (attribute, value) if equals else None)
    try:
        found = estimate(files, config, asked, progress=sys.stderr.isatty())
    except OSError as error:
        raise click.ClickException(f"{error.filename}: cannot be read: {error.strerror}") from error
    ranks = ranks_of(found.harvest)
    if output == "toml":
        click.echo(as_toml(found, asked), nl=False)
        return
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(ranks)))
        return
    click.echo(f"{'rank':>4}  {'propensity':>10}  {'± error':>8}  {'shared items':>12}")
    for one in ranks:
        cells = ("" if n is None else f"{n:.4f}" for n in (one.propensity, one.stderr))
        propensity, stderr = cells
        click.echo(f"{one.rank:>4}  {propensity:>10}  {stderr:>8}  {one.shared_items:>12,}")
