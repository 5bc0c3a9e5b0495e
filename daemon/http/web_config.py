"""The web configuration file of Prometheus exporters (`web-config.yml`): a text in, frozen settings
or every fault out. Pure.

    tls_server_config:  cert_file, key_file, client_ca_file, client_auth_type, min_version,
                        max_version, cipher_suites, prefer_server_cipher_suites, curve_preferences
    http_server_config: http2 (false), headers
    basic_auth_users:   user: hash

What the format knows and this server cannot do is a fault, never ignored.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from ..config.kinds import MASK, ConfigError, InvalidValue, Secret, shown
from . import password_hashes
from .tls_names import CURVES, TLS12_SUITES, TLS13_SUITES

VERSIONS: Final = ("TLS12", "TLS13")
CLIENT_AUTH: Final = {
    # whether a certificate is asked for, and whether it must be there
    "NoClientCert": (False, False),
    # Nothing here reads a certificate that nobody verified: to ask for one changes nothing.
    "RequestClientCert": (False, False),
    "VerifyClientCertIfGiven": (True, False),
    "RequireAndVerifyClientCert": (True, True),
}
UNVERIFIED: Final = ("RequireAnyClientCert", "RequireClientCert")
HEADERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Headers that may be added → their values; none: any."""

_QUOTED: Final = re.compile(r"'.*'|\".*\"", re.DOTALL)

Read: TypeAlias = Callable[[object], Any]
"""From a text, list or table of the file to the value. Raises InvalidValue."""


@dataclass(frozen=True)
class Tls:
    """How connections are encrypted, and who may connect. File names as written."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None
    client_auth_type: str = "NoClientCert"
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = ()


@dataclass(frozen=True)
class WebConfig:
    """A whole file. Without `tls` connections are plain; without users everybody is let in."""

    tls: Tls | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    users: Mapping[str, Secret] = field(default_factory=dict)
    """User → hash."""


def parse(text: str) -> WebConfig:
    """The settings of a file's text. Raises ConfigError with every fault.

    >>> parse("http_server_config: {http2: false}").tls is None
    True
    """
    faults: list[str] = []
    found = _section("", _document(text), SECTIONS, faults)
    tls = _section("tls_server_config", found.get("tls_server_config"), TLS_KEYS, faults)
    http = _section("http_server_config", found.get("http_server_config"), HTTP_KEYS, faults)
    users = _section("basic_auth_users", found.get("basic_auth_users"), None, faults)
    if found.get("tls_server_config") and not any(f.startswith("tls_server") for f in faults):
        faults += [f"tls_server_config.{fault}" for fault in _broken(tls)]
    if faults:
        raise ConfigError(faults)
    headers = {name: value for name, value in http.get("headers", {}).items() if value}
    return WebConfig(Tls(**tls) if tls else None, headers, users)


class _Loader(yaml.BaseLoader):
    """Every scalar is the text as written, so that a user may be called `on` or `007`; a key that
    stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise yaml.constructor.ConstructorError(
                    None, None, "a key stands more than once", node.value[number][0].start_mark
                )
        return super().construct_mapping(node, deep)


def _document(text: str) -> object:
    try:
        # A subclass of BaseLoader: texts, lists and tables are all that it makes.
        return yaml.load(text, Loader=_Loader)
    except RecursionError as error:
        raise ConfigError(["is not YAML: too deeply nested"]) from error
    except yaml.YAMLError as error:
        # Only where and what: the library's own message quotes the line, and a line may be secret.
        mark = getattr(error, "problem_mark", None)
        problem = _QUOTED.sub("…", str(getattr(error, "problem", None) or "unreadable character"))
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigError([f"is not YAML: {where}{problem}"]) from None


def _section(
    name: str, given: object, keys: Mapping[str, Read] | None, faults: list[str]
) -> dict[str, Any]:
    """The section's values that can be read; what is wrong with the others joins the faults.

    `keys` None: the names are users.
    """
    prefix = f"{name}." if name else ""
    if given is None or _is_nothing(given):
        return {}
    if not isinstance(given, dict):
        faults.append(f"{name or 'file'}: must be a table of keys")
        return {}
    values: dict[str, Any] = {}
    for key, value in given.items():
        try:
            if keys is None:
                values[key] = _user(key, value)
            elif key in keys:
                values[key] = keys[key](value)
            else:
                known = ", ".join(keys)
                faults.append(f"{prefix}{_named(key)}: unknown key: must be one of {known}")
        except InvalidValue as refused:
            faults += [f"{prefix}{_named(key)}{_told(v, rule)}" for v, rule in refused.faults]
    return values


def _told(value: object, rule: str) -> str:
    return f": {rule}" if value is None else f"={shown(value)}: {rule}"


def _named(key: object) -> str:
    """A name for a message; a hash that was put before its user stays unsaid."""
    return MASK if not isinstance(key, str) or key.startswith("$") else shown(key)


def _is_nothing(value: object) -> bool:
    return value in ("", "~", "null")


