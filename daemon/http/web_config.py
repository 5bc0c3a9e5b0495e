"""The web configuration file of Prometheus exporters (`web-config.yml`): its text is parsed into
frozen settings, or every fault is raised. Pure.

    tls_server_config:  cert_file, key_file, client_ca_file, client_auth_type, min_version,
                        max_version, cipher_suites, prefer_server_cipher_suites, curve_preferences
    http_server_config: http2 (false), headers
    basic_auth_users:   user: hash

The format is that of exporter-toolkit, which the exporters of Prometheus share: users bring one
file for all of them. So the rarer keys (cipher_suites, curve_preferences, headers) are read as
well: a file with a policy on suites must be neither refused nor half obeyed. What the format knows
but this server cannot do is a fault, never skipped.

Names of curves and cipher suites: Go's, as in web configuration files, and OpenSSL's.

The forms of password hashes that are accepted.

bcrypt, as `htpasswd -nBC 10 USER` writes it, or, for systems without bcrypt,
`$scrypt$ln=15,r=8,p=1$SALT$KEY`: cost 2^ln, a salt and a key of 32 bytes in base64 without `=`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import yaml

from ..config import MASK, ConfigError, InvalidValue, Secret, shown

CURVES: Final = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}
"""Go's names → OpenSSL's names."""
TLS13_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
"""Always on with TLS 1.3, whatever else is listed, as in Go."""
TLS12_SUITES: Final = {
    f"TLS_ECDHE_{key}_WITH_{long}": f"ECDHE-{key}-{short}"
    for key in ("ECDSA", "RSA")
    for long, short in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Go's names of the suites with forward secrecy → OpenSSL's names."""


BCRYPT: Final = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
SCRYPT: Final = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})"
    r"\$((?:[A-Za-z0-9+/]{2,4}){6,16})\$([A-Za-z0-9+/]{43})"
)
BCRYPT_COSTS: Final = range(4, 19)
"""Each step doubles the time: 10 takes 0.06 s, 18 takes 15 s."""
SCRYPT_BYTES: Final = 1 << 28
"""Upper bound of 128 · r · p · 2^ln, the bytes that a check needs: at r=8 it takes about 1 s."""
FORMS: Final = "must be a bcrypt hash ($2y$10$…) or $scrypt$ln=15,r=8,p=1$SALT$KEY"


def refusal(hashed: object) -> str | None:
    """Why this hash is not accepted; None if it is. The message never contains the hash."""
    bcrypt, scrypt = BCRYPT.fullmatch(str(hashed)), SCRYPT.fullmatch(str(hashed))
    if bcrypt is not None:
        bounds = f"{BCRYPT_COSTS[0]} to {BCRYPT_COSTS[-1]}"
        too_costly = int(bcrypt[1]) not in BCRYPT_COSTS
        return f"the cost of a bcrypt hash must be {bounds}" if too_costly else None
    if scrypt is None:
        return FORMS
    cost_log2, block, parallel = (int(number) for number in scrypt.groups()[:3])
    if min(cost_log2, block, parallel) < 1 or 128 * block * parallel << cost_log2 > SCRYPT_BYTES:
        return f"scrypt needs ln, r, p >= 1 and 128 * r * p * 2^ln <= {SCRYPT_BYTES}"
    return None


