"""Sends spans to an OpenTelemetry collector (OTLP over HTTP), by a thread of its own: where it does
not answer, spans are lost, and no lane waits. The libraries read from the environment (`OTEL_*`)
where, how often and which ones to send.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from .tracing import Traced

LAST_EXPORT_S: Final = 2.0
"""How long the end of the process waits for the last spans to be sent."""


class Tracer:
    """The spans of this process. Raises ValueError for a variable that the libraries refuse."""

    def __init__(self, version: str) -> None:
        self._processor = BatchSpanProcessor(OTLPSpanExporter())
        named = OTELResourceDetector().detect().attributes
        itself = {"service.name": "relevanced", "service.version": version, **named}
        # At the exit of the interpreter it would wait for half a minute.
        provider = TracerProvider(resource=Resource.create(itself), shutdown_on_exit=False)
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("relevanced", version)

    @contextmanager
    def span(self, name: str, **attributes: int | str) -> Iterator[Traced]:
        """A `StartSpan`. It tells no error: the text of one may hold what people searched for."""
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as started:
            yield started

    def end(self) -> None:
        """Send the last spans, and wait for that no longer than LAST_EXPORT_S."""
        last = threading.Thread(target=self._processor.shutdown, daemon=True)
        last.start()
        last.join(LAST_EXPORT_S)
