"""A configuration as TOML, the part that shapes stored rows, and what a change restarts."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from . import mapped_sources
from .sections import derive, experiments, judgements, propensities, queries, source_checks
from .sections.source_checks import NOT_BESIDE
from .settings import SETTINGS, Config, Setting
from .values.kinds import JOIN, LAYOUT

LATER: Final = ("attribution.join", "attribution.touch_wait", "kafka.lanes", "rekey.topic")
"""The keys of the other ways to join than by id and by partition."""


def differing_keys(old: Config, new: Config) -> list[str]:
    """The keys whose values differ, in the order of the table; `propensities`, `derive` and
    `sources` count as one key each."""
    differing = [s.key for s in SETTINGS if s.value(old) != s.value(new)]
    differing += [propensities.SECTION] * (old.propensities != new.propensities)
    differing += [derive.SECTION] * (old.derive != new.derive)
    return differing + [source_checks.SECTION] * (old.sources != new.sources)


def restarting_keys(old: Config, new: Config) -> list[str]:
    """The keys whose change makes the daemon start a fresh namespace and read the log again."""
    return _differing(join_values(old), join_values(new))


def relaying_keys(old: Config, new: Config) -> list[str]:
    """The keys whose change gives the namespace another layout."""
    return _differing(layout_values(old), layout_values(new))


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def describe(config: Config) -> str:
    """The effective configuration as TOML, secrets masked; keys that are not set as comments."""
    return "\n".join(_lines(config)) + "\n"


def join_values(config: Config) -> dict[str, object]:
    """Everything of a configuration that the join depends on, by key: spellings and orders that
    mean the same give the same values. The namespace is named by them."""
    values = {s.key: s.value(config) for s in _join_settings(config)}
    return values | {
        "kafka.topics": sorted(config.kafka.topics),
        "metrics.max_grade": config.resolved_max_grade,
        "attribution.pane": config.timing.base_ms // 1000,
        source_checks.SECTION: mapped_sources.shape(config.sources),
    }


def _join_settings(config: Config) -> list[Setting]:
    """The settings that the join depends on. Some came later: a default of theirs changes no
    name."""
    default = Config()
    of_join = (s for s in SETTINGS if s.shapes == JOIN)
    return [s for s in of_join if s.key not in LATER or s.value(config) != s.value(default)]


def layout_values(config: Config) -> dict[str, object]:
    """Everything that only shapes columns, by key, in the same form."""
    values = {s.key: s.value(config) for s in _layout_settings(config)}
    if config.plan.judged is not None:
        values["judgements.metrics"] = list(config.plan.judged.column_ids)
    return values | {
        "windows": sorted(config.windows, key=lambda window: window[1]),
        "metrics.names": [metric.full_name for metric in config.parsed_metrics],
        "segments.max_values": config.plan.admitted_values,
        propensities.SECTION: propensities.shape(config.propensities),
        derive.SECTION: derive.shape(config.derive),
        experiments.SECTION: {} if config.tracking is None else config.tracking.digests(),
    }


def _layout_settings(config: Config) -> list[Setting]:
    """The settings that shape columns, but for those of what is not kept: tables of queries, judged
    columns, items without a judgement."""
    is_on = {
        queries.SECTION: config.queries.is_on,
        judgements.SECTION: config.judgements.is_on,
        judgements.MISSING: config.judgements.missing,
    }
    of_layout = (s for s in SETTINGS if s.shapes == LAYOUT)
    return [s for s in of_layout if is_on.get(s.key, is_on.get(s.section, True))]


def _lines(config: Config) -> Iterator[str]:
    section = ""
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            yield ""
            yield f"[{section}]"
        written = setting.written(config)
        if config.sources and setting.key in NOT_BESIDE:
            yield f"# {setting.name}: by [[{source_checks.SECTION}]]"
            continue
        yield f"# {setting.name} is not set" if written is None else f"{setting.name} = {written}"
    yield from experiments.written(config.experiments)
    yield from propensities.written(config.propensities)
    yield from derive.written(config.derive)
    yield from mapped_sources.written(config.sources)


def describe_rows(config: Config) -> str:
    """The keys that shape rows as TOML, which `load` reads back: the rest has its defaults."""
    # The default of max_values follows from max_segments, which is not written: it shapes no rows.
    segments = replace(config.segments, max_values=config.plan.admitted_values)
    config = replace(config, segments=segments)
    lines, section = [], ""
    shaping = [*_join_settings(config), *_layout_settings(config)]
    for setting in SETTINGS:
        shapes = setting in shaping
        written = setting.written(config) if shapes else None
        if written is None:
            continue
        if setting.section != section:
            section = setting.section
            lines.append(f"[{section}]")
        lines.append(f"{setting.name} = {written}")
    lines += experiments.written(config.experiments)
    lines += propensities.written(config.propensities)
    lines += derive.written(config.derive)
    return "\n".join(lines) + "\n"
