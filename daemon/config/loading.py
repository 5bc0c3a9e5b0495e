"""The configuration: a TOML text and an environment in, a frozen `Config` or every fault out.

`load` is pure; `read` is the one door to files.

    text ─▶ tables ─┐
                    ├▶ given values ─▶ kinds ─▶ Config ─▶ rules between keys ─▶ secret files
    environment ────┘
"""

import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from . import experiments, propensities
from .connection_rules import SECRETS_TWICE
from .faults import ConfigFault
from .kinds import ConfigError, InvalidValue, Secret
from .rules import broken
from .settings import SECTIONS, SETTINGS, Config

__all__ = ["Config", "ConfigError", "Secret", "load", "read"]

ReadSecret: TypeAlias = Callable[[str], str]
"""The text of a file that holds a secret. Raises OSError or UnicodeDecodeError."""

PREFIX: Final = "RELEVANCED_"
SEPARATOR: Final = "__"
LEAST_LIKENESS: Final = 0.6
"""Of an unknown key to the known one that is suggested, as difflib counts it."""


@dataclass(frozen=True)
class Given:
    """A value that somebody set, and the environment variable it came from, if any."""

    value: object
    variable: str | None = None


def load(
    text: str,
    environment: Mapping[str, str],
    source: str,
    read_secret: ReadSecret | None = None,
) -> Config:
    """The configuration that a TOML text and an environment give.

    `source` names the text in messages. Secrets that stand in files are read with `read_secret`,
    where it is given. Raises ConfigError with all faults.

    >>> load('windows = ["10m"]', {"RELEVANCED_KAFKA__TOPICS": "a,b"}, "example").kafka.topics
    ('a', 'b')
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([f"{source}: is not TOML: {error}"]) from error
    declared, told = experiments.read(document.pop(experiments.SECTION, {}))
    weighed, more_told = propensities.read(document.pop(propensities.SECTION, None))
    given, faults = _given_in(document)
    faults += [ConfigFault(*fault) for fault in (*told, *more_told)]
    from_environment, more = _given_by(environment)
    faults += more
    given |= from_environment
    config, more = _build(given)
    faults += more
    config = replace(config, experiments=declared, propensities=weighed)
    unreadable = [fault.key for fault in faults] + [propensities.SECTION] * bool(more_told)
    faults += broken(config, unreadable)
    if read_secret is not None and not faults:
        config, faults = _with_secrets(config, read_secret)
    if faults:
        raise ConfigError([_told(fault, given) for fault in faults])
    return config


def read(path: str | None, environment: Mapping[str, str]) -> Config:
    """The configuration of a file (none: every default), with the secrets that stand in files.

    Raises ConfigError with all faults, of which an unreadable file is one.
    """
    if path is None:
        return load("", environment, "environment", read_file)
    try:
        text = read_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {_reason(error)}"]) from error
    return load(text, environment, path, read_file)


def read_file(path: str) -> str:
    """The text of a file."""
    return Path(path).read_text(encoding="utf-8")


def _given_in(document: Mapping[str, object]) -> tuple[dict[str, Given], list[ConfigFault]]:
    known = {setting.key for setting in SETTINGS}
    given: dict[str, Given] = {}
    faults: list[ConfigFault] = []
    for name, value in document.items():
        if name in known and "." not in name:
            given[name] = Given(value)
        elif name not in SECTIONS or not name:
            faults.append(_unknown(name))
        elif not isinstance(value, dict):
            faults.append(ConfigFault(name, None, f"must be a section: [{name}]"))
        else:
            for inner, inner_value in value.items():
                key = f"{name}.{inner}"
                if key in known:
                    given[key] = Given(inner_value)
                else:
                    faults.append(_unknown(key))
    return given, faults


def _given_by(environment: Mapping[str, str]) -> tuple[dict[str, Given], list[ConfigFault]]:
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
        try:
            given[setting.key] = Given(setting.kind.parse(text), variable)
        except InvalidValue as refused:
            origin = f"(from {variable})"
            faults += [
                ConfigFault(setting.key, v, f"{rule} {origin}") for v, rule in refused.faults
            ]
    return given, faults


def _build(given: Mapping[str, Given]) -> tuple[Config, list[ConfigFault]]:
    """The configuration of the values that could be read, defaults elsewhere."""
    values: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    faults: list[ConfigFault] = []
    for setting in SETTINGS:
        if setting.key not in given:
            continue
        try:
            value = setting.kind.read(given[setting.key].value)
        except InvalidValue as refused:
            faults += [ConfigFault(setting.key, value, rule) for value, rule in refused.faults]
            continue
        values[setting.section][setting.attribute] = value
    top = values.pop("")
    sections = {section: SECTIONS[section](**inner) for section, inner in values.items()}
    return Config(**top, **sections), faults


def _with_secrets(config: Config, read_secret: ReadSecret) -> tuple[Config, list[ConfigFault]]:
    faults: list[ConfigFault] = []
    for section, name, file_name in SECRETS_TWICE:
        owner = getattr(config, section)
        path = getattr(owner, file_name)
        if path is None:
            continue
        try:
            text = read_secret(path).strip()
        except (OSError, UnicodeDecodeError) as error:
            rule = f"cannot be read: {_reason(error)}"
            faults.append(ConfigFault(f"{section}.{file_name}", path, rule))
            continue
        if not text:
            faults.append(ConfigFault(f"{section}.{file_name}", path, "the file is empty"))
        config = replace(config, **{section: replace(owner, **{name: Secret(text)})})
    return config, faults


def _unknown(key: str) -> ConfigFault:
    known = [setting.key for setting in SETTINGS]
    same_name = [candidate for candidate in known if candidate.endswith(f".{key}")]
    section, _, name = key.rpartition(".")
    siblings = [s.key for s in SETTINGS if s.section == section and s.name != name]
    near = (
        same_name
        or difflib.get_close_matches(key, siblings, 1, LEAST_LIKENESS)
        or difflib.get_close_matches(key, known, 1, LEAST_LIKENESS)
        or difflib.get_close_matches(key, [name for name in SECTIONS if name], 1, LEAST_LIKENESS)
    )
    suggestion = f": did you mean {near[0]}?" if near else ""
    # The value stays unsaid: it may be a secret under a misspelt name.
    return ConfigFault(key, None, f"unknown key{suggestion}")


def _unknown_variable(variable: str, known: Iterable[str]) -> list[ConfigFault]:
    """Only names that were meant for us: a cluster sets RELEVANCED_SERVICE_HOST by itself."""
    meant = {name.replace(SEPARATOR, "_"): name for name in known}
    if SEPARATOR not in variable:
        near = [meant[variable]] if variable in meant else []
    else:
        near = difflib.get_close_matches(variable, known, 1, LEAST_LIKENESS)
    if SEPARATOR not in variable and not near:
        return []
    suggestion = f": did you mean {near[0]}?" if near else ""
    return [ConfigFault(variable, None, f"unknown variable{suggestion}")]


def _told(fault: ConfigFault, given: Mapping[str, Given]) -> str:
    origin = given.get(fault.key)
    if origin is None or origin.variable is None:
        return str(fault)
    return f"{fault} (from {origin.variable})"


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "is not UTF-8"
