"""What Prometheus sees: the families of `families.toml`, the one table of their names, types,
labels and help. Pure apart from reading it once.

Tests compare dashboards, rules and both renderers with the table. Code names a family in full, as
PromQL does: `FAMILIES["relevanced_score"]`.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["gauge", "counter", "histogram", "info"]
Source: TypeAlias = Literal["snapshot", "process"]


@dataclass(frozen=True)
class Family:
    """One family of series. A counter's name carries its `_total`, an info's its `_info`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    source: Source = "snapshot"
    """Of all the traffic, from one process; or of each process itself."""

    @property
    def openmetrics_name(self) -> str:
        """The name that OpenMetrics declares: a counter's without the `_total` of its samples."""
        return self.name.removesuffix("_total")


def _read() -> dict[str, Family]:
    table = tomllib.loads((files(__package__) / "families.toml").read_text(encoding="utf-8"))
    return {
        name: Family(name, labels=tuple(row.pop("labels")), **row) for name, row in table.items()
    }


FAMILIES: Final[Mapping[str, Family]] = _read()
"""By name, in the order of the table."""
