"""Reads the requests of one connection. What is refused here never reached a password check.

aiohttp logs a traceback for whatever it cannot parse, and quotes it: a malformed request would put
its Authorization header, or the password of its URL, into the log. Anybody who can connect could
also fill the log. So this module refuses such requests itself, with one line a minute in the log,
which names the address and the kind of fault, and nothing that was sent.

Each state of a connection has a deadline, so that nobody keeps one for nothing: HEAD_TIMEOUT_S
while a request arrives, KEEP_ALIVE_S between two requests, READ_TIMEOUT_S while an answer waits to
be read.
"""

import asyncio
import traceback
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, InvalidURLError, LineTooLong

from ..telemetry import RateLimit
from .api.route import error

log = structlog.get_logger(__name__)

HEAD_TIMEOUT_S: Final = 10.0
"""From the first byte of a request (of the first: from the connection) to the end of its headers.
A head is one packet for any real client; one that sends it byte by byte only keeps a connection."""
KEEP_ALIVE_S: Final = 120.0
"""Between two requests: longer than the usual minute between two scrapes."""
READ_TIMEOUT_S: Final = 60.0
"""How long the answers in the buffer may wait for a client that does not read."""

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

    __slots__ = ("_connection", "_goes_on", "_head_timer", "_rate_limit", "_read_timer")

    def __init__(self, server: web.Server, rate_limit: RateLimit[str], **options: Any) -> None:
        super().__init__(server, **options)
        self._rate_limit = rate_limit
        self._connection: asyncio.BaseTransport | None = None
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self._head_timer: asyncio.TimerHandle | None = None
        self._read_timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the server waits for a request, or for the rest of one, and answers none."""
        if self._request_in_progress or self._messages:
            return False
        # Between two turns of the loop a request is neither in the queue nor in progress. The
        # waiter, which is there once the first turn is over, is there only while none is served.
        return self._request_count == 0 or self._waiter is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._connection = transport
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the deadlines."""
        self._head_timer = _cancelled(self._head_timer)
        self._read_timer = _cancelled(self._read_timer)
        self._goes_on.set()
        super().connection_lost(exc)

    def close(self) -> None:
        """Finish the request in progress, then close the connection: the server stops."""
        self._goes_on.set()
        super().close()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived. A URL that the parser lets through may still have no valid form: its
        exception, which would end in the log of asyncio, is a refusal too."""
        try:
            super().data_received(data)
        except ValueError as fault:
            reason = self._log_malformed(fault)
            self._refuse(HTTPStatus.BAD_REQUEST, f"bad request: {reason}")
        if not self.is_waiting:
            self._head_timer = _cancelled(self._head_timer)
        elif self._head_timer is None and self.transport is not None:
            self._await_head()

    def pause_writing(self) -> None:
        """Give the client a time to read what fills the buffer."""
        super().pause_writing()
        self._goes_on.clear()
        self._read_timer = self._loop.call_later(READ_TIMEOUT_S, self._abort)

    def resume_writing(self) -> None:
        """Go on writing: the client has read."""
        self._read_timer = _cancelled(self._read_timer)
        self._goes_on.set()
        super().resume_writing()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send an answer. The next request is not served before the client has read most of it:
        requests sent at once, whose answers nobody reads, would fill the memory."""
        sent = await super().finish_response(request, resp, start_time)
        await self._goes_on.wait()
        return sent

    def _await_head(self) -> None:
        self._head_timer = self._loop.call_later(HEAD_TIMEOUT_S, self._refuse_late)

    def _refuse_late(self) -> None:
        self._head_timer = None
        if self.is_waiting:
            text = f"the headers of a request must arrive within {HEAD_TIMEOUT_S:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, text)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Close the connection, with a reason unless it would stand inside another answer."""
        if self.is_waiting and self.transport is not None:
            self.transport.write(refusal(status, message))
        self.force_close()

    def _abort(self) -> None:
        # Not `self.transport`: it is None once the connection is closing, which waits for the
        # client to read.
        if isinstance(self._connection, asyncio.Transport):
            self._connection.abort()

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
            self.log_exception(exc_info=exc)
            text = HTTPStatus(status).phrase
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer is sent already")
        response = web.Response(status=status, body=error(text), content_type="application/json")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an exception that arose while a request was read or answered: a fault of our own
        once a minute for each place that it comes from."""
        fault = kw.get("exc_info")
        if isinstance(fault, _MALFORMED):
            self._log_malformed(fault)
            return
        requests = self._rate_limit.due(_origin(fault), 1, self._loop.time())
        if requests is not None:
            super().log_exception(f"a request failed ({requests} since the last such line)", **kw)

    def _log_malformed(self, fault: BaseException) -> str:
        """Log a malformed request unless one was logged within the last minute. Returns the reason
        in words."""
        reason = next(words for kind, words in _REASONS if isinstance(fault, kind))
        requests = self._rate_limit.due("malformed", 1, self._loop.time())
        if requests is not None:
            peer = self.peername
            log.warning(
                "malformed HTTP request refused",
                requests=requests,
                address=peer[0] if peer else "",
                reason=reason,
            )
        return reason


def _origin(fault: object) -> str:
    """What an exception is and which line raised it."""
    place = ""
    if isinstance(fault, BaseException) and (frames := traceback.extract_tb(fault.__traceback__)):
        place = f"{frames[-1].filename}:{frames[-1].lineno}"
    return f"{type(fault).__name__} {place}"


def request_readers(server: web.Server) -> Callable[[], RequestReader]:
    """A factory of readers that hand their requests to the server and share one limit of log lines.
    Call it in the event loop."""
    loop = asyncio.get_running_loop()
    options = {"loop": loop, "access_log": None, "keepalive_timeout": KEEP_ALIVE_S}
    return partial(RequestReader, server, RateLimit(), **options)


def refusal(status: HTTPStatus, message: str) -> bytes:
    """A whole answer in the JSON form of all errors, for a connection that is closed after it."""
    body = error(message)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


def _cancelled(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer, if there is one. Returns None, what is then to be stored."""
    if timer is not None:
        timer.cancel()
    return None
