"""The series that dashboards may query, with their kinds and labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from relevanced.daemon.telemetry import FAMILIES, Family

SCRAPED: Final = frozenset(("cluster", "job", "instance", "namespace"))
"""Labels that Prometheus adds to every series that it scrapes."""
HISTOGRAM_ENDINGS: Final = ("_bucket", "_sum", "_count")

_ALERT: Final = frozenset("alertname alertstate severity grouping segment metric".split())
OTHER_SERIES: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "ALERTS": ("gauge", _ALERT),
    "process_cpu_seconds_total": ("counter", frozenset()),
    "process_resident_memory_bytes": ("gauge", frozenset()),
}
"""Series of Prometheus itself and of its client library → (kind, labels)."""
RECORDED: Final[Mapping[str, frozenset[str]]] = {"relevanced:late": frozenset()}
"""Series that the shipped rules record → labels besides those of the installation. The tests on a
real Prometheus evaluate these rules."""
INSTALLATION: Final = frozenset(("cluster", "namespace", "job"))


@dataclass(frozen=True)
class SeriesSpec:
    """Kind and labels of one series."""

    kind: str
    labels: frozenset[str]
    of_process: bool
    """Whether each process exposes it about itself."""


def series_spec(name: str) -> SeriesSpec | None:
    """The specification of the series with this name; None where there is no such series."""
    if name in OTHER_SERIES:
        kind, labels = OTHER_SERIES[name]
        return SeriesSpec(kind, labels | SCRAPED, name != "ALERTS")
    if name in RECORDED:
        return SeriesSpec("gauge", RECORDED[name] | INSTALLATION, False)
    family = FAMILIES.get(name) or _histogram(name)
    if family is None:
        return None
    labels = frozenset(family.labels) | SCRAPED
    if family.kind == "histogram":
        return SeriesSpec("counter", labels | {"le"}, True)
    return SeriesSpec(family.kind, labels, family.source == "process")


def _histogram(name: str) -> Family | None:
    for ending in HISTOGRAM_ENDINGS:
        family = FAMILIES.get(name.removesuffix(ending))
        if name.endswith(ending) and family is not None and family.kind == "histogram":
            return family
    return None