def _broken(tls: Mapping[str, Any]) -> Iterator[str]:
    """Rules between the keys of `tls_server_config`."""
    for name in ("cert_file", "key_file"):
        if name not in tls:
            yield f"{name}: must be set: without it nothing is encrypted"
    kind = tls.get("client_auth_type", "NoClientCert")
    verifies, _ = CLIENT_AUTH[kind]
    if verifies and "client_ca_file" not in tls:
        yield f"client_auth_type={kind}: needs client_ca_file"
    if kind == "NoClientCert" and "client_ca_file" in tls:
        rule = "is of no effect without client_auth_type: RequireAndVerifyClientCert"
        yield f"client_ca_file={shown(tls['client_ca_file'])}: {rule}"
    low, high = tls.get("min_version", VERSIONS[0]), tls.get("max_version", VERSIONS[-1])
    if low > high:
        yield f"min_version={low}: must be <= max_version ({high})"
    suites = tls.get("cipher_suites", ())
    if suites and high == "TLS12" and not set(suites) & set(TLS12_SUITES):
        yield f"cipher_suites={shown(list(suites))}: names none that TLS12 can use"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidValue((value, "must be a non-empty text of one line"))
    return value


def _one_of(names: Sequence[str], refused: Mapping[str, str]) -> Read:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in names:
            rule = f"must be one of {', '.join(names)}"
            raise InvalidValue((value, refused.get(str(value), rule)))
        return value

    return read


def _several(read: Read, at_most: int, rule: str) -> Read:
    def read_all(value: object) -> tuple[Any, ...]:
        if _is_nothing(value):
            return ()
        if not isinstance(value, list) or len(value) > at_most:
            raise InvalidValue((value, rule))
        return tuple(read(element) for element in value)

    return read_all


def _flag(value: object) -> bool:
    known = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if not isinstance(value, str) or value.lower() not in known:
        raise InvalidValue((value, "must be true or false"))
    return known[value.lower()]


def _http2(value: object) -> bool:
    if _flag(value):
        raise InvalidValue((value, "this server speaks HTTP/1.1 only: leave it out, or say false"))
    return False


def _headers(value: object) -> dict[str, str]:
    if _is_nothing(value):
        return {}
    if not isinstance(value, dict):
        raise InvalidValue((value, "must be a table of headers"))
    faults: list[tuple[object, str]] = []
    for name, text in value.items():
        if name not in HEADERS:
            faults.append((name, f"cannot be set: must be one of {', '.join(HEADERS)}"))
        elif not isinstance(text, str) or not text.isprintable():
            faults.append((name, "must be a text of one line"))
        elif HEADERS[name] and text not in HEADERS[name]:
            faults.append((f"{name}: {text}", f"must be {' or '.join(HEADERS[name])}"))
    if faults:
        raise InvalidValue(*faults)
    return value


def _user(name: object, value: object) -> Secret:
    """The hash of a user. Never shown, nor what stands in its place: it may be a password."""
    if not isinstance(name, str) or ":" in name:
        raise InvalidValue((None, "a user's name must not hold a colon"))
    rule = password_hashes.refusal(value)
    if rule is not None:
        raise InvalidValue((None, rule))
    return Secret(str(value))


def _not_here(rule: str) -> Read:
    def read(_: object) -> None:
        raise InvalidValue((None, f"is not supported here: {rule}"))

    return read


def _as_is(value: object) -> object:
    return value


_UNVERIFIED_RULE: Final = (
    "a certificate that nobody verifies proves nothing: take RequireAndVerifyClientCert"
)
_OLD_RULE: Final = "is not safe any more: must be TLS12 or TLS13"
_VERSION: Final = _one_of(VERSIONS, {"TLS10": _OLD_RULE, "TLS11": _OLD_RULE})

SECTIONS: Final[Mapping[str, Read]] = {
    "tls_server_config": _as_is,
    "http_server_config": _as_is,
    "basic_auth_users": _as_is,
    "rate_limit": _not_here("limit requests in front of this server"),
}
TLS_KEYS: Final[Mapping[str, Read]] = {
    "cert_file": _text,
    "key_file": _text,
    "client_ca_file": _text,
    "client_auth_type": _one_of(tuple(CLIENT_AUTH), dict.fromkeys(UNVERIFIED, _UNVERIFIED_RULE)),
    "min_version": _VERSION,
    "max_version": _VERSION,
    "cipher_suites": _several(
        _one_of((*TLS13_SUITES, *TLS12_SUITES), {}), 99, "must be a list of cipher suites"
    ),
    "prefer_server_cipher_suites": _flag,
    "curve_preferences": _several(
        _one_of(tuple(CURVES), {}), 1, "must be a list of one curve: no more can be set here"
    ),
    "cert": _not_here("write cert_file"),
    "key": _not_here("write key_file"),
    "client_ca": _not_here("write client_ca_file"),
    "client_allowed_sans": _not_here("issue certificates for scrapers from a CA of their own"),
}
HTTP_KEYS: Final[Mapping[str, Read]] = {"http2": _http2, "headers": _headers}
