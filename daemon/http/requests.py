"""Reads the requests of one connection. What is refused here never reached a password check.

aiohttp logs a traceback for whatever it cannot parse, and quotes it: a malformed request would put
its Authorization header, or the password of its URL, into the log. Anybody who can connect could
also fill the log. So this module refuses such requests itself, with one line a minute in the log,
which names the address and the kind of fault, and nothing that was sent.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, InvalidURLError, LineTooLong

from ..telemetry.rate_limit import RateLimit
from .api.answers import error

log = structlog.get_logger(__name__)

_MALFORMED: Final = (HttpProcessingError, web.RequestPayloadError)
_REASONS: Final = (
    (LineTooLong, "a line of it is too long"),
    (InvalidURLError, "its URL is invalid"),
    (BadHttpMethod, "it does not begin with a method of HTTP"),
    (HttpProcessingError, "it is not valid HTTP"),
    (web.RequestPayloadError, "its body is not encoded as its headers state"),
    (ValueError, "its URL is invalid"),
)
"""In fixed words: the text of an exception would quote the request."""


class RequestReader(web.RequestHandler):
    """aiohttp's protocol of one connection, with refusals as JSON and a log without quotations."""

    __slots__ = ("_rate_limit", "_time")

    def __init__(self, server: web.Server, rate_limit: RateLimit[str], **options: Any) -> None:
        super().__init__(server, **options)
        self._rate_limit = rate_limit
        self._time = options["loop"].time

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for a request, or for the rest of one, and answers none."""
        return not (self._request_in_progress or self._messages)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived. A URL that the parser lets through may still have no valid form: its
        exception, which would end in the log of asyncio, is a refusal too."""
        try:
            super().data_received(data)
        except ValueError as fault:
            reason = self._log_malformed(fault)
            if self.is_waiting and self.transport is not None:
                self.transport.write(refusal(HTTPStatus.BAD_REQUEST, f"bad request: {reason}"))
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Log why a request was not served, and return the answer. Raises ConnectionError where
        there is nobody to send it to."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client hung up: the library takes this for what it is, without a word
        if isinstance(exc, _MALFORMED):
            text = f"bad request: {self._log_malformed(exc)}"
        else:
            self.log_exception("a request failed", exc_info=exc)
            text = HTTPStatus(status).phrase
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer is sent already")
        response = web.Response(status=status, body=error(text), content_type="application/json")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an exception that arose while a request was read or answered."""
        if isinstance(kw.get("exc_info"), _MALFORMED):
            self._log_malformed(kw["exc_info"])
        else:
            super().log_exception(*args, **kw)

    def _log_malformed(self, fault: BaseException) -> str:
        """Log a malformed request unless one was logged within the last minute. Returns the reason
        in words."""
        reason = next(words for kind, words in _REASONS if isinstance(fault, kind))
        requests = self._rate_limit.due("malformed", 1, self._time())
        if requests is not None:
            peer = self.peername
            log.warning(
                "malformed HTTP request refused",
                requests=requests,
                address=peer[0] if peer else "",
                reason=reason,
            )
        return reason


def request_readers(server: web.Server) -> Callable[[], RequestReader]:
    """A factory of readers that hand their requests to the server and share one limit of log lines.
    Call it in the event loop."""
    loop = asyncio.get_running_loop()
    return partial(RequestReader, server, RateLimit(), loop=loop, access_log=None)


def refusal(status: HTTPStatus, message: str) -> bytes:
    """A whole answer in the JSON form of all errors, for a connection that is closed after it."""
    body = error(message)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
