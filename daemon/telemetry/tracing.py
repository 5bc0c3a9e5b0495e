"""Spans of what a process does, for OpenTelemetry: what code calls, which is nothing while nobody
asks for traces, and when somebody does. Pure; `otlp` sends them.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

_ASKS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)
_ONLY: Final = {
    ("OTEL_TRACES_EXPORTER",): "otlp",
    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"): "http/protobuf",
}
"""Variables, of which the first that is set counts → the only value that this program can do."""


class Traced(Protocol):
    """A span, which lasts while its context is open."""

    def set_attribute(self, key: str, value: int | str) -> None:
        """Say what was not known when it began."""


class StartSpan(Protocol):
    """Makes the context of a span. What a task does that is created inside is below this span."""

    def __call__(self, name: str, **attributes: int | str) -> AbstractContextManager[Traced]: ...


class _Off:
    """Stands for each span while there are no traces."""

    def __enter__(self) -> "_Off":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def set_attribute(self, key: str, value: int | str) -> None:
        pass


_OFF: Final = _Off()


def off(name: str, **attributes: int | str) -> AbstractContextManager[Traced]:
    """Trace nothing."""
    return _OFF


def is_asked_for(environment: Mapping[str, str]) -> bool:
    """Whether the variables that all programs with OpenTelemetry obey ask for traces: a collector
    or an exporter is named, and neither `OTEL_SDK_DISABLED=true` nor the exporter `none`. An empty
    variable is one that is not set."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(environment.get(name) for name in _ASKS)


def unsupported(environment: Mapping[str, str]) -> str | None:
    """Return the first variable that asks for what this program cannot do, and what it can."""
    for names, value in _ONLY.items():
        name = next(filter(environment.get, names), None)
        if name is not None and environment[name] != value:
            return f"{name}={environment[name]}: must be {value}"
    return None
