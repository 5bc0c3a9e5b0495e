"""A configuration as TOML, the part that shapes stored rows, and what a change restarts. Pure."""

from collections.abc import Iterator

from ..events.ubi import LOGGED
from . import experiments, mapped_sources, propensities, sources
from .settings import SETTINGS, Config
from .sources import NOT_BESIDE


def differing_keys(old: Config, new: Config) -> list[str]:
    """The keys whose values differ, in the order of the table; `propensities` and `sources` count
    as one key each."""
    differing = [s.key for s in SETTINGS if s.value(old) != s.value(new)]
    differing += [propensities.SECTION] * (old.propensities != new.propensities)
    return differing + [sources.SECTION] * (old.sources != new.sources)


def restarting_keys(old: Config, new: Config) -> list[str]:
    """The keys whose change makes the daemon start a fresh namespace and read the log again."""
    before, after = _shape(old), _shape(new)
    return [key for key in before if before[key] != after[key]]


def describe(config: Config) -> str:
    """The effective configuration as TOML, secrets masked; keys that are not set as comments."""
    return "\n".join(_lines(config)) + "\n"


def hashed_values(config: Config) -> dict[str, object]:
    """Return everything of a configuration that shapes what is stored, by key: spellings and orders
    that mean the same give the same values."""
    values = _shape(config)
    if config.propensities is None:
        # Keeps the hash of configurations that are older than propensities.
        del values[propensities.SECTION]
    if not config.sources:
        # Keeps the hash of configurations that are older than sources.
        del values[sources.SECTION]
    if config.events.ubi_lists == LOGGED:
        # Keeps the hash of those that are older than the setting.
        del values["events.ubi_lists"]
    return values


def _shape(config: Config) -> dict[str, object]:
    """The values that shape rows, in canonical form: equal for spellings that mean the same."""
    shape = {setting.key: setting.value(config) for setting in SETTINGS if setting.restarts}
    # The namespace hash is made from this: a mere reordering must not make every window start anew.
    by_length = sorted(config.windows, key=lambda window: window[1])
    return shape | {
        "windows": by_length,
        "kafka.topics": sorted(config.kafka.topics),
        "metrics.names": [metric.name for metric in config.parsed_metrics],
        "metrics.max_grade": config.resolved_max_grade,
        propensities.SECTION: propensities.shape(config.propensities),
        sources.SECTION: mapped_sources.shape(config.sources),
    }


def _lines(config: Config) -> Iterator[str]:
    section = ""
    for setting in SETTINGS:
        if setting.section != section:
            section = setting.section
            yield ""
            yield f"[{section}]"
        written = setting.written(config)
        if config.sources and setting.key in NOT_BESIDE:
            yield f"# {setting.name}: by [[{sources.SECTION}]]"
            continue
        yield f"# {setting.name} is not set" if written is None else f"{setting.name} = {written}"
    yield from experiments.written(config.experiments)
    yield from propensities.written(config.propensities)
    yield from mapped_sources.written(config.sources)
