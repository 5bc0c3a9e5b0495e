"""The series that dashboards and rules may name, with their labels and kinds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from relevanced.daemon.telemetry.families import BY_NAME
from relevanced.daemon.telemetry.family import Family

SCRAPED: Final = frozenset(("job", "instance", "namespace"))
"""Labels that Prometheus gives to whatever it scrapes."""
HISTOGRAM_ENDINGS: Final = ("_bucket", "_sum", "_count")

_ALERT: Final = frozenset("alertname alertstate severity grouping segment metric".split())
OTHERS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "ALERTS": ("gauge", _ALERT),
    "process_cpu_seconds_total": ("counter", frozenset()),
    "process_resident_memory_bytes": ("gauge", frozenset()),
}
"""Of Prometheus itself, and of its client library."""


@dataclass(frozen=True)
class Known:
    """What may be asked of one series."""

    kind: str
    labels: frozenset[str]
    of_process: bool
    """Whether each process has it of itself."""


def known(name: str) -> Known | None:
    """The series of that name, None where there is none."""
    if name in OTHERS:
        kind, labels = OTHERS[name]
        return Known(kind, labels | SCRAPED, name != "ALERTS")
    family = BY_NAME.get(name) or _histogram(name)
    if family is None:
        return None
    labels = frozenset(family.labels) | SCRAPED
    if family.kind == "histogram":
        return Known("counter", labels | {"le"}, True)
    return Known(family.kind, labels, family.source == "process")


def _histogram(name: str) -> Family | None:
    for ending in HISTOGRAM_ENDINGS:
        family = BY_NAME.get(name.removesuffix(ending))
        if name.endswith(ending) and family is not None and family.kind == "histogram":
            return family
    return None
