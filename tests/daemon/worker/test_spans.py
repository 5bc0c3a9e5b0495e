"""What a collector of traces is told of batches and commits, and that nothing waits for it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from relevanced.daemon.storage import StallMark, pack_mark
from relevanced.daemon.telemetry import Telemetry
from relevanced.daemon.telemetry.otlp import Tracer
from tests.collector import Collector
from tests.daemon.worker.test_worker import (
    TOPIC,
    Letters,
    Log,
    Memory,
    impression,
    lose,
    stored_lane,
    work_until,
)

REFUSED = b"not an event"
PATIENCE_S = 25.0
"""Less than the half minute that the libraries would wait at the end."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        yield server


@contextmanager
def nobody_answers() -> Iterator[str]:
    """The address of a server that takes connections, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield f"http://127.0.0.1:{door.getsockname()[1]}"


def tracing(tracer: Tracer) -> Telemetry:
    telemetry = Telemetry("test")
    telemetry.span = tracer.span
    return telemetry


def told(spans: list[Span]) -> list[tuple[str, dict[str, int | str]]]:
    """(name, attributes) of each span, in the order of their beginnings."""
    return [
        (
            span.name,
            {one.key: one.value.string_value or one.value.int_value for one in span.attributes},
        )
        for span in sorted(spans, key=lambda span: span.start_time_unix_nano)
    ]


@pytest.mark.parametrize(
    ("faults", "results"),
    [((), ["applied"]), (("answer lost",), ["already"]), (("another owner",), ["lost", "applied"])],
)
async def test_a_batch_and_its_commit_are_spans(
    faults: tuple[str, ...], results: list[str], collector: Collector
) -> None:
    tracer = Tracer("1")
    log, store = Log([impression(1), impression(2), REFUSED]), Memory(*faults)
    await work_until(lambda: store.offset == 3, log, store, Letters(), telemetry=tracing(tracer))
    tracer.end()
    assert told(collector.spans) == [
        of_batch
        for result in results
        for of_batch in (
            ("relevanced.batch", {"lane": 0, "records": 3}),
            ("relevanced.commit", {"lane": 0, "result": result}),
        )
    ]
    batches = [span.span_id for span in collector.spans if span.name == "relevanced.batch"]
    commits = [span.parent_span_id for span in collector.spans if span.name == "relevanced.commit"]
    assert sorted(commits) == sorted(batches)
    assert collector.services == {"relevanced"}


async def test_the_commit_that_repairs_a_lane_is_a_span(collector: Collector) -> None:
    tracer = Tracer("1")
    log, store = Log([impression(1)]), Memory()

    def done() -> bool:
        if len(log.values) == 1 and store.offset == 1:
            lose(store, "names")
            log.values.append(impression(2))
        return store.offset == 2

    await work_until(done, log, store, telemetry=tracing(tracer))
    tracer.end()
    results = [said["result"] for _, said in told(collector.spans) if "result" in said]
    assert results == ["applied", "damaged", "applied"]


async def test_records_that_are_taken_one_by_one_are_batches(collector: Collector) -> None:
    tracer = Tracer("1")
    log, store = Log([impression(1), impression(2)]), Memory()
    log.topic_id = "same"
    stored_lane(store, "same", 0)
    store.lane.fields["stall"] = pack_mark(StallMark(1, 2, {TOPIC: 2}))
    await work_until(lambda: store.offset == 2, log, store, telemetry=tracing(tracer))
    tracer.end()
    batch, commit = told(collector.spans)[:2]
    assert batch == ("relevanced.batch", {"lane": 0, "records": 1})
    assert commit == ("relevanced.commit", {"lane": 0, "result": "applied"})
    assert len({span.trace_id for span in collector.spans}) == 3


@pytest.mark.parametrize(
    "variable", ["OTEL_SERVICE_NAME=search", "OTEL_RESOURCE_ATTRIBUTES=service.name=search"]
)
def test_the_service_is_named_as_the_environment_says(
    variable: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    tracer = Tracer("1")
    with tracer.span("a"):
        pass
    tracer.end()
    assert collector.services == {"search"}


async def test_no_lane_waits_for_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each span is to be sent at once, and the first is not taken before the last commit."""
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with nobody_answers() as address:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        tracer = Tracer("1")
        log, store = Log([impression(0)]), Memory()

        def done() -> bool:
            if store.offset == len(log.values) < 20:
                log.values.append(impression(len(log.values)))
            return store.offset == 20

        await work_until(done, log, store, telemetry=tracing(tracer))
    tracer.end()


def test_the_end_of_the_process_waits_for_a_collector_no_longer_than_it_says() -> None:
    code = (
        "from relevanced.daemon.telemetry.otlp import Tracer\n"
        "tracer = Tracer('1')\n"
        "with tracer.span('a'): pass\n"
        "tracer.end()"
    )
    with nobody_answers() as address:
        waits = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **waits},
            timeout=PATIENCE_S,
            check=True,
        )
