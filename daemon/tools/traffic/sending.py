"""Sends simulated events to a sink, each when it is due, and reports the progress."""

import asyncio
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import click
import msgspec
from rich.status import Status

from .shapes import RecordShape
from .sinks import Sink
from .traffic import Traffic, generate_events

TICK_MS: Final = 10
"""Shortest pause: events that fall due within it are sent together."""
REPORT_MS: Final = 1_000
"""Time between two progress lines on a terminal, where each replaces the one before."""
LOG_REPORT_MS: Final = 10_000
"""Time between two progress lines where standard error is not a terminal."""
UNPACED_EVENTS: Final = 1_000
"""Events sent before the clock and the signals are checked again, where nothing is paced."""


@dataclass(frozen=True)
class SendingSpan:
    """The interval of event time to simulate, in milliseconds; `end_ms` None: until interrupted."""

    start_ms: int
    live_ms: int
    """Where the backfill ends."""
    end_ms: int | None
    paced: bool
    """Whether each event is sent at its own time, instead of as fast as possible."""

    @property
    def waits_until_ms(self) -> int | None:
        """How long to wait for Kafka: a backfill has no end on the clock."""
        return None if self.end_ms is None or self.end_ms <= self.live_ms else self.end_ms


@dataclass
class SendingProgress:
    """Number of events sent, and when it was last reported."""

    status: Status | None
    sent: int = 0
    reported_ms: int = 0
    reported_sent: int = 0

    def due(self, now_ms: int) -> bool:
        """Whether the next report is due."""
        return now_ms - self.reported_ms >= (LOG_REPORT_MS if self.status is None else REPORT_MS)

    def report(self, now_ms: int, event_ms: int) -> None:
        """Print one line; on a terminal it replaces the line before."""
        per_s = (self.sent - self.reported_sent) * 1000 / max(now_ms - self.reported_ms, 1)
        self.reported_ms, self.reported_sent = now_ms, self.sent
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(event_ms / 1000))
        line = f"{self.sent:,} events, {per_s:,.0f}/s, event time {until} UTC"
        if self.status is None:
            click.echo(line, err=True)
        else:
            self.status.update(line)


def span_of(
    now_ms: int, start_ms: int | None, backfill_ms: int, duration_ms: int | None, paced: bool
) -> SendingSpan:
    """The backfill, then the duration; a file without a duration gets the backfill only."""
    live_ms = now_ms if start_ms is None else start_ms + backfill_ms
    if duration_ms is None and not paced:
        duration_ms = 0
    end_ms = None if duration_ms is None else live_ms + duration_ms
    return SendingSpan(live_ms - backfill_ms, live_ms, end_ms, paced)


async def send_all(
    traffic: Traffic,
    span: SendingSpan,
    sink: Sink,
    progress: SendingProgress,
    shape: RecordShape | None = None,
) -> None:
    """Open the sink, send the events of the span, each when it is due, and close the sink. Without
    a shape they are of the native format."""
    await sink.start()
    try:
        await _send_due(traffic, span, sink, progress, shape)
    finally:
        await sink.stop()


async def _send_due(
    traffic: Traffic,
    span: SendingSpan,
    sink: Sink,
    progress: SendingProgress,
    shape: RecordShape | None,
) -> None:
    now_ms = progress.reported_ms = clock_ms()
    encode = msgspec.json.Encoder().encode
    for arrival_ms, event in generate_events(traffic, span.start_ms):
        if span.end_ms is not None and arrival_ms >= span.end_ms:
            break
        while span.paced and arrival_ms > now_ms:
            await asyncio.sleep(max(arrival_ms - now_ms, TICK_MS) / 1000)
            now_ms = clock_ms()
        value = event if shape is None else shape.record(event)
        if value is not None:
            await sink.send(event["impression_id"].encode(), encode(value), arrival_ms)
            progress.sent += 1
        if span.paced or progress.sent % UNPACED_EVENTS == 0:
            now_ms = clock_ms()
            if progress.due(now_ms):
                await sink.flush()
                progress.report(now_ms, arrival_ms)
        if progress.sent % UNPACED_EVENTS == 0:
            await asyncio.sleep(0)  # a file never awaits, and signals are handled only in between
    await sink.flush()


async def run_until_interrupted(
    traffic: Traffic,
    span: SendingSpan,
    sink: Sink,
    progress: SendingProgress,
    shape: RecordShape | None = None,
) -> None:
    """`send_all`; SIGINT and SIGTERM end it after the sink is flushed and closed."""
    sending = asyncio.ensure_future(send_all(traffic, span, sink, progress, shape))
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, sending.cancel)
    with suppress(asyncio.CancelledError):
        await sending


def clock_ms() -> int:
    return time.time_ns() // 1_000_000
