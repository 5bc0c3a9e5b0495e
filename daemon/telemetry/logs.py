"""The log: one line per event on the standard error stream, from this program and its libraries.

Lines are laid out for people on a terminal, and JSON for log collectors elsewhere. What repeats is
written at most once a minute for each key.
"""

import logging
import math
import os
from collections import Counter
from typing import Final, Generic, TextIO, TypeVar

import structlog
from structlog.typing import Processor

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
RETRYING_LIBRARIES: Final = ("aiokafka", "opentelemetry", "redis")
"""They log an error at every attempt. Whether an outage is an error, this program decides."""
LOGS_VALUES: Final = "aiokafka"
"""At debug level it logs requests and records whole: one of those contains the password, others
what people searched for."""
REPEAT_AFTER_S: Final = 60.0


class RetryNoise(logging.Filter):
    """Caps the level of retrying libraries at warning, and passes each message once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._last_s: dict[tuple[str, str], float] = {}
        self._suppressed: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """False for a message that was passed within the last minute."""
        if record.name.partition(".")[0] not in RETRYING_LIBRARIES:
            return True
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        message = (record.name, str(record.msg))
        last_s = self._last_s.get(message)
        if last_s is not None and record.created - last_s < REPEAT_AFTER_S:
            self._suppressed[message] = self._suppressed.get(message, 0) + 1
            return False
        self._last_s[message] = record.created
        suppressed = self._suppressed.pop(message, 0)
        if suppressed:
            record.msg = f"{record.getMessage()} ({suppressed} more like it since)"
            record.args = ()
        return True


def configure(level: str, format_name: str, stream: TextIO) -> None:
    """Send everything that is logged to the stream.

    `level` is one of LEVELS, `format_name` is `console`, `json` or `auto` (console on a terminal).
    """
    terminal = stream.isatty()
    readable = format_name == "console" or (format_name == "auto" and terminal)
    shared = _shared()
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            *_renderers(readable, terminal and not os.environ.get("NO_COLOR")),
        ],
    )
    handler = logging.StreamHandler(stream)
    handler.addFilter(RetryNoise())
    handler.setFormatter(formatter)
    _attach(handler, LEVELS[level])
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _renderers(readable: bool, colors: bool) -> list[Processor]:
    if readable:
        # Rich tracebacks would show local variables, and with them secrets.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _attach(handler: logging.Handler, level: int) -> None:
    root = logging.getLogger()
    for former in root.handlers[:]:
        if isinstance(former.formatter, structlog.stdlib.ProcessorFormatter):
            root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level)
    # Their info lines report every metadata refresh and heartbeat.
    quiet = logging.DEBUG if level == logging.DEBUG else max(level, logging.WARNING)
    for library in RETRYING_LIBRARIES:
        logging.getLogger(library).setLevel(quiet)
    logging.getLogger(LOGS_VALUES).setLevel(max(quiet, logging.INFO))
    logging.captureWarnings(True)


K = TypeVar("K")

LOG_AGAIN_AFTER_S: Final = 60.0


class RateLimit(Generic[K]):
    """When each key was last logged, and how often it occurred since."""

    def __init__(self) -> None:
        self._logged_s: dict[K, float] = {}
        self._since: Counter[K] = Counter()

    def due(self, key: K, count: int, now_s: float) -> int | None:
        """Count `count` more occurrences. Returns how many there were since the last line where it
        is time for another, else None."""
        self._since[key] += count
        if now_s - self._logged_s.get(key, -math.inf) < LOG_AGAIN_AFTER_S:
            return None
        self._logged_s[key] = now_s
        return self._since.pop(key)
