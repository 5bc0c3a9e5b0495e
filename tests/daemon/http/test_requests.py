"""Requests that are no HTTP: a refusal as JSON, and one line of log that quotes nothing. Clients
that hang up: no line."""

import asyncio
import base64
import logging
import socket
import struct
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.daemon.http.raw_client import REQUEST, connect, exchange, parsed, serving

SECRET = "hunter2"
LOGIN = base64.b64encode(f"bob:{SECRET}".encode())
SHOWN = (SECRET, LOGIN.decode())
HEAD = b"GET /metrics HTTP/1.1\r\nHost: here\r\nAuthorization: Basic " + LOGIN + b"\r\n"
URL = f"http://bob:{SECRET}@here".encode()
MALFORMED = {
    "control character": HEAD + b"X-A: \x00\r\n\r\n",
    "header name": HEAD + b"X A: 1\r\n\r\n",
    "login in the name": b"GET / HTTP/1.1\r\nAuthorization Basic " + LOGIN + b": \x01\r\n\r\n",
    "no colon": HEAD + b"Authorization Basic " + LOGIN + b"\r\n\r\n",
    "long header": HEAD + b"Authorization: " + LOGIN * 2000 + b"\r\n\r\n",
    "long path": b"GET /?password=" + SECRET.encode() * 4000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    "many headers": HEAD + b"X: 1\r\n" * 300 + b"\r\n",
    "version": b"GET " + URL + b"/ HTTP/9.x\r\nAuthorization: Basic " + LOGIN + b"\r\n\r\n",
    "method": b"\x16\x03\x01" + LOGIN + b"\r\n\r\n",
    "second request": REQUEST + b"Authorization: Basic " + LOGIN + b"\x01\r\n\r\n",
    "port of the URL": b"GET " + URL + b":99999999/ HTTP/1.1\r\nHost: here\r\n\r\n",
    "text as port": b"GET " + URL + b":port/ HTTP/1.1\r\nHost: here\r\n\r\n",
    "bracket": b"GET http://bob:" + SECRET.encode() + b"@[::/ HTTP/1.1\r\nHost: here\r\n\r\n",
    "connect": b"CONNECT bob:" + SECRET.encode() + b"@h:x HTTP/1.1\r\nHost: here\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "length and chunks": HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
}
BAD_BODY = {
    "chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + LOGIN + b"\r\n",
    "gzip": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 14\r\n\r\nb:" + b"\x01" * 12,
}


class Log:
    """All that is logged, by this program and by libraries, as text."""

    def __init__(self, caplog: pytest.LogCaptureFixture, lines: list[Any]) -> None:
        self._caplog, self._lines = caplog, lines

    def lines(self) -> list[str]:
        records = [r for r in self._caplog.records if r.levelno >= logging.INFO]
        formatter = logging.Formatter()
        return [str(line) for line in self._lines] + [formatter.format(r) for r in records]


def check_quiet(lines: list[str], most: int = 1) -> None:
    """At most so many lines, each one line, none with a secret or a part of it."""
    text = "\n".join(lines)
    assert len(text.splitlines()) <= most, text
    assert not [secret for secret in SHOWN if secret in text], text


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=list(MALFORMED))
async def test_a_malformed_request_is_refused_as_json_and_never_quoted(
    caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    with capture_logs() as lines:
        async with serving() as server:
            answer = await exchange(server, sent)
    last = answer[answer.rindex(b"HTTP/1.") :]
    status, body = parsed(last)
    assert (status, list(body)) == (400, ["error"])
    assert body["error"] and not [secret for secret in SHOWN if secret in str(body)]
    logged = Log(caplog, lines).lines()
    check_quiet(logged)
    assert "malformed HTTP request" in logged[0] and "127.0.0.1" in logged[0]


@pytest.mark.parametrize("sent", BAD_BODY.values(), ids=list(BAD_BODY))
async def test_a_malformed_body_is_never_quoted(
    caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    with capture_logs() as lines:
        async with serving() as server:
            await exchange(server, sent)
    check_quiet(Log(caplog, lines).lines())


async def test_many_malformed_requests_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with capture_logs() as lines:
        async with serving() as server:
            for sent in MALFORMED.values():
                await exchange(server, sent)
            assert b" 200 " in await exchange(server, REQUEST.replace(b"1.1", b"1.0"))
    check_quiet(Log(caplog, lines).lines())


@pytest.mark.parametrize("path", [b"/page/main.js", b"/livez", b"/api/v1/openapi.json"])
async def test_a_client_that_hangs_up_costs_no_line(
    caplog: pytest.LogCaptureFixture, path: bytes
) -> None:
    reset = struct.pack("ii", 1, 0)  # closing the socket then resets the connection at once
    request = b"GET %s HTTP/1.1\r\nHost: here\r\nAuthorization: Basic %s\r\n\r\n" % (path, LOGIN)
    with capture_logs() as lines:
        async with serving() as server:
            for count in (1, 30):
                for pause_s in (0.0, 0.0, 0.001, 0.003, 0.01):
                    _, writer = await connect(server, request * count)
                    raw = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    await asyncio.sleep(pause_s)
                    writer.transport.abort()
            await asyncio.sleep(0.1)
    check_quiet(Log(caplog, lines).lines(), most=0)
