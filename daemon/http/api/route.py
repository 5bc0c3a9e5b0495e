"""What a route of the API is, and what its answers are made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from ...exporter.pane_reader import Reading
from ...exporter.published import Published
from ...exporter.snapshot import VIEWS
from ...telemetry.process import Telemetry
from . import tables
from .changes import AGAINST
from .health import Role
from .parameters import BadRequest, Parameter

Query: TypeAlias = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class RequestContext:
    """What answers are made of: the published values, this process, and the time of its clock."""

    published: Published
    telemetry: Telemetry
    role: Role
    version: str
    now_ms: int

    @property
    def reading(self) -> Reading:
        """The published reading. Raises BadRequest if this process has none."""
        if self.role == "worker":
            raise BadRequest(
                404, "role worker serves no scores: ask a process of role exporter or all"
            )
        if self.published.reading is None:
            raise BadRequest(503, "this process has no scores yet: /readyz states the reason")
        return self.published.reading

    def allowed_values(self) -> dict[str, tuple[str, ...]]:
        """Parameter → allowed values. A segment may have any: segments come and go with traffic."""
        plan = self.reading.plan
        return {
            "metric": tuple(metric.name for metric in plan.metrics),
            "grouping": plan.grouping_names,
            "window": tuple(window.name for window in plan.timing.windows),
            "view": VIEWS,
            "against": AGAINST,
            "judged_metric": (
                tuple(metric.name for metric in plan.judged.metrics)
                if plan.judged is not None
                else ()
            ),
        }


@dataclass(frozen=True)
class Route:
    """One route. `make` runs in a thread and may raise BadRequest."""

    path: str
    summary: str
    parameters: tuple[Parameter, ...]
    answer: type[msgspec.Struct]
    make: Callable[[RequestContext, Query], msgspec.Struct]
    of_scores: bool = True
    """False if every process can answer it at any time."""
    table: tuple[str, type[msgspec.Struct]] | None = None
    """The attribute of the answer that is a table, and the type of its rows: the same path with
    `.csv` has it as CSV."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The path, and that of the table."""
        return (self.path,) if self.table is None else (self.path, self.path + tables.SUFFIX)
