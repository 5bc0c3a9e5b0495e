"""The kinds of settings: each reads, checks and writes one value. `setting` declares a key. Pure.

Rules between several settings are in `rules_between_settings`.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from .secrets import MASK, Secret

_PASSWORD: Final = re.compile(r":(?!//).*@", re.DOTALL)
_TOKEN: Final = re.compile(r"(?<=://)[^:]*@")


def masked(value: object) -> object:
    """The value, where `user:password@` and `scheme://token@` in its texts are masked.

    A login is pasted into wrong settings, too. It ends at the last `@`, which a password may
    contain: rather too much is masked.
    """
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, dict):
        return {masked(key): masked(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(inner) for inner in value]
    return value


def masked_text(text: str) -> str:
    """The text without the logins in it."""
    return _TOKEN.sub(f"{MASK}@", _PASSWORD.sub(f":{MASK}@", text))


T = TypeVar("T")

Shapes: TypeAlias = Literal["join", "layout"]
JOIN: Final[Shapes] = "join"
"""What feedback joins which impression depends on the key: a change starts a fresh namespace."""
LAYOUT: Final[Shapes] = "layout"
"""Which columns are kept depends on the key: a change keeps all other columns."""

UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""Units of a duration, largest first."""
LONGEST_MS: Final = 366 * UNITS_MS["d"]
SHOWN_CHARACTERS: Final = 80
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_DURATION: Final = re.compile(rf"(?:{_DURATION_PART.pattern})+")
_CREDENTIALS: Final = re.compile(r"(?<=://)(.*)(?=@)", re.DOTALL)
_URL_OPTION: Final = re.compile(r"(?<=[?&])([^=&]*)=([^&]*)")
SECRET_OPTIONS: Final = ("password", "ssl_password")
PLAIN_OPTIONS: Final = (
    "db",
    "username",
    "client_name",
    "socket_timeout",
    "socket_connect_timeout",
    "socket_keepalive",
    "health_check_interval",
    "ssl_cert_reqs",
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_check_hostname",
    "ssl_min_version",
)
"""Options that a URL of Redis may contain after `?`, besides the secrets.

The library accepts more, but with those it would decode replies that are bytes, repeat commands, or
fail at the first command.
"""


class InvalidValue(ValueError):
    """A value, or elements of one, that a kind does not accept. `faults`: (value, rule) pairs."""

    def __init__(self, *faults: tuple[object, str]) -> None:
        super().__init__("; ".join(f"{shown(value)}: {rule}" for value, rule in faults))
        self.faults = faults


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind of setting. `read` and `parse` raise `InvalidValue`."""

    name: str
    """What to write, for people."""
    read: Callable[[object], T]
    """Converts the value in TOML."""
    write: Callable[[T], str]
    """Converts to TOML, secrets masked."""
    parse: Callable[[str], object] = str
    """Converts the text of an environment variable to a value for `read`."""


def shown(value: object) -> str:
    """The value for a message: one line, shortened, without logins."""
    value = repr(value) if isinstance(value, Secret) else masked(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    line = " ".join(value.split())
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"


def quoted(text: str) -> str:
    """The text as a TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def masked_url(url: str) -> str:
    """The URL with its passwords masked, and the value of each unknown option: a misspelt name may
    be that of a secret. A text that is not a URL is masked whole."""
    if "://" not in url:
        return MASK

    def masked_credentials(credentials: re.Match[str]) -> str:
        user, colon, _ = credentials[0].partition(":")
        return f"{user}:{MASK}" if colon else MASK

    def masked_option(option: re.Match[str]) -> str:
        name, value = option.groups()
        return f"{name}={value if name in PLAIN_OPTIONS else MASK}"

    return _URL_OPTION.sub(masked_option, _CREDENTIALS.sub(masked_credentials, url))


def duration_ms(value: object) -> int:
    """Milliseconds of a duration: `5m`, `1h30m`, `500ms`, or a number of seconds."""
    if isinstance(value, str) and _DURATION.fullmatch(value):
        parts = _DURATION_PART.findall(value)
        total_ms = sum(float(number) * UNITS_MS[unit] for number, unit in parts)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        total_ms = value * 1000
    else:
        raise InvalidValue((value, 'must be a duration such as "90s", "5m", "36h", "7d"'))
    if not 0 <= total_ms <= LONGEST_MS:
        raise InvalidValue((value, "must be between 0s and 366d"))
    return round(total_ms)