VERSIONS: Final = ("TLS12", "TLS13")
CLIENT_AUTH: Final = {
    # → (whether a certificate of the client is requested, whether it is required)
    "NoClientCert": (False, False),
    # An unverified certificate would not be read here, so it is not requested.
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
"""Header that may be added → the values it may have; none: any value."""

_QUOTED: Final = re.compile(r"'.*'|\".*\"", re.DOTALL)

Read: TypeAlias = Callable[[object], Any]
"""Converts a text, list or table of the file to a value. Raises InvalidValue."""


@dataclass(frozen=True)
class Tls:
    """How connections are encrypted, and which clients may connect. File names as written."""

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
    """A whole file. Without `tls` nothing is encrypted; without users no password is needed."""

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
        faults += [f"tls_server_config.{fault}" for fault in _tls_faults(tls)]
    if faults:
        raise ConfigError(faults)
    headers = {name: value for name, value in http.get("headers", {}).items() if value}
    return WebConfig(Tls(**tls) if tls else None, headers, users)


class _Loader(yaml.BaseLoader):
    """Reads every scalar as the text that is written, so that a user may be called `on` or `007`.
    A repeated key is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise yaml.constructor.ConstructorError(
                    None, None, "a key is given more than once", node.value[number][0].start_mark
                )
        return super().construct_mapping(node, deep)


def _document(text: str) -> object:
    try:
        # Safe: a subclass of BaseLoader makes texts, lists and tables only.
        return yaml.load(text, Loader=_Loader)
    except RecursionError as error:
        raise ConfigError(["is not YAML: too deeply nested"]) from error
    except yaml.YAMLError as error:
        # The library's own message quotes the line, and a line may contain a secret: keep place and
        # problem only.
        mark = getattr(error, "problem_mark", None)
        problem = _QUOTED.sub("…", str(getattr(error, "problem", None) or "unreadable character"))
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        raise ConfigError([f"is not YAML: {where}{problem}"]) from None


def _section(
    name: str, given: object, keys: Mapping[str, Read] | None, faults: list[str]
) -> dict[str, Any]:
    """Read the values of a section, and append a fault for each that cannot be read.

    `keys` is None for the section whose keys are user names.
    """
    prefix = f"{name}." if name else ""
    if given is None or _is_null(given):
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
                allowed = ", ".join(keys)
                faults.append(f"{prefix}{_named(key)}: unknown key: must be one of {allowed}")
        except InvalidValue as invalid:
            faults += [f"{prefix}{_named(key)}{_fault_text(v, rule)}" for v, rule in invalid.faults]
    return values


def _fault_text(value: object, rule: str) -> str:
    return f": {rule}" if value is None else f"={shown(value)}: {rule}"


def _named(key: object) -> str:
    """The key for a message. Masked if it looks like a hash, written where the user should be."""
    return MASK if not isinstance(key, str) or key.startswith("$") else shown(key)


def _is_null(value: object) -> bool:
    return value in ("", "~", "null")


def _tls_faults(tls: Mapping[str, Any]) -> Iterator[str]:
    """The faults of keys of `tls_server_config` that do not go together."""
    for name in ("cert_file", "key_file"):
        if name not in tls:
            yield f"{name}: must be set: without it nothing is encrypted"
    kind = tls.get("client_auth_type", "NoClientCert")
    verifies, _ = CLIENT_AUTH[kind]
    if verifies and "client_ca_file" not in tls:
        yield f"client_auth_type={kind}: needs client_ca_file"
    if kind == "NoClientCert" and "client_ca_file" in tls:
        rule = "has no effect without client_auth_type: RequireAndVerifyClientCert"
        yield f"client_ca_file={shown(tls['client_ca_file'])}: {rule}"
    low, high = tls.get("min_version", VERSIONS[0]), tls.get("max_version", VERSIONS[-1])
    if low > high:
        yield f"min_version={low}: must be <= max_version ({high})"
    suites = tls.get("cipher_suites", ())
    if suites and high == "TLS12" and not set(suites) & set(TLS12_SUITES):
        yield f"cipher_suites={shown(list(suites))}: none of them is a suite of TLS12"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidValue((value, "must be a non-empty text of one line"))
    return value


def _one_of(names: Sequence[str], rules: Mapping[str, str]) -> Read:
    def read(value: object) -> str:
        if not isinstance(value, str) or value not in names:
            rule = f"must be one of {', '.join(names)}"
            raise InvalidValue((value, rules.get(str(value), rule)))
        return value

    return read


def _list_of(read: Read, at_most: int, rule: str) -> Read:
    def read_all(value: object) -> tuple[Any, ...]:
        if _is_null(value):
            return ()
        if not isinstance(value, list) or len(value) > at_most:
            raise InvalidValue((value, rule))
        return tuple(read(element) for element in value)

    return read_all


def _flag(value: object) -> bool:
    flags = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if not isinstance(value, str) or value.lower() not in flags:
        raise InvalidValue((value, "must be true or false"))
    return flags[value.lower()]


def _http2(value: object) -> bool:
    if _flag(value):
        raise InvalidValue(
            (value, "this server speaks HTTP/1.1 only: leave it out, or write false")
        )
    return False


def _headers(value: object) -> dict[str, str]:
    if _is_null(value):
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
    """The hash of a user. No message shows the value: in place of a hash it may be a password."""
    if not isinstance(name, str) or ":" in name:
        raise InvalidValue((None, "a user name must not contain a colon"))
    rule = refusal(value)
    if rule is not None:
        raise InvalidValue((None, rule))
    return Secret(str(value))


def _unsupported(rule: str) -> Read:
    def read(_: object) -> None:
        raise InvalidValue((None, f"is not supported here: {rule}"))

    return read


def _as_is(value: object) -> object:
    return value


_UNVERIFIED_RULE: Final = (
    "a certificate that is not verified proves nothing: use RequireAndVerifyClientCert"
)
_OLD_RULE: Final = "is no longer safe: must be TLS12 or TLS13"
_VERSION: Final = _one_of(VERSIONS, {"TLS10": _OLD_RULE, "TLS11": _OLD_RULE})

SECTIONS: Final[Mapping[str, Read]] = {
    "tls_server_config": _as_is,
    "http_server_config": _as_is,
    "basic_auth_users": _as_is,
    "rate_limit": _unsupported("limit requests in front of this server"),
}
TLS_KEYS: Final[Mapping[str, Read]] = {
    "cert_file": _text,
    "key_file": _text,
    "client_ca_file": _text,
    "client_auth_type": _one_of(tuple(CLIENT_AUTH), dict.fromkeys(UNVERIFIED, _UNVERIFIED_RULE)),
    "min_version": _VERSION,
    "max_version": _VERSION,
    "cipher_suites": _list_of(
        _one_of((*TLS13_SUITES, *TLS12_SUITES), {}), 99, "must be a list of cipher suites"
    ),
    "prefer_server_cipher_suites": _flag,
    "curve_preferences": _list_of(
        _one_of(tuple(CURVES), {}), 1, "must be a list of one curve: this server can set only one"
    ),
    "cert": _unsupported("write cert_file"),
    "key": _unsupported("write key_file"),
    "client_ca": _unsupported("write client_ca_file"),
    "client_allowed_sans": _unsupported("issue certificates for scrapers from a CA of their own"),
}
HTTP_KEYS: Final[Mapping[str, Read]] = {"http2": _http2, "headers": _headers}
