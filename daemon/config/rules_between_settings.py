"""Rules between settings, and on elements of lists, which the kind of one key cannot check.

The table at the end lists them. A rule runs only if every key that it reads could be read, so that
no fault is reported twice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

import numpy as np

from relevanced.metrics import CLIP, Lists, Metric, Need

from ..events import BY_ID, FORMATS, LAST_TOUCH, LOGGED, MAX_TEXT_BYTES
from ..plan import ALL, EXPERIMENT_PREFIX, LARGEST_EXACT
from ..schemas import JSON
from . import connection_rules
from .connection_rules import HIGHEST_PORT, Rule
from .sections import changes, derive, experiments, judgements, propensities, queries, source_checks
from .sections.connections import ONE, REKEY
from .sections.sections import AttributionSection
from .settings import Config
from .values.shared_rules import ConfigFault, at_least_one, no_repeats

CARRIED: Final[tuple[Need, ...]] = ("timing", "propensities")
"""What the daemon can give a metric beyond the list of an impression and its gains."""


LONGEST_TOUCHED_S: Final = 24 * 86_400
"""The watermark that an impression met is kept in four bytes, after its time: below 2^31 ms."""


def faults_of(config: Config, unreadable: Iterable[str] = ()) -> list[ConfigFault]:
    """Every fault of the configuration. Leaves out the rules that need an unreadable key."""
    skipped = set(unreadable)
    return [
        fault for keys, rule in RULES if not skipped.intersection(keys) for fault in rule(config)
    ]


def _windows(config: Config) -> Iterator[ConfigFault]:
    counts = Counter(seconds for _, seconds in config.windows)
    for name, seconds in config.windows:
        if counts[seconds] > 1:
            yield ConfigFault("windows", name, "is given more than once")
    if len(counts) < len(config.windows):
        return
    try:
        config.timing
    except ValueError as error:
        names = [name for name, _ in config.windows]
        yield ConfigFault("windows", names, str(error).removeprefix("windows: "))


def _topics(config: Config) -> Iterator[ConfigFault]:
    yield from at_least_one("kafka.topics", config.kafka.topics, "topic")
    yield from no_repeats("kafka.topics", config.kafka.topics)
    if config.events.dead_letter_topic in config.kafka.topics:
        rule = "must not be an input topic (kafka.topics)"
        yield ConfigFault("events.dead_letter_topic", config.events.dead_letter_topic, rule)


def _format(config: Config) -> Iterator[ConfigFault]:
    if config.events.format not in FORMATS:
        yield ConfigFault(
            "events.format", config.events.format, f"must be one of {', '.join(FORMATS)}"
        )


def _ubi_lists(config: Config) -> Iterator[ConfigFault]:
    readers = {config.events.format, *(source.reader for source in config.sources)}
    if config.events.ubi_lists != LOGGED and "ubi" not in readers:
        rule = 'has no effect: needs events.format = "ubi"'
        yield ConfigFault("events.ubi_lists", config.events.ubi_lists, rule)


def _grades(config: Config) -> Iterator[ConfigFault]:
    for kind in config.attribution.grades:
        if not 0 < len(kind.encode()) <= MAX_TEXT_BYTES:
            rule = f"a kind must be 1 to {MAX_TEXT_BYTES} bytes"
            yield ConfigFault("attribution.grades", kind, rule)
    highest = max(config.attribution.grades.values(), default=0.0)
    max_grade = config.metrics.max_grade
    if max_grade is not None and max_grade < highest:
        rule = f"must be >= the highest of attribution.grades ({highest:g})"
        yield ConfigFault("metrics.max_grade", max_grade, rule)


def _sources(config: Config) -> Iterator[ConfigFault]:
    yield from source_checks.faults_of(
        config.sources, config.attribution.grades, config.attribution.join
    )


def _rekey(config: Config) -> Iterator[ConfigFault]:
    if not config.is_rekeyed:
        return
    if config.attribution.join not in (BY_ID, LAST_TOUCH):
        rule = f'must be "{BY_ID}" or "{LAST_TOUCH}" with kafka.lanes = "{REKEY}"'
        yield ConfigFault("attribution.join", config.attribution.join, rule)
    if any(source.keys.codec != JSON for source in config.sources):
        rule = f'must not be "{REKEY}" where a source has a codec of its own: use "{ONE}"'
        yield ConfigFault("kafka.lanes", config.kafka.lanes, rule)
    if config.rekey.topic in config.kafka.topics:
        rule = "must not be an input topic (kafka.topics)"
        yield ConfigFault("rekey.topic", config.rekey.topic, rule)


def _touch(config: Config) -> Iterator[ConfigFault]:
    section = config.attribution
    if section.is_by_id:
        if section.touch_wait_s != AttributionSection().touch_wait_s:
            rule = f'has no effect: needs attribution.join = "{LAST_TOUCH}"'
            yield ConfigFault("attribution.touch_wait", f"{section.touch_wait_s}s", rule)
        return
    if section.touch_wait_s > section.lateness_s:
        rule = f"must be <= attribution.lateness ({section.lateness_s}s), after which panes settle"
        yield ConfigFault("attribution.touch_wait", f"{section.touch_wait_s}s", rule)
    if section.window_s + section.touch_wait_s > LONGEST_TOUCHED_S:
        rule = f"must be <= {LONGEST_TOUCHED_S // 86_400}d, with attribution.touch_wait"
        yield ConfigFault("attribution.window", f"{section.window_s}s", rule)


def _registry(config: Config) -> Iterator[ConfigFault]:
    yield from source_checks.registry_faults(config.sources, config.registry)


def _relevant(config: Config) -> Iterator[ConfigFault]:
    if config.metrics.relevant_from > config.resolved_max_grade:
        highest = config.resolved_max_grade
        rule = f"must be <= the highest grade ({highest:g}): else nothing is relevant"
        yield ConfigFault("metrics.relevant_from", config.metrics.relevant_from, rule)


def _metrics(config: Config) -> Iterator[ConfigFault]:
    yield from at_least_one("metrics.names", config.metrics.names, "metric")
    given: Counter[str] = Counter()
    for name in config.metrics.names:
        try:
            metric = config.parse_metric(name)
        except ValueError as error:
            yield ConfigFault("metrics.names", name, str(error).removeprefix(f"{name!r}: "))
            continue
        given[metric.name] += 1
        refusal = metric.refusal(CARRIED)
        if refusal is not None:
            yield ConfigFault("metrics.names", name, refusal)
        if given[metric.name] == 2:
            yield ConfigFault("metrics.names", name, f"{metric.name} is given more than once")


def _cutoffs(config: Config) -> Iterator[ConfigFault]:
    for name, metric in _by_name(config).items():
        if metric.k is not None and metric.k > config.metrics.depth:
            yield ConfigFault("metrics.names", name, f"k must be <= depth ({config.metrics.depth})")


def _exact(config: Config) -> Iterator[ConfigFault]:
    """Rows count scaled values: that of the best possible list must be one that float64 can round
    exactly."""
    best = np.full((1, config.metrics.depth), config.resolved_max_grade)
    clip = CLIP if config.propensities is None else config.propensities.clip
    lists = Lists(
        gains=best,
        lengths=np.array([best.size]),
        judged=np.ones(best.shape, np.bool_),
        weights=np.full(best.shape, clip),
    )
    for name, metric in _by_name(config).items():
        if metric.refusal(["propensities"]) is not None:
            continue
        with np.errstate(all="ignore"):
            value = metric.highest(lists)
        if not metric.unit * max(value, value * value) < LARGEST_EXACT:
            rule = f"can become too large to be counted exactly, with grades up to {best.max():g}"
            yield ConfigFault("metrics.names", name, rule)


def _groupings(config: Config) -> Iterator[ConfigFault]:
    groupings = config.segments.groupings
    seen: set[frozenset[str]] = set()
    for names in groupings:
        rule = _grouping_rule(names)
        if rule is None and frozenset(names) in seen:
            rule = "is given more than once"
        seen.add(frozenset(names))
        if rule is not None:
            yield ConfigFault("segments.groupings", list(names), rule)


def _version_attribute(config: Config) -> Iterator[ConfigFault]:
    name = config.segments.version_attribute
    if name is not None and (name,) not in config.segments.groupings:
        rule = f'must be a grouping of its own: add ["{name}"] to segments.groupings'
        yield ConfigFault("segments.version_attribute", name, rule)


def _grouping_rule(names: tuple[str, ...]) -> str | None:
    if names in ((), (ALL,)):
        return "must name attributes: the grouping of all traffic is always there"
    if len(set(names)) < len(names):
        return "names an attribute more than once"
    if any("," in name for name in names):
        return "a name must not contain a comma"
    if any(len(name.encode()) > MAX_TEXT_BYTES for name in names):
        return f"a name must be at most {MAX_TEXT_BYTES} bytes"
    if EXPERIMENT_PREFIX in names:
        return f"{EXPERIMENT_PREFIX} must be followed by the name of an experiment"
    return None


def _queries(config: Config) -> Iterator[ConfigFault]:
    yield from queries.faults_of(config.queries, config.segments.groupings)


def _judgements(config: Config) -> Iterator[ConfigFault]:
    yield from judgements.faults_of(config.judgements, config.metrics.depth)
    yield from judgements.missing_faults(config.judgements, keeps_queries=config.queries.is_on)


def _derive(config: Config) -> Iterator[ConfigFault]:
    tables = (table for source in config.sources for table in source.impressions)
    mapped = {name for table in tables for name in table.attributes or ()}
    fixed = {experiment.unit for _, experiment in config.experiments}
    fixed |= set() if config.propensities is None else {config.propensities.attribute}
    faults = derive.faults_of(config.derive, config.used_attributes, mapped, fixed)
    yield from (ConfigFault(*fault) for fault in faults)
    if config.queries.is_on and config.queries.user in {one.attribute for one in config.derive}:
        rule = "must not be a derived attribute: it says nothing of who searched"
        yield ConfigFault("queries.user", config.queries.user, rule)


def _experiments(config: Config) -> Iterator[ConfigFault]:
    by_name = _by_name(config)
    metrics = by_name | {metric.name: metric for metric in by_name.values()}
    groupings = [",".join(names) for names in config.segments.groupings]
    faults = experiments.faults_of(config.experiments, metrics, groupings)
    yield from (ConfigFault(*fault) for fault in faults)


def _propensities(config: Config) -> Iterator[ConfigFault]:
    metrics, depth = list(_by_name(config).values()), config.metrics.depth
    yield from (
        ConfigFault(*fault) for fault in propensities.faults_of(config.propensities, metrics, depth)
    )


def _change_settings(config: Config) -> Iterator[ConfigFault]:
    by_name = _by_name(config)
    metrics = {*by_name, *(metric.name for metric in by_name.values())}
    groupings = [",".join(names) for names in config.segments.groupings]
    yield from changes.faults_of(config.changes, metrics, groupings)


def _by_name(config: Config) -> dict[str, Metric]:
    """Name as written → metric, for the names that can be read."""
    metrics: dict[str, Metric] = {}
    for name in config.metrics.names:
        with suppress(ValueError):  # `_metrics` reports it
            metrics[name] = config.parse_metric(name)
    return metrics


def _listen(config: Config) -> Iterator[ConfigFault]:
    if config.http.port > HIGHEST_PORT:
        yield ConfigFault("http.listen", config.http.listen, f"port must be 0 to {HIGHEST_PORT}")


def _keep(config: Config) -> Iterator[ConfigFault]:
    longest_s = max((seconds for _, seconds in config.windows), default=0)
    if config.redis.keep_s < longest_s:
        rule = f"must be >= the longest window ({longest_s}s)"
        yield ConfigFault("redis.keep", f"{config.redis.keep_s}s", rule)


_GRADES_KEYS = ("attribution.grades", "metrics.max_grade")
_CHANGES_KEYS = (
    *("changes.metric_drift_ratios", "changes.score_floors"),
    *("metrics.names", "segments.groupings", *_GRADES_KEYS),
)

RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    (("windows",), _windows),
    (("kafka.topics", "events.dead_letter_topic"), _topics),
    *connection_rules.RULES,
    (("redis.keep", "windows"), _keep),
    (("events.format",), _format),
    (("events.format", "events.ubi_lists"), _ubi_lists),
    (_GRADES_KEYS, _grades),
    (("attribution.grades", "attribution.join"), _sources),
    (
        (
            *("attribution.join", "attribution.touch_wait"),
            *("attribution.lateness", "attribution.window"),
        ),
        _touch,
    ),
    (("kafka.lanes", "kafka.topics", "attribution.join", "rekey.topic"), _rekey),
    (("registry.url", "registry.kind"), _registry),
    (("metrics.relevant_from", *_GRADES_KEYS), _relevant),
    (("metrics.names",), _metrics),
    (("metrics.names", "metrics.depth"), _cutoffs),
    (("metrics.names", "metrics.depth", *_GRADES_KEYS), _exact),
    (("segments.groupings",), _groupings),
    (("segments.groupings", "segments.version_attribute"), _version_attribute),
    (("segments.groupings", "queries.text", "queries.by"), _queries),
    (
        (
            *("judgements.metrics", "judgements.relevant_from", "judgements.max_grade"),
            *("judgements.unjudged", "judgements.missing", "metrics.depth", "queries.text"),
        ),
        _judgements,
    ),
    (("derive", "segments.groupings"), _derive),
    (("http.listen",), _listen),
    (("metrics.names", "segments.groupings", *_GRADES_KEYS), _experiments),
    (_CHANGES_KEYS, _change_settings),
    (("propensities", "metrics.names", "metrics.depth", *_GRADES_KEYS), _propensities),
)
"""(the keys that a rule reads, the rule)"""
