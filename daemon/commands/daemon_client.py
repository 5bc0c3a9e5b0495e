"""Asking a running daemon for an answer of its API."""

import os
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

import click
import msgspec

from ..config import read
from ..views import WINDOWS
from .healthcheck import connection, get_answer

TIMEOUT_S: Final = 10.0
DEFAULT_URL: Final = "http://localhost:9465"

T = TypeVar("T", bound=msgspec.Struct)


class Refusal(msgspec.Struct):
    """The answer to a request that cannot be answered."""

    error: str


url_option = click.option(
    "--url", help=f"Address at which the daemon serves its scores.  [default: {DEFAULT_URL}]"
)

window_option = click.option(
    "--window",
    type=click.Choice([*WINDOWS]),
    default="24h",
    show_default=True,
    help="The last hours that have settled; now: the open hour so far.",
)


@dataclass(frozen=True)
class Daemon:
    """Where a daemon answers."""

    to: HTTPConnection
    before: str = ""
    """Of each path."""
    headers: dict[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """The answer at a path, as it is. Raises click.ClickException."""
        path = self.before + path
        where = f"{self.to.host}:{self.to.port}{path}"
        try:
            status, body = get_answer(self.to, path, self.headers)
        except (OSError, HTTPException) as error:
            raise click.ClickException(f"{where}: no answer: {error}") from error
        if status != 200:
            raise click.ClickException(f"{where}: answered {status}: {_reason(body)}")
        return body

    def fetched(self, path: str, kind: type[T]) -> T:
        """The answer at a path. Raises click.ClickException."""
        try:
            return msgspec.json.decode(self.text(path), type=kind)
        except msgspec.DecodeError as error:
            where = f"{self.to.host}:{self.to.port}{self.before}{path}"
            raise click.ClickException(f"{where}: is no answer of this program: {error}") from error

    def printed(
        self,
        path: str,
        given: Mapping[str, str],
        output: str,
        kind: type[T],
        table: Callable[[T], str],
    ) -> str:
        """The answer at a path that has a table, with these parameters, as text in one of the
        formats table, json and csv. Raises click.ClickException."""
        asked = f"?{urlencode(given)}"
        if output == "table":
            text = table(self.fetched(path + asked, kind))
        else:
            text = self.text(f"{path}.csv{asked}" if output == "csv" else path + asked)
        return text.removesuffix("\n")

    def print_list(
        self,
        path: str,
        given: Mapping[str, str],
        output: str,
        kind: type[T],
        table: Callable[[T], str],
        csv: Callable[[T], str | bytes],
        more: Callable[[T], str],
    ) -> None:
        """Print the answer at a path that has a list, in one of the formats. `more` says what it
        leaves out, "" where that is nothing: CSV has no place for it, and it goes to the standard
        error. Raises click.ClickException."""
        if output != "csv":
            click.echo(self.printed(path, given, output, kind, table))
            return
        found = self.fetched(f"{path}?{urlencode(given)}", kind)
        click.echo(csv(found), nl=False)
        if left := more(found):
            click.echo(left, err=True)


def daemon_at(url: str | None, config_file: str | None) -> Daemon:
    """The daemon at a URL, or at the address that a configuration listens on. Raises
    click.UsageError where both are given, or the URL is none."""
    if url is not None and config_file is not None:
        raise click.UsageError("--url and --config: give one of them")
    if config_file is not None:
        return Daemon(connection(read(config_file, os.environ), TIMEOUT_S))
    parts = urlsplit(url or DEFAULT_URL)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError("--url: must be http://host:port or https://host:port")
    headers = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    if parts.scheme == "http":
        to = HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
    else:
        context = ssl.create_default_context()
        to = HTTPSConnection(parts.hostname, parts.port, timeout=TIMEOUT_S, context=context)
    return Daemon(to, parts.path.rstrip("/"), headers)


def _reason(body: str) -> str:
    """The reason in an answer of this program; else the answer as it is."""
    try:
        return msgspec.json.decode(body, type=Refusal).error
    except msgspec.DecodeError:
        return body
