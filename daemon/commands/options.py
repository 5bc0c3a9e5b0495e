"""Options that several commands have, and the kinds of their values."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from ..config import Config

CONFIG_HELP: Final = "Configuration (TOML); RELEVANCED_SECTION__KEY variables override it."

NO_SOURCES: Final = (
    "sources: this command does not map records of other formats: give it events of the native"
    " format, or of ubi"
)


def read(
    config_file: str | None,
    given: Mapping[str, tuple[str, str | None]],
    *,
    takes_sources: bool = False,
    role: str = "all",
) -> "Config":
    """The configuration of a file, the environment and the options of a command: option → (the
    variable of its setting, its value, None where it is not given), for a role. Raises ConfigError;
    also for `[[sources]]` where the command does not apply them."""
    from ..config import read as read_config
    from ..errors import ConfigError

    values = {variable: value for variable, value in given.values() if value is not None}
    names = {variable: option for option, (variable, _) in given.items() if variable in values}
    config = read_config(config_file, {**os.environ, **values}, names, role)
    if config.sources and not takes_sources:
        raise ConfigError([NO_SOURCES])
    return config


def config_option(
    text: str = CONFIG_HELP, envvar: str | None = "RELEVANCED_CONFIG"
) -> Callable[..., Any]:
    """`--config FILE`, as `config_file`; its default is in the variable `envvar`."""
    return click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False),
        envvar=envvar,
        metavar="FILE",
        help=text,
    )


def role_option(text: str) -> Callable[..., Any]:
    """`--role ROLE`."""
    choice = click.Choice(["all", "worker", "exporter"])
    return click.option("--role", type=choice, default="all", show_default=True, help=text)


def output_option(text: str, *kinds: str) -> Callable[..., Any]:
    """`--output KIND`; the first kind by default."""
    choice = click.Choice(kinds)
    return click.option("--output", type=choice, default=kinds[0], show_default=True, help=text)


def kcat_option() -> Callable[..., Any]:
    """`--kcat`."""
    text = "The lines are records as kcat -J prints them, with topic, key, headers and time."
    return click.option("--kcat", is_flag=True, help=text)


def topic_option() -> Callable[..., Any]:
    """`--topic TOPIC`."""
    text = "The topic that the lines are of, where [[sources]] name several."
    return click.option("--topic", help=text)


def duration(text: str) -> int:
    """Milliseconds of `90s`, `5m`, `1h30m` or a number of seconds.

    >>> duration("1m30s"), duration("2")
    (90000, 2000)
    """
    from ..config import InvalidValue, duration_ms  # brings numpy, which --help does without

    try:
        return duration_ms(_number(text))
    except InvalidValue as refused:
        raise click.BadParameter(str(refused)) from refused


def instant(text: str) -> int:
    """Milliseconds since the epoch of a date and time with its zone."""
    from ..events import instant_ms  # brings msgspec, which --help does without

    try:
        return instant_ms(text)
    except ValueError:
        rule = "must be a time with its zone such as 2026-11-20T12:00:00Z"
        raise click.BadParameter(f"{text}: {rule}") from None


def stretch(text: str) -> tuple[int, int]:
    """Milliseconds since the epoch of both ends of `FROM/TO`."""
    from ..experiments import exclusion  # brings numpy, which --help does without

    try:
        return exclusion.parse_stretch(text)
    except ValueError as refused:
        raise click.BadParameter(str(refused)) from None


def segment(text: str) -> dict[str, str]:
    """Attribute name → value of `country=DE` or `country=DE,device=ios`."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and value.strip() for name, _, value in pairs):
        raise click.BadParameter(f"{text}: must be name=value such as country=DE")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def configured(
    config_file: str | None,
    given: Mapping[str, tuple[str, str | None]],
    *,
    takes_sources: bool = False,
    role: str = "all",
) -> "Config":
    """Read the configuration and set the log up by it; `given` as for `read`. Raises
    ConfigError."""
    from ..telemetry import logs

    config = read(config_file, given, takes_sources=takes_sources, role=role)
    logs.configure(config.log.level, config.log.format, sys.stderr)
    return config
