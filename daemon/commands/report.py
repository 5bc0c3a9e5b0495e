"""`relevanced report`: what a running daemon reports of one experiment."""

import os
import ssl
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import unquote, urlsplit

import click
import msgspec

from ..config.loading import read
from ..experiments.types import Findings
from . import options
from .experiment_report import UnknownExperiment, experiment_report
from .healthcheck import answer, connection

PATH: Final = "/api/v1/experiments"
TIMEOUT_S: Final = 10.0
DEFAULT_URL: Final = "http://localhost:9465"


@click.command("report")
@click.argument("experiment")
@click.option(
    "--url", help=f"Address at which the daemon serves its scores.  [default: {DEFAULT_URL}]"
)
@options.config_option("Ask at the address of this configuration's http.listen instead.", None)
@options.output_option("How the report is printed.", "table", "json")
def report_command(experiment: str, url: str | None, config_file: str | None, output: str) -> None:
    """Print what EXPERIMENT has shown so far: warnings, differences with intervals, verdicts.

    May be run at any time and as often as you like: the intervals are valid at all looks together.
    """
    if url is not None and config_file is not None:
        raise click.UsageError("--url and --config: give one of them")
    to, path, headers = _connection(url or DEFAULT_URL)
    if config_file is not None:
        to, path, headers = connection(read(config_file, os.environ), TIMEOUT_S), PATH, {}
    findings = _fetched(to, path, headers)
    try:
        click.echo(experiment_report(findings, experiment, output), nl=False)
    except UnknownExperiment as error:
        raise click.ClickException(str(error)) from error


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


def _fetched(to: HTTPConnection, path: str, headers: dict[str, str]) -> Findings:
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
