"""A fault of the configuration, and what many keys share: rules, tables whose names the user
chooses, and values of several sections. Pure.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from enum import Enum
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

from .kinds import (
    InvalidValue,
    Kind,
    duration,
    duration_ms,
    duration_text,
    masked_text,
    masked_url,
    optional,
    quoted,
    setting,
    shown,
    text,
)
from .secrets import MASK


@dataclass(frozen=True)
class ConfigFault:
    """One rule that the value of a key breaks."""

    key: str
    value: object
    """None if there is no value, or one that must not be shown."""
    rule: str

    def __str__(self) -> str:
        key = masked_text(self.key)
        if self.value is None:
            return f"{key}: {self.rule}"
        return f"{key}={shown(self.value)}: {self.rule}"


def at_least_one(key: str, values: tuple[str, ...], noun: str) -> Iterator[ConfigFault]:
    """The fault of an empty list."""
    if not values:
        yield ConfigFault(key, [], f"at least one {noun} is needed")


def no_repeats(key: str, values: tuple[str, ...]) -> Iterator[ConfigFault]:
    """A fault for each value that is repeated."""
    for value, count in Counter(values).items():
        if count > 1:
            yield ConfigFault(key, value, "is given more than once")


FieldFault: TypeAlias = tuple[str, object, str]
"""(key, value, rule) of a fault"""


def fields_of(owner: type) -> "dict[str, Field[Any]]":
    """Key in the file → setting of a frozen class. No environment variable overrides a key of a
    table whose name the user chooses, such as `[experiments.NAME]`."""
    settings = (entry for entry in fields(owner) if "kind" in entry.metadata)
    # `from_` stands for the key `from`, which is a word of the language.
    return {entry.name.removesuffix("_ms").removesuffix("_"): entry for entry in settings}


def read_fields(
    key: str, given: Mapping[str, object], owner: type
) -> tuple[dict[str, Any], list[FieldFault]]:
    """The arguments for `owner` that a table contains, and every fault of the table."""
    allowed, values, faults = fields_of(owner), dict[str, Any](), list[FieldFault]()
    for name, value in given.items():
        entry = allowed.get(name)
        if entry is None:
            faults.append(
                (f"{key}.{name}", None, f"unknown key: must be one of {', '.join(allowed)}")
            )
            continue
        try:
            values[entry.name] = entry.metadata["kind"].read(value)
        except InvalidValue as invalid:
            faults += [(f"{key}.{name}", wrong, rule) for wrong, rule in invalid.faults]
    return values, faults


def written_fields(table: Any) -> Iterator[str]:
    """The lines of TOML of one table, without its header."""
    for key, entry in fields_of(type(table)).items():
        value = getattr(table, entry.name)
        if value is None:
            yield f"# {key} is not set"
        else:
            yield f"{key} = {entry.metadata['kind'].write(value)}"


class LogEnd(Enum):
    """One of the two ends of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True)
class Ago:
    """The first record that is at most `ms` old."""

    ms: int


Start: TypeAlias = LogEnd | Ago


def log_start() -> Kind[Start]:
    """Where reading begins in logs of which nothing was read yet: an end, or how far back."""

    def read(value: object) -> Start:
        if isinstance(value, str) and value.lower() in (end.value for end in LogEnd):
            return LogEnd(value.lower())
        try:
            return Ago(duration_ms(value))
        except InvalidValue as invalid:
            rule = 'must be "earliest", "latest" or a duration such as "36h"'
            raise InvalidValue((value, rule)) from invalid

    def write(value: Start) -> str:
        return quoted(value.value if isinstance(value, LogEnd) else duration_text(value.ms))

    return Kind('"earliest" | "latest" | duration', read, write, duration(1, 0).parse)


_URL: Final = (
    r"https?://([^\s/@,]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@,:\[\]?#]+)(:\d{1,5})?(/[^\s@,?#]*)?"
)
_SEPARATOR: Final = r"\s*,\s*"


def urls_pattern() -> str:
    """The pattern of the addresses of a registry: one URL, or several separated by commas."""
    return rf"{_URL}({_SEPARATOR}{_URL})*"


def urls_of(text: str) -> tuple[str, ...]:
    """The URLs, without a slash at their ends and without logins."""
    parts = (url.partition("://") for url in _split_urls(text))
    return tuple(f"{scheme}://{rest.rpartition('@')[2]}".rstrip("/") for scheme, _, rest in parts)


def login_of(text: str) -> tuple[str, str] | None:
    """User name and password of the first URL that has them."""
    for url in _split_urls(text):
        parts = urlsplit(url)
        if parts.username is not None:
            return unquote(parts.username), unquote(parts.password or "")
    return None


def masked_urls(text: str) -> str:
    """The URLs with their passwords masked. What is no list of URLs is masked whole: a password
    with a comma that is not escaped would show in part."""
    if not re.fullmatch(urls_pattern(), text):
        return MASK
    return ",".join(masked_url(url) for url in _split_urls(text))


def _split_urls(text: str) -> list[str]:
    return re.split(_SEPARATOR, text.strip())


# Without a fragment: the rules append the section of the alert.
_ADDRESS: Final = optional(
    text(
        r"https?://[^\s#\"\\{}]+", rule="must begin with http:// or https://, without # and spaces"
    )
)


@dataclass(frozen=True)
class LinksSection:
    """Addresses that the texts of alerts link to."""

    runbook: str | None = setting(
        None, _ADDRESS, "Address of a runbook of your own; by default the page's, `/runbook`."
    )
    page: str | None = setting(
        None, _ADDRESS, "Address under which people on call reach the page of the exporters."
    )
    dashboards: str | None = setting(
        None, _ADDRESS, "Address of the Grafana that has the dashboards."
    )

    @property
    def runbook_address(self) -> str | None:
        """Where alerts lead: to the runbook that is set, else to that beside the page."""
        if self.runbook is not None or self.page is None:
            return self.runbook
        page = urlsplit(self.page)
        return urlunsplit((page.scheme, page.netloc, f"{page.path.rstrip('/')}/runbook", "", ""))
