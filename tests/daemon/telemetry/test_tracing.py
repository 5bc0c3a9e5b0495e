"""When traces are asked for, and what they cost while they are not."""

import pytest

from relevanced.daemon.telemetry import Telemetry, is_asked_for, unsupported

AT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environment", "asks"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "search"}, False),
        (AT, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**AT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**AT, "OTEL_SDK_DISABLED": "True"}, False),
        ({**AT, "OTEL_SDK_DISABLED": "false"}, True),
    ],
)
def test_traces_are_asked_for_by_the_variables_of_all_programs(
    environment: dict[str, str], asks: bool
) -> None:
    assert is_asked_for(environment) is asks


@pytest.mark.parametrize(
    ("environment", "fault"),
    [
        (AT, None),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, None),
        ({"OTEL_TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER=console: must be otlp"),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: must be http/protobuf",
        ),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            None,
        ),
    ],
)
def test_what_this_program_cannot_send_is_said(
    environment: dict[str, str], fault: str | None
) -> None:
    assert unsupported(environment) == fault


def test_a_span_of_no_trace_is_one_object() -> None:
    one, other = Telemetry("1"), Telemetry("2")
    with one.span("a", lane=1, records=2) as span:
        span.set_attribute("result", "applied")
    assert one.span("a", lane=1) is other.span("b") is span
