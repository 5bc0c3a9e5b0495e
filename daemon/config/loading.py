"""Loads the configuration: a TOML text and an environment become a frozen `Config`, or all faults.

`load` is pure; only `read` opens files.

    text ─▶ tables ─┐
                    ├▶ given values ─▶ kinds ─▶ Config ─▶ rules between keys ─▶ secret files
    environment ────┘
"""

import difflib
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog

from ..errors import ConfigError
from ..files import BRIEF_S, NotRead, content, in_time
from .connection_rules import OF_WORKERS, SECRET_FILES, TOKEN_FILES
from .fingerprint import describe_rows, join_values, layout_values
from .rules_between_settings import faults_of
from .sections import derive, experiments, judgements, propensities, queries, source_checks
from .sections.source_checks import ReadBytes, codec_faults, with_schemas
from .settings import SECTIONS, SETTINGS, Config
from .values.kinds import InvalidValue
from .values.secrets import ReadAgain, Secret
from .values.shared_rules import ConfigFault

__all__ = ["Config", "ConfigError", "Secret", "load", "read"]

logger = structlog.get_logger(__name__)

ReadSecret: TypeAlias = Callable[[str], str]
"""Returns the text of a file that contains a secret. Raises OSError or UnicodeDecodeError."""

PREFIX: Final = "RELEVANCED_"
SEPARATOR: Final = "__"
NO_OPTIONS: Final[Mapping[str, str]] = {}
LEAST_SIMILARITY: Final = 0.6
"""Least similarity (by difflib) of an unknown key to a key that is suggested instead."""
RENAMED_SECTIONS: Final[Mapping[str, str]] = {"judging": "changes"}
"""Former name of a section → its name."""


@dataclass(frozen=True)
class Given:
    """A value that the user set."""

    value: object
    origin: str | None = None
    """The environment variable or the option of the command that it came from, if any."""