def duration_text(length_ms: int) -> str:
    """The duration as text, in the largest unit of which it is a whole multiple."""
    for unit, unit_ms in UNITS_MS.items():
        if length_ms and length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms}{unit}"
    return "0s"


def text(pattern: str = r".+", rule: str = "must be a non-empty text") -> Kind[str]:
    """A text that matches the pattern."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise InvalidValue((value, rule))
        return value

    return Kind("text", read, lambda value: quoted(masked_text(value)))


def choice(*names: str, hides: bool = False) -> Kind[str]:
    """One of the names, in upper or lower case. `hides`: no fault shows the value, because a secret
    may have been given to the wrong key."""
    by_lower_case = {name.lower(): name for name in names}

    def read(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in by_lower_case:
            raise InvalidValue((None if hides else value, f"must be one of {', '.join(names)}"))
        return by_lower_case[value.lower()]

    return Kind(" | ".join(quoted(name) for name in names), read, quoted)


def integer(low: int, high: int) -> Kind[int]:
    """A whole number from `low` to `high`."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidValue((value, f"must be a whole number between {low} and {high}"))
        return value

    return Kind("whole number", read, str, number_or_text)


def number_or_text(given: str) -> object:
    """The number that the text spells, else the text itself, which `read` then checks."""
    for convert in (int, float):
        try:
            return convert(given)
        except ValueError:
            continue
    return given


