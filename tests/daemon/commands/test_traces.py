"""How a process begins traces, and what it says where it cannot."""

import socket
import sys

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.commands.app import Service, serve, tracer_of
from relevanced.daemon.config import load
from relevanced.daemon.extras import lacking
from relevanced.daemon.http import Role
from tests.collector import Collector

ASKS = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


@pytest.mark.parametrize(("role", "traces"), [("all", True), ("worker", True), ("exporter", False)])
async def test_a_process_that_commits_traces_where_it_is_asked_to(
    role: Role, traces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ASKS.items():
        monkeypatch.setenv(name, value)
    service = Service(load("", {}, "test"), role)
    assert (service.tracer is not None) is traces
    if service.tracer is not None:
        assert service.telemetry.span == service.tracer.span
        service.tracer.end()


async def test_a_process_sends_its_last_spans_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector, socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "600000")
        port = {"RELEVANCED_HTTP__LISTEN": f"127.0.0.1:{taken.getsockname()[1]}"}
        service = Service(load("", port, "test"), "worker")
        with service.telemetry.span("a"):
            pass
        assert await serve(service, None) == 1
    assert [span.name for span in collector.spans] == ["a"]


def said(environment: dict[str, str]) -> str:
    """The one line of a process that cannot trace."""
    with capture_logs() as lines:
        assert tracer_of(environment) is None
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("no traces are sent", "warning")
    return str(line["reason"])


def test_without_its_libraries_it_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "relevanced.daemon.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert said(ASKS) == lacking("otel")


def test_what_it_cannot_send_is_named() -> None:
    assert said({"OTEL_TRACES_EXPORTER": "zipkin"}) == "OTEL_TRACES_EXPORTER=zipkin: must be otlp"


def test_a_value_that_the_libraries_refuse_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "-1")
    assert said(ASKS) == "OTEL_*: schedule_delay_millis must be positive."