def load(
    text: str,
    environment: Mapping[str, str],
    source: str,
    read_secret: ReadSecret | None = None,
    options: Mapping[str, str] = NO_OPTIONS,
    read_bytes: ReadBytes | None = None,
    role: str = "all",
) -> Config:
    """The configuration of a TOML text and an environment, which overrides it.

    `source` names the text in messages, `options` (variable → option) the variables that an option
    of the command has set. With `read_secret`, secrets are also read from the files that the
    configuration names; with `read_bytes`, schemas. An "exporter" may lack the secrets that only
    workers use. Raises ConfigError with every fault.

    >>> load('windows = ["10m"]', {"RELEVANCED_KAFKA__TOPICS": "a,b"}, "example").kafka.topics
    ('a', 'b')
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([f"{source}: is not TOML: {error}"]) from error
    declared, experiment_faults = experiments.read(document.pop(experiments.SECTION, {}))
    surfaces, surface_faults = propensities.read(document.pop(propensities.SECTION, None))
    derived, derive_faults = derive.read(document.pop(derive.SECTION, []))
    declared_sources, source_faults = source_checks.read(document.pop(source_checks.SECTION, []))
    given, faults = _given_in_file(document)
    source_faults += codec_faults(declared_sources)
    unreadable_tables = (*experiment_faults, *surface_faults, *derive_faults, *source_faults)
    faults += [ConfigFault(*fault) for fault in unreadable_tables]
    from_environment, more = _given_in_environment(environment, options)
    faults += more
    given |= from_environment
    config, more = _build(given)
    config = replace(config, judgements=judgements.with_defaults(config.judgements))
    faults += more
    # Rules between keys run on what could be read, so that one attempt reports every fault.
    config = replace(config, experiments=declared, propensities=surfaces, derive=derived)
    config, more = _with_sources(config, declared_sources, given)
    faults += more
    unreadable = [fault.key for fault in faults] + [propensities.SECTION] * bool(surface_faults)
    unreadable += [derive.SECTION] * bool(derive_faults)
    faults += faults_of(config, unreadable)
    unused = OF_WORKERS if role == "exporter" else ()
    lacking = {f"{section}.{name}" for section, name, _ in SECRET_FILES if section in unused}
    faults = [fault for fault in faults if fault.value is not None or fault.key not in lacking]
    # Files last: with other faults their paths may be wrong, too.
    if not faults:
        config, faults = _with_files(config, read_secret, read_bytes, unused)
    if faults:
        raise ConfigError([_fault_text(fault, given) for fault in faults])
    return config


def _with_files(
    config: Config,
    read_secret: ReadSecret | None,
    read_bytes: ReadBytes | None,
    unused: Sequence[str],
) -> tuple[Config, list[ConfigFault]]:
    """The configuration with what stands in the files that it names: secrets and values of drops,
    then schemas; and what is wrong with them. The secrets of the sections `unused` are not
    read."""
    faults = list[ConfigFault]()
    if read_secret is not None:
        config, faults = _with_secrets(config, read_secret, unused)
        faults += _token_faults(config, read_secret, unused)
        faults += [] if faults else queries.key_faults(config.queries)
        faults += judgements.directory_faults(config.judgements, _may_be_directory)
        more = list(derive.directory_faults(config.derive, _may_be_directory))
        faults += [ConfigFault(*fault) for fault in more]
        read_sources, more = source_checks.with_values(config.sources, read_secret)
        config = replace(config, sources=read_sources)
        faults += [ConfigFault(*fault) for fault in more]
    if read_bytes is not None and not faults:
        read_sources, more = with_schemas(config.sources, read_bytes)
        config = replace(config, sources=read_sources)
        faults += [ConfigFault(*fault) for fault in more]
    return config, faults


def read(
    path: str | None,
    environment: Mapping[str, str],
    options: Mapping[str, str] = NO_OPTIONS,
    role: str = "all",
) -> Config:
    """The configuration of a file and an environment, with the secrets of the files that it names.

    Without a path every key has its default. `options` and `role` as for `load`. Raises ConfigError
    with every fault, also if the file cannot be read.
    """
    where = path or "environment"
    try:
        text = "" if path is None else in_time(partial(read_file, path), path)
        return in_time(
            partial(load, text, environment, where, read_file, options, content, role), where
        )
    except (OSError, UnicodeDecodeError) as error:
        name = getattr(error, "filename", None) or where
        raise ConfigError([f"{name}: {_reason(error)}"]) from error


def _may_be_directory(path: Path) -> bool:
    """Also where its mount does not answer: who reads it says so, and goes on."""
    try:
        return in_time(path.is_dir, str(path), BRIEF_S)
    except NotRead:
        return True


def read_file(path: str) -> str:
    """The text of a file, without the byte order mark that some editors put before it."""
    return content(path).decode("utf-8-sig")


def _given_in_file(document: Mapping[str, object]) -> tuple[dict[str, Given], list[ConfigFault]]:
    keys = {setting.key for setting in SETTINGS}
    given: dict[str, Given] = {}
    faults: list[ConfigFault] = []
    for name, value in document.items():
        if name in keys and "." not in name:
            given[name] = Given(value)
        elif name not in SECTIONS or not name:
            faults.append(_unknown_key(name))
        elif not isinstance(value, dict):
            faults.append(ConfigFault(name, None, f"must be a section: [{name}]"))
        else:
            for inner, inner_value in value.items():
                key = f"{name}.{inner}"
                if key in keys:
                    given[key] = Given(inner_value)
                else:
                    faults.append(_unknown_key(key))
    return given, faults


def _given_in_environment(
    environment: Mapping[str, str], options: Mapping[str, str]
) -> tuple[dict[str, Given], list[ConfigFault]]:
    by_variable = {setting.variable: setting for setting in SETTINGS}
    given: dict[str, Given] = {}
    faults: list[ConfigFault] = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX):
            continue
        setting = by_variable.get(variable)
        if setting is None:
            faults += _unknown_variable(variable, by_variable)
            continue
        origin = options.get(variable, variable)
        try:
            given[setting.key] = Given(setting.kind.parse(text), origin)
        except InvalidValue as invalid:
            faults += [
                ConfigFault(setting.key, v, f"{rule} (from {origin})") for v, rule in invalid.faults
            ]
    return given, faults


def _build(given: Mapping[str, Given]) -> tuple[Config, list[ConfigFault]]:
    """The configuration of the values that can be read; every other key has its default."""
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    faults: list[ConfigFault] = []
    for setting in SETTINGS:
        if setting.key not in given:
            continue
        try:
            value = setting.kind.read(given[setting.key].value)
        except InvalidValue as invalid:
            faults += [ConfigFault(setting.key, value, rule) for value, rule in invalid.faults]
            continue
        values[setting.section][setting.attribute] = value
    top = values.pop("")
    sections = {section: SECTIONS[section](**inner) for section, inner in values.items()}
    return Config(**top, **sections), faults


def _with_sources(
    config: Config, declared: source_checks.Sources, given: Mapping[str, Given]
) -> tuple[Config, list[ConfigFault]]:
    """The configuration with the topics of the sources, and what must not stand beside these."""
    if not declared:
        return config, []
    faults = [
        ConfigFault(key, None, f"must not be given beside [[sources]], which {words}")
        for key, words in source_checks.NOT_BESIDE.items()
        if key in given
    ]
    topics = tuple(source.keys.topic for source in declared)
    kafka = replace(config.kafka, topics=tuple(dict.fromkeys(topics)))
    return replace(config, kafka=kafka, sources=declared), faults


def _with_secrets(
    config: Config, read_secret: ReadSecret, unused: Sequence[str]
) -> tuple[Config, list[ConfigFault]]:
    faults: list[ConfigFault] = []
    for section, name, file_name in SECRET_FILES:
        owner = getattr(config, section)
        path = getattr(owner, file_name)
        if path is None or section in unused:
            continue
        key = f"{section}.{file_name}"
        try:
            read_it = partial(_whole_secret, path, read_secret)
            value = read_it()
        except (OSError, ValueError) as error:
            faults.append(ConfigFault(key, path, _reason(error)))
            continue
        read_again = partial(in_time, read_it, path, BRIEF_S)
        secret = Secret(value, again=ReadAgain(read_again, value, partial(note_renewed, key)))
        config = replace(config, **{section: replace(owner, **{name: secret})})
    return config, faults


def note_renewed(setting: str) -> None:
    """Log that a login goes on with what a file has now."""
    logger.info("a login was refused: it goes on with what its file has now", setting=setting)


def _whole_secret(path: str, read_secret: ReadSecret) -> str:
    text = read_secret(path).strip()
    if not text:
        raise ValueError("the file is empty")
    return text


def _token_faults(
    config: Config, read_secret: ReadSecret, unused: Sequence[str]
) -> list[ConfigFault]:
    """The files of tokens that cannot be read: their contents are not kept."""
    faults = list[ConfigFault]()
    for section, name in (one for one in TOKEN_FILES if one[0] not in unused):
        path = getattr(getattr(config, section), name)
        try:
            if path is not None:
                _whole_secret(path, read_secret)
        except (OSError, ValueError) as error:
            faults.append(ConfigFault(f"{section}.{name}", path, _reason(error)))
    return faults


def _unknown_key(key: str) -> ConfigFault:
    keys = [setting.key for setting in SETTINGS]
    same_name = [candidate for candidate in keys if candidate.endswith(f".{key}")]
    section, _, name = key.rpartition(".")
    siblings = [s.key for s in SETTINGS if s.section == section and s.name != name]
    near = (
        [RENAMED_SECTIONS[key]]
        if key in RENAMED_SECTIONS
        else same_name
        or difflib.get_close_matches(key, siblings, 1, LEAST_SIMILARITY)
        or difflib.get_close_matches(key, keys, 1, LEAST_SIMILARITY)
        or difflib.get_close_matches(key, [name for name in SECTIONS if name], 1, LEAST_SIMILARITY)
    )
    suggestion = f": did you mean {near[0]}?" if near else ""
    # Without the value: it may be a secret under a misspelt name.
    return ConfigFault(key, None, f"unknown key{suggestion}")


def _unknown_variable(variable: str, variables: Iterable[str]) -> list[ConfigFault]:
    """The fault of a variable that was meant as a setting.

    Kubernetes sets RELEVANCED_SERVICE_HOST and others by itself: without `__` only a name that is
    a setting but for its separators is a fault.
    """
    by_single_separator = {name.replace(SEPARATOR, "_"): name for name in variables}
    if SEPARATOR not in variable:
        near = [by_single_separator[variable]] if variable in by_single_separator else []
    else:
        near = difflib.get_close_matches(variable, variables, 1, LEAST_SIMILARITY)
    if SEPARATOR not in variable and not near:
        return []
    suggestion = f": did you mean {near[0]}?" if near else ""
    return [ConfigFault(variable, None, f"unknown variable{suggestion}")]


def _fault_text(fault: ConfigFault, given: Mapping[str, Given]) -> str:
    value = given.get(fault.key)
    if value is None or value.origin is None:
        return str(fault)
    return f"{fault} (from {value.origin})"


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return "cannot be read: is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


DIGEST_DIGITS: Final = 12


@dataclass(frozen=True)
class Layout:
    """Which columns the rows of a namespace have: the digest of what it says, and its text.

    The join says which feedback counts for which impression, and names the namespace. The layout
    says what is counted of it: metrics, groupings, windows, experiments, propensities, attributes
    that are derived from the query, judged metrics, history. A namespace goes from layout to
    layout, and keeps the columns that both have. The text is that of a configuration, so that every
    process can work under it whatever its own file says.
    """

    digest: str
    text: str


def layout_of(config: Config) -> Layout:
    """The layout of a configuration: two that say the same have the same digest."""
    canonical = json.dumps(
        layout_values(config), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:DIGEST_DIGITS]
    return Layout(digest, describe_rows(config))


def _join_of(config: Config) -> dict[str, object]:
    """What the join depends on, as far as the text of a layout says it: it has no sources."""
    return {
        key: value for key, value in join_values(config).items() if key != source_checks.SECTION
    }


def under_layout(config: Config, layout: Layout) -> Config:
    """The configuration with the layout of another one of the same join.

    Raises ConfigError where this program does not know something that the text names, and
    ValueError where the text is that of another join.
    """
    of_layout = load(layout.text, {}, f"layout {layout.digest}")
    if _join_of(of_layout) != _join_of(config):
        raise ValueError(f"layout {layout.digest}: is that of another join than this configuration")
    return replace(
        config,
        windows=of_layout.windows,
        # The join's own: where no pane is set, the other windows would imply another one.
        attribution=replace(config.attribution, pane_s=config.timing.base_ms // 1000),
        metrics=of_layout.metrics,
        segments=replace(
            of_layout.segments,
            max_segments=config.segments.max_segments,
            version_attribute=config.segments.version_attribute,
            max_values=of_layout.plan.admitted_values,
        ),
        history=of_layout.history,
        experiments=of_layout.experiments,
        propensities=of_layout.propensities,
        derive=derive.with_directories(of_layout.derive, config.derive),
        queries=replace(
            of_layout.queries,
            days=config.queries.days,
            key=config.queries.key,
            key_file=config.queries.key_file,
        ),
        judgements=replace(of_layout.judgements, directory=config.judgements.directory),
    )