def number(rule: str, check: Callable[[float], bool]) -> Kind[float]:
    """A finite number that passes the check."""

    def read(value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidValue((value, rule))
        if not math.isfinite(value) or not check(value):
            raise InvalidValue((value, rule))
        return float(value)

    return Kind("number", read, number_text, number_or_text)


def number_text(value: float) -> str:
    """The shortest TOML number that reads back as the same value."""
    return str(int(value)) if value == int(value) else repr(value)


def flag() -> Kind[bool]:
    """True or false."""

    def read(value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidValue((value, "must be true or false"))
        return value

    def parse(given: str) -> object:
        return {"true": True, "false": False}.get(given.strip().lower(), given)

    return Kind("true | false", read, lambda value: str(value).lower(), parse)


def duration(unit_ms: int, low_ms: int, high_ms: int = LONGEST_MS) -> Kind[int]:
    """A duration from `low_ms` to `high_ms`, as a whole number of the unit."""

    def read(value: object) -> int:
        length_ms = duration_ms(value)
        if not low_ms <= length_ms <= high_ms:
            bounds = f"{duration_text(low_ms)} and {duration_text(high_ms)}"
            raise InvalidValue((value, f"must be between {bounds}"))
        if length_ms % unit_ms:
            raise InvalidValue((value, f"must be a multiple of {duration_text(unit_ms)}"))
        return length_ms // unit_ms

    def write(value: int) -> str:
        return quoted(duration_text(value * unit_ms))

    return Kind("duration", read, write, number_or_text)


def or_off(kind: Kind[int]) -> Kind[int]:
    """The kind, or "off", which is 0."""

    def read(value: object) -> int:
        return 0 if value == "off" else kind.read(value)

    def write(value: int) -> str:
        return kind.write(value) if value else quoted("off")

    return Kind(f'{kind.name} | "off"', read, write, kind.parse)


def secret(
    mask: Callable[[str], str] = lambda _: MASK,
    pattern: str = ".+",
    rule: str = "must be a non-empty text",
) -> Kind[Secret]:
    """A text that is shown only masked."""

    def read(value: object) -> Secret:
        if not isinstance(value, str) or not re.fullmatch(pattern, value, re.DOTALL):
            raise InvalidValue((mask(value) if isinstance(value, str) else MASK, rule))
        return Secret(value, mask(value))

    return Kind("secret", read, lambda value: quoted(repr(value)))


def optional(kind: Kind[T]) -> Kind[T | None]:
    """The kind, or None: the key is left out, or its environment variable is empty."""

    def read(value: object) -> T | None:
        return None if value is None else kind.read(value)

    def write(value: T | None) -> str:
        return "" if value is None else kind.write(value)

    def parse(given: str) -> object:
        return kind.parse(given) if given else None

    return Kind(kind.name, read, write, parse)


def setting(default: object, kind: Kind[T], help_text: str, *, shapes: Shapes | None = None) -> T:
    """One key of a section, and what of the stored state it shapes."""
    # The default is read like any other value: it gets the same type and keeps the same rules.
    metadata = {"default": default, "kind": kind, "help": help_text, "shapes": shapes}
    return field(default_factory=partial(kind.read, default), metadata=metadata)


_OUTER_COMMA: Final = re.compile(r",(?![^(]*\))")
"""A comma outside of parentheses: the parameters of a metric, `P(rel=2)@5`, stay together."""


def several(kind: Kind[T], name: str) -> Kind[tuple[T, ...]]:
    """A list of values of one kind. In the environment: JSON, or separated by commas."""

    def read(value: object) -> tuple[T, ...]:
        if isinstance(value, str):
            parts = map(str.strip, _OUTER_COMMA.split(value))
            value = [part for part in parts if part]
        if not isinstance(value, list):
            raise InvalidValue((value, f"must be a list ({name})"))
        return tuple(read_each(value, kind.read))

    def write(values: tuple[T, ...]) -> str:
        return f"[{', '.join(kind.write(value) for value in values)}]"

    return Kind(name, read, write, json_or_text)


def read_each(values: Sequence[object], read: Callable[[object], T]) -> list[T]:
    """Read every element. Raises one InvalidValue with the faults of all of them."""
    valid: list[T] = []
    faults: list[tuple[object, str]] = []
    for value in values:
        try:
            valid.append(read(value))
        except InvalidValue as invalid:
            faults.extend(invalid.faults)
    if faults:
        raise InvalidValue(*faults)
    return valid


def table(name: str, value_kind: Kind[float]) -> Kind[dict[str, float]]:
    """A table of name to number. In the environment: JSON, or `name=number` separated by commas."""

    def entry(pair: object) -> tuple[str, float]:
        key, value = pair if isinstance(pair, tuple) else ("", pair)
        try:
            return key, value_kind.read(value)
        except InvalidValue as invalid:
            faults = [(f"{key}={shown(wrong)}", rule) for wrong, rule in invalid.faults]
            raise InvalidValue(*faults) from invalid

    def read(value: object) -> dict[str, float]:
        if not isinstance(value, dict):
            raise InvalidValue((value, f"must be a table ({name})"))
        return dict(read_each(list(value.items()), entry))

    def write(value: dict[str, float]) -> str:
        pairs = (f"{quoted(key)} = {value_kind.write(number)}" for key, number in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"

    return Kind(name, read, write, _parse_pairs)


def windows() -> Kind[tuple[tuple[str, int], ...]]:
    """A list of durations, each as (text as written, seconds)."""
    length = duration(1000, 1000)

    def element(value: object) -> tuple[str, int]:
        length_s = length.read(value)
        return (value if isinstance(value, str) else duration_text(length_s * 1000)), length_s

    return several(Kind("", element, lambda pair: quoted(pair[0])), "list of durations")


def groupings() -> Kind[tuple[tuple[str, ...], ...]]:
    """A list of lists of attribute names. A name alone stands for a list of one."""

    def element(value: object) -> tuple[str, ...]:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list):
            raise InvalidValue((value, "must be a list of attribute names"))
        return tuple(read_each(names, text(rule="must be a non-empty attribute name").read))

    def write(names: tuple[str, ...]) -> str:
        return f"[{', '.join(quoted(name) for name in names)}]"

    return several(Kind("", element, write), "list of lists of attribute names")


def json_or_text(given: str) -> object:
    """What a text that looks like JSON spells; any other text as it is."""
    # Looks at both ends: [::1]:9092 is an address, not JSON.
    if (given.strip()[:1], given.strip()[-1:]) not in (("[", "]"), ("{", "}")):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InvalidValue((given, f"is not JSON: {error}")) from error


def _parse_pairs(given: str) -> object:
    parsed = json_or_text(given)
    if parsed is not given:
        return parsed
    pairs = (part.partition("=") for part in given.split(",") if part.strip())
    return {key.strip(): number_or_text(value.strip()) for key, _, value in pairs}


TOPIC = text(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "must be 1 to 249 of letters, digits, . _ -")
NAME = text(r"[A-Za-z0-9_.-]+", "must be letters, digits, . _ -")
PATH = optional(text(rule="must be a file name"))
