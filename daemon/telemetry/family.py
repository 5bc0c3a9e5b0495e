"""What a family of series is: its name, its type, its labels and its help."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["gauge", "counter", "histogram", "info"]
Source: TypeAlias = Literal["snapshot", "process"]

SEGMENT: Final = ("grouping", "segment")
"""Followed by one label per attribute of the grouping."""
VIEW: Final = ("window", "view")
ARM: Final = ("experiment", "variant")
TREATED: Final = (*ARM, "metric")
IN_SEGMENT: Final = (*TREATED, *SEGMENT)
SCORE: Final = ("metric", *SEGMENT, *VIEW)


@dataclass(frozen=True)
class Family:
    """One family of series. A counter's name carries its `_total`, an info's its `_info`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    source: Source = "snapshot"

    @property
    def openmetrics_name(self) -> str:
        """The name that OpenMetrics declares: a counter's without the `_total` of its samples."""
        return self.name.removesuffix("_total")


def gauge(name: str, labels: tuple[str, ...], text: str) -> Family:
    """A gauge of the snapshot."""
    return Family(f"relevanced_{name}", "gauge", labels, text)


def counter(name: str, labels: tuple[str, ...], text: str) -> Family:
    """A counter of the snapshot."""
    return Family(f"relevanced_{name}_total", "counter", labels, text)


def of_process(name: str, kind: Kind, labels: tuple[str, ...], text: str) -> Family:
    """A family that each process exposes of itself."""
    return Family(f"relevanced_{name}", kind, labels, text, "process")
