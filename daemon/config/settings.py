"""The whole configuration as one frozen value, and the list of all settings."""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from relevanced.metrics import Metric, catalog

from ..changes import ChangeSettings
from ..events import BY_ID, LAST_TOUCH, Limits
from ..experiments import IMPRESSION, USER, Tracking
from ..plan import EXPERIMENT_PREFIX, Plan, Surfaces
from ..queries import USER_ID
from ..schemas import JSON
from ..timing import Timing, timing as timing_of
from .sections.changes import ChangesSection, resolved
from .sections.connections import (
    ONE,
    REKEY,
    KafkaSection,
    RedisSection,
    RegistrySection,
    RekeySection,
)
from .sections.derive import Declarations
from .sections.experiments import Experiments, tracking
from .sections.judgements import JudgementsSection, judged_of
from .sections.propensities import Given
from .sections.queries import QueriesSection, query_plan
from .sections.sections import (
    AttributionSection,
    EventsSection,
    HistorySection,
    HttpSection,
    LogSection,
    MetricsSection,
    SegmentsSection,
    WorkerSection,
)
from .sections.source_checks import Sources
from .values.kinds import LAYOUT, Kind, Shapes, setting, windows
from .values.shared_rules import Ago, LinksSection, LogEnd, Start


@dataclass(frozen=True)
class Config:
    """The whole configuration. Its `repr` masks secrets."""

    windows: tuple[tuple[str, int], ...] = setting(
        ["5m", "1h", "24h"], windows(), "Lengths of the sliding windows.", shapes=LAYOUT
    )
    """(name as written, seconds)"""
    kafka: KafkaSection = field(default_factory=KafkaSection)
    rekey: RekeySection = field(default_factory=RekeySection)
    redis: RedisSection = field(default_factory=RedisSection)
    events: EventsSection = field(default_factory=EventsSection)
    attribution: AttributionSection = field(default_factory=AttributionSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    segments: SegmentsSection = field(default_factory=SegmentsSection)
    history: HistorySection = field(default_factory=HistorySection)
    registry: RegistrySection = field(default_factory=RegistrySection)
    queries: QueriesSection = field(default_factory=QueriesSection)
    judgements: JudgementsSection = field(default_factory=JudgementsSection)
    worker: WorkerSection = field(default_factory=WorkerSection)
    changes: ChangesSection = field(default_factory=ChangesSection)
    links: LinksSection = field(default_factory=LinksSection)
    http: HttpSection = field(default_factory=HttpSection)
    log: LogSection = field(default_factory=LogSection)
    experiments: Experiments = ()
    """The declared experiments; not part of the table of settings."""
    propensities: Given = None
    """The propensities; not part of the table either."""
    derive: Declarations = ()
    """The attributes that are derived from the query; not part of the table either."""
    sources: Sources = ()
    """The topics in formats of their own; not part of the table either."""

    @property
    def is_rekeyed(self) -> bool:
        """Whether lanes read what a stage divides among them, not the input topics."""
        return self.kafka.lanes == REKEY

    @cached_property
    def timing(self) -> Timing:
        """The windows and waiting times. Raises ValueError for windows that do not fit together."""
        of = self.attribution
        return timing_of(self.windows, of.window_s, of.lateness_s, of.pane_s)

    @property
    def start(self) -> Start:
        """Where a new namespace starts reading: as far back as the longest window needs, unless
        configured.
        """
        return LogEnd.EARLIEST if self.is_rekeyed else self.input_start

    @property
    def input_start(self) -> Start:
        """The same for the input topics, which a stage may read."""
        if self.kafka.start is not None:
            return self.kafka.start
        longest = self.timing.longest
        return Ago(longest.length_ms + longest.pane_ms + self.timing.settle_ms)

    @property
    def resolved_max_grade(self) -> float:
        """The highest grade that can be given."""
        if self.metrics.max_grade is not None:
            return self.metrics.max_grade
        return max(self.attribution.grades.values(), default=0.0) or 1.0

    @property
    def parsed_metrics(self) -> tuple[Metric, ...]:
        """The metrics, in configured order."""
        return tuple(self.parse_metric(name) for name in self.metrics.names)

    def parse_metric(self, name: str) -> Metric:
        """The metric of that name with the configured defaults. Raises ValueError with the rule."""
        return catalog.parse(
            name,
            relevant_from=self.metrics.relevant_from,
            max_grade=self.resolved_max_grade,
        )

    @cached_property
    def plan(self) -> Plan:
        """Everything that shapes rows, for lanes, attribution and storage."""
        return Plan(
            timing=self.timing,
            metrics=self.parsed_metrics,
            groupings=self.segments.groupings,
            grades=self.attribution.grades,
            max_segments=self.segments.max_segments,
            max_values=self.segments.max_values or max(10 * self.segments.max_segments, 1000),
            depth=self.metrics.depth,
            tracking=self.tracking,
            history_hours=24 * self.history.days,
            surfaces=self._surfaces,
            queries=query_plan(self.queries, self.redis.namespace),
            derivations=tuple(one.derivation for one in self.derive),
            judged=judged_of(self.judgements),
            missing=self.judgements.missing,
            touch_ms=None if self.attribution.is_by_id else 1000 * self.attribution.touch_wait_s,
        )

    @property
    def lane_plan(self) -> Plan:
        """The same of lanes, which may read what a stage divides among them."""
        return replace(self.plan, rekeyed=self.is_rekeyed)

    @property
    def can_be_rekeyed(self) -> bool:
        """Whether a stage can divide the events of the input topics among lanes."""
        is_plain = all(source.keys.codec == JSON for source in self.sources)
        return is_plain and self.attribution.join in (BY_ID, LAST_TOUCH)

    @property
    def of_inputs(self) -> "Config":
        """The configuration that reads the input topics themselves: all as one lane, where a stage
        divides them. The numbers are the same."""
        if not self.is_rekeyed:
            return self
        return replace(self, kafka=replace(self.kafka, lanes=ONE))

    @cached_property
    def tracking(self) -> Tracking | None:
        """The experiments that lanes keep tallies of; None if there are none."""
        metrics = {name: self.parse_metric(name) for name in self.metrics.names}
        metrics |= {metric.name: metric for metric in metrics.values()}
        most = self.segments.discovered_experiments
        return tracking(self.experiments, most, metrics, self._surfaces, self._derived)

    @property
    def _derived(self) -> dict[str, str]:
        """The meaning of each derived attribute."""
        return {one.attribute: one.derivation.meaning for one in self.derive}

    @property
    def _surfaces(self) -> Surfaces | None:
        if self.propensities is None:
            return None
        surfaces = self.propensities.surfaces
        return replace(surfaces, meaning=self._derived.get(surfaces.attribute, ""))

    @property
    def resolved_changes(self) -> ChangeSettings:
        """The settings of changes by the names that series have: the drift of each metric, and the
        floors of metrics that are computed.
        """
        names = {name: self.parse_metric(name).name for name in self.metrics.names}
        return resolved(self.changes, names | {name: name for name in names.values()})

    @property
    def limits(self) -> Limits:
        """The limits that every event must keep."""
        return Limits(
            depth=self.metrics.depth,
            max_grade=self.resolved_max_grade,
            max_future_ms=self.events.max_future_s * 1000,
            max_record_bytes=self.events.max_record_bytes,
            rank_base=self.events.rank_base,
            ubi_lists=self.events.ubi_lists,
            attributes=tuple(sorted(self.used_attributes.difference(self._derived))),
            queries=self.queries.is_on or bool(self.derive) or self.judgements.is_on,
            join=self.attribution.join,
        )

    @property
    def used_attributes(self) -> set[str]:
        """The attributes that anything asks for, derived ones too."""
        names = {name for grouping in self.segments.groupings for name in grouping}
        units = {experiment.unit for _, experiment in self.experiments}
        names |= units.difference((USER, IMPRESSION))
        if self.propensities is not None:
            names.add(self.propensities.attribute)
        if self.queries.is_on and self.queries.user != USER_ID:
            names.add(self.queries.user)
        return {name for name in names if not name.startswith(EXPERIMENT_PREFIX)}


SECTIONS: Final[Mapping[str, type]] = {
    "": Config,
    "kafka": KafkaSection,
    "rekey": RekeySection,
    "redis": RedisSection,
    "events": EventsSection,
    "attribution": AttributionSection,
    "metrics": MetricsSection,
    "segments": SegmentsSection,
    "history": HistorySection,
    "registry": RegistrySection,
    "queries": QueriesSection,
    "judgements": JudgementsSection,
    "worker": WorkerSection,
    "changes": ChangesSection,
    "links": LinksSection,
    "http": HttpSection,
    "log": LogSection,
}
"""Section name in the file → its class. The keys of "" come before the first section."""


@dataclass(frozen=True)
class Setting:
    """One key of the table of settings."""

    section: str
    name: str
    """The key inside its section."""
    attribute: str
    kind: Kind[Any]
    default: object
    help_text: str
    shapes: Shapes | None

    @property
    def key(self) -> str:
        """`section.name`"""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def variable(self) -> str:
        """The environment variable that overrides the key."""
        return f"RELEVANCED_{self.key.replace('.', '__').upper()}"

    def value(self, config: Config) -> Any:
        """The value of the key in a configuration."""
        return getattr(getattr(config, self.section) if self.section else config, self.attribute)

    def written(self, config: Config) -> str | None:
        """The value as TOML, secrets masked; None if it is not set."""
        value = self.value(config)
        return None if value is None else self.kind.write(value)


def _of_field(section: str, entry: "Field[Any]") -> Setting:
    kind: Kind[Any] = entry.metadata["kind"]
    name = entry.name
    # The file states durations with their unit ("500ms"), the attribute has it in its name.
    if kind.name.startswith("duration"):
        name = name.removesuffix("_ms").removesuffix("_s")
    return Setting(
        section=section,
        name=name,
        attribute=entry.name,
        kind=kind,
        default=entry.metadata["default"],
        help_text=entry.metadata["help"],
        shapes=entry.metadata["shapes"],
    )


SETTINGS: Final = tuple(
    _of_field(section, entry)
    for section, owner in SECTIONS.items()
    for entry in fields(owner)
    if "kind" in entry.metadata
)
"""Every key, in the order of the file."""
