"""`relevanced healthcheck`: asks the daemon of a configuration, on this machine, for its health.

For the health check of a container, which may have no HTTP client.
"""

import os
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import MappingProxyType
from typing import Final

import click

from ..config import Config, read, read_file
from ..http import parse
from . import options

ANY_ADDRESS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""Address that listens on all interfaces → address of this machine."""


@click.command("healthcheck")
@options.config_option("The configuration that the process runs with.")
@click.option(
    "--ready", is_flag=True, help="Ask whether it is ready, not only whether it is alive."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    help="Seconds to wait for the answer.",
)
def healthcheck_command(config_file: str | None, ready: bool, timeout_s: float) -> None:
    """Ask the running daemon for its health; exits 0 where it is healthy, 1 where not.

    Reads /livez, or /readyz with --ready, at the address of the configuration's http.listen.
    """
    config = read(config_file, os.environ)
    path = "/readyz" if ready else "/livez"
    try:
        status, body = get_answer(connection(config, timeout_s), path)
    except (OSError, HTTPException) as error:
        raise click.ClickException(f"{config.http.listen}{path}: no answer: {error}") from error
    click.echo(body)
    raise SystemExit(0 if status == 200 else 1)


def connection(config: Config, timeout_s: float) -> HTTPConnection:
    """A connection to the process that listens as configured, with TLS where its web configuration
    has it."""
    host, port = ANY_ADDRESS.get(config.http.host, config.http.host), config.http.port
    web_config = config.http.web_config
    if web_config is None or parse(read_file(web_config)).tls is None:
        return HTTPConnection(host, port, timeout=timeout_s)
    context = ssl.create_default_context()
    # Not verified: the certificate is for the public name, not this address, and no secret is sent.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=timeout_s, context=context)


def get_answer(
    to: HTTPConnection, path: str, headers: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """Send a GET request; returns the status and the body. Raises OSError or HTTPException."""
    try:
        to.request("GET", path, headers=dict(headers))
        response = to.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        to.close()
