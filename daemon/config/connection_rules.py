"""Rules for the settings of the connections to Kafka, Redis and a schema registry."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult, parse_qsl, urlsplit

from .sections.connections import (
    AZURE,
    ELASTICACHE,
    ELASTICACHE_SERVERLESS,
    GCP,
    GLUE,
    MEMORYDB,
    MSK,
    OAUTHBEARER,
    OIDC,
    RegistrySection,
)
from .settings import SETTINGS, Config
from .values.shared_rules import ConfigFault, at_least_one, login_of

Rule: TypeAlias = Callable[[Config], Iterator[ConfigFault]]

HIGHEST_PORT: Final = 65_535
SECRET_FILES: Final = (
    ("kafka", "sasl_password", "sasl_password_file"),
    ("kafka", "ssl_key_password", "ssl_key_password_file"),
    ("redis", "password", "password_file"),
    ("redis", "sentinel_password", "sentinel_password_file"),
    ("redis", "ssl_key_password", "ssl_key_password_file"),
    ("registry", "password", "password_file"),
    ("registry", "ssl_key_password", "ssl_key_password_file"),
    ("queries", "key", "key_file"),
)
"""(section, key of a secret, key of the file that may contain it instead)"""
TOKEN_FILES: Final = (
    ("registry", "bearer_token_file"),
    ("kafka", "token_client_secret_file"),
    ("redis", "token_client_secret_file"),
)
"""(section, key of a file that contains a token, which is read when it is needed)"""
OF_WORKERS: Final = ("kafka", "registry")
"""The sections whose secrets an exporter does not use: it need not have them."""
SASL_KEYS: Final = ("sasl_mechanism", "sasl_username", "sasl_password", "sasl_password_file")
_CLIENT: Final = ("token_url", "token_client_id", "token_client_secret_file")
_OF_AWS: Final = ("token_region", "token_cache")
TOKEN_KEYS: Final = (*_CLIENT, "token_scope", *_OF_AWS)
TOKENS: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    OIDC: (_CLIENT, ("token_scope",)),
    AZURE: ((), ("token_client_id", "token_scope")),
    GCP: ((), ()),
    MSK: (("token_region",), ()),
    ELASTICACHE: (_OF_AWS, ()),
    ELASTICACHE_SERVERLESS: (_OF_AWS, ()),
    MEMORYDB: (_OF_AWS, ()),
}
"""What gives tokens → (the keys that it needs, those that may be given)."""
_KAFKA_TOKENS: Final = ("token", *(name for name in TOKEN_KEYS if name != "token_cache"))
SSL_KEYS: Final = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_key_password",
    "ssl_key_password_file",
)


SENTINEL_KEYS: Final = ("sentinel_username", "sentinel_password", "sentinel_password_file")
URL_OPTIONS: Final = {
    "ssl_cafile": "ssl_ca_certs",
    "ssl_certfile": "ssl_certfile",
    "ssl_keyfile": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
    "ssl_key_password_file": "ssl_password",
}
"""Key of redis → the option of its URL that says the same, by the name of redis-py."""


def _brokers(config: Config) -> Iterator[ConfigFault]:
    yield from at_least_one("kafka.bootstrap_servers", config.kafka.bootstrap_servers, "broker")
    for server in config.kafka.bootstrap_servers:
        if not 0 < int(server.rpartition(":")[2]) <= HIGHEST_PORT:
            yield ConfigFault(
                "kafka.bootstrap_servers", server, f"port must be 1 to {HIGHEST_PORT}"
            )


def _sasl(config: Config) -> Iterator[ConfigFault]:
    kafka = config.kafka
    if not kafka.security_protocol.startswith("SASL_"):
        needs = 'security_protocol "SASL_SSL" or "SASL_PLAINTEXT"'
        unused = (*SASL_KEYS, *_KAFKA_TOKENS)
        yield from _unused("kafka", kafka, unused, kafka.security_protocol, needs)
        return
    if kafka.sasl_mechanism in (OAUTHBEARER, MSK):
        needs = "a mechanism with a password"
        yield from _unused("kafka", kafka, SASL_KEYS[1:], kafka.sasl_mechanism, needs)
        kind = kafka.token or OIDC
        if kafka.sasl_mechanism == MSK:
            kind = MSK
            yield from _unused("kafka", kafka, ("token",), MSK, OAUTHBEARER)
        also = ("token_scope",) if kind == AZURE else ()  # Event Hubs: its own name stands in it
        yield from _tokens("kafka", kafka, kind, also)
        return
    mechanism = kafka.sasl_mechanism or "no sasl_mechanism"
    yield from _unused("kafka", kafka, _KAFKA_TOKENS, mechanism, OAUTHBEARER)
    needed = {
        "sasl_mechanism": kafka.sasl_mechanism,
        "sasl_username": kafka.sasl_username,
        "sasl_password": kafka.sasl_password or kafka.sasl_password_file,
    }
    for name, value in needed.items():
        if value is None:
            rule = f"must be set for {kafka.security_protocol}"
            yield ConfigFault(f"kafka.{name}", None, rule)


def _tokens(name: str, section: Any, kind: str, also: Sequence[str] = ()) -> Iterator[ConfigFault]:
    """The keys that what gives tokens lacks, or does not use. `also`: more that it needs here."""
    needed, allowed = TOKENS[kind]
    for key in (*needed, *also):
        if getattr(section, key) is None:
            yield ConfigFault(f"{name}.{key}", None, f"must be set for {kind}")
    for key in (k for k in TOKEN_KEYS if hasattr(section, k) and k not in (*needed, *allowed)):
        users = " or ".join(k for k, keys in TOKENS.items() if key in (*keys[0], *keys[1]))
        yield from _unused(name, section, (key,), kind, users)


def _ssl(config: Config) -> Iterator[ConfigFault]:
    kafka = config.kafka
    if not kafka.security_protocol.endswith("SSL"):
        needs = 'security_protocol "SSL" or "SASL_SSL"'
        yield from _unused("kafka", kafka, SSL_KEYS, kafka.security_protocol, needs)
    elif kafka.ssl_keyfile is not None and kafka.ssl_certfile is None:
        yield ConfigFault("kafka.ssl_keyfile", kafka.ssl_keyfile, "needs ssl_certfile too")


def _secrets(config: Config) -> Iterator[ConfigFault]:
    for section, name, file_name in SECRET_FILES:
        owner = getattr(config, section)
        file = getattr(owner, file_name)
        if file is not None and getattr(owner, name) is not None:
            yield ConfigFault(
                f"{section}.{file_name}", file, f"{name} is given too: remove one of them"
            )


def _redis_url(config: Config) -> Iterator[ConfigFault]:
    redis = config.redis
    credentials, at, _ = redis.url.reveal().partition("://")[2].rpartition("@")
    if not at or not credentials.partition(":")[2]:
        return
    for name in ("password", "password_file"):
        if getattr(redis, name) is not None:
            yield ConfigFault(
                f"redis.{name}",
                getattr(redis, name),
                "redis.url contains a password too: remove one of them",
            )


def _redis_tokens(config: Config) -> Iterator[ConfigFault]:
    redis = config.redis
    if redis.token is None:
        yield from _unused("redis", redis, TOKEN_KEYS, "a password", "redis.token")
        return
    yield from _tokens("redis", redis, redis.token)
    login = redis.url.reveal().partition("://")[2].rpartition("@")[0]
    user, _, in_url = login.partition(":")
    if in_url or _has(redis, "password"):
        rule = "a password is given too, as redis.password or in redis.url: remove one of them"
        yield ConfigFault("redis.token", redis.token, rule)
    if not user and redis.token not in (OIDC, GCP):
        rule = f"must name the user for {redis.token}: rediss://USER@HOST:PORT"
        yield ConfigFault("redis.url", None, rule)


def _redis_logins(config: Config) -> Iterator[ConfigFault]:
    """Credentials that connections by this URL do not use, or that it contains too."""
    redis = config.redis
    scheme, _, rest = redis.url.reveal().partition("://")
    if not scheme.startswith("rediss"):
        yield from _unused("redis", redis, SSL_KEYS, f"{scheme}://", "rediss:// in redis.url")
    elif redis.ssl_keyfile is not None and redis.ssl_certfile is None:
        yield ConfigFault("redis.ssl_keyfile", redis.ssl_keyfile, "needs ssl_certfile too")
    if not scheme.endswith("+sentinel"):
        wanted = "redis+sentinel:// in redis.url"
        yield from _unused("redis", redis, SENTINEL_KEYS, f"{scheme}://", wanted)
    elif redis.sentinel_username is not None and not _has(redis, "sentinel_password"):
        rule = "needs sentinel_password too"
        yield ConfigFault("redis.sentinel_username", redis.sentinel_username, rule)
    given = {name for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    for name, option in URL_OPTIONS.items():
        value = getattr(redis, name)
        if value is not None and option in given:
            rule = f"redis.url contains {option} too: remove one of them"
            yield ConfigFault(f"redis.{name}", value, rule)


def _has(section: Any, name: str) -> bool:
    """Whether a secret is given, also by a file."""
    return getattr(section, name) is not None or getattr(section, f"{name}_file") is not None


def split_address(url: str) -> tuple[SplitResult, str]:
    """(the parts of a URL of Redis beside its hosts, its credentials and hosts). Raises ValueError.

    `urlsplit` of newer Pythons takes several hosts, one of them an IPv6 address, for a bad one.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return urlsplit(url), ""
    netloc = re.split("[/?#]", rest, maxsplit=1)[0]
    return urlsplit(f"{scheme}://host{rest[len(netloc):]}"), netloc


def _redis_address(config: Config) -> Iterator[ConfigFault]:
    """An address that is not host:port, often for an unescaped `/`, `?` or `#` in a password.

    The client library would show parts of that password in its errors. For the same reason this
    fault does not show the value.
    """
    rule = "is not a URL with host:port: write special characters of a password as %2F, %40 …"
    try:
        parts, netloc = split_address(config.redis.url.reveal())
        hosts = netloc.rpartition("@")[2].split(",")
        ports = [urlsplit(f"//{host}").port for host in hosts]
    except ValueError:
        yield ConfigFault("redis.url", None, rule)
        return
    at_after_host = "@" not in netloc and "@" in f"{parts.path}{parts.query}{parts.fragment}"
    if at_after_host or 0 in ports:
        yield ConfigFault("redis.url", None, rule)


def _redis_database(config: Config) -> Iterator[ConfigFault]:
    """A database with a name: the client library would take database 0 for it.

    The fault does not show the value: without its host, a URL has the password here.
    """
    try:
        parts, _ = split_address(config.redis.url.reveal())
    except ValueError:
        return  # what `_redis_address` reports
    databases = [value for name, value in parse_qsl(parts.query) if name == "db"]
    if not parts.scheme.endswith("+sentinel") and "@" not in parts.path:
        # After the slash Sentinel has the name of its service.
        databases += [parts.path.removeprefix("/")] if parts.path.strip("/") else []
    if not all(re.fullmatch("[0-9]+/?", database) for database in databases):
        rule = "the database must be a number, as in redis://host:6379/0"
        yield ConfigFault("redis.url", None, rule)


def _unused(
    name: str, section: Any, keys: Sequence[str], protocol: str, needs: str
) -> Iterator[ConfigFault]:
    """Credentials that the protocol does not use: the user would believe the connection safe."""
    for key in keys:
        value = getattr(section, key)
        if value is not None:
            rule = f"has no effect with {protocol}: needs {needs}"
            yield ConfigFault(f"{name}.{key}", value, rule)


def _registry(config: Config) -> Iterator[ConfigFault]:
    """Settings of a registry that say nothing without another one, or beside it."""
    registry, given = config.registry, _given_keys(config.registry)
    if registry.kind == GLUE:
        if registry.region is None:
            yield ConfigFault("registry.region", None, 'must be set for kind "glue"')
        for name in given - {"region"}:
            rule = 'has no effect with kind "glue", which logs in as AWS clients do'
            yield ConfigFault(f"registry.{name}", getattr(registry, name), rule)
        return
    if registry.region is not None:
        yield ConfigFault("registry.region", registry.region, 'has no effect: needs kind "glue"')
    for name in sorted(given - {"url", "region"}) if registry.url is None else ():
        rule = "has no effect: needs registry.url"
        yield ConfigFault(f"registry.{name}", getattr(registry, name), rule)
    if registry.ssl_keyfile is not None and registry.ssl_certfile is None:
        yield ConfigFault("registry.ssl_keyfile", registry.ssl_keyfile, "needs ssl_certfile too")


def _registry_login(config: Config) -> Iterator[ConfigFault]:
    """More than one login, or a part of one."""
    registry = config.registry
    in_url = registry.url is not None and login_of(registry.url.reveal()) is not None
    name = registry.username
    has_password = registry.password is not None or registry.password_file is not None
    if in_url and (name is not None or has_password):
        yield ConfigFault("registry.username", name, "registry.url contains a login too")
    if name is not None and ":" in name:
        # Without the value: a password may have been pasted behind the colon.
        yield ConfigFault("registry.username", None, "must not contain a colon")
    if has_password and name is None and not in_url:
        yield ConfigFault("registry.password", None, "has no effect: needs registry.username")
    if registry.bearer_token_file is not None and (in_url or name is not None):
        rule = "a user name is given too: remove one of them"
        yield ConfigFault("registry.bearer_token_file", registry.bearer_token_file, rule)


def _given_keys(registry: RegistrySection) -> set[str]:
    """The keys that have a value of their own, but for kind."""
    default = RegistrySection()
    names = {entry.name for entry in fields(registry)} - {"kind"}
    return {name for name in names if getattr(registry, name) != getattr(default, name)}


_SASL_KEYS = (
    "kafka.security_protocol",
    *(f"kafka.{name}" for name in (*SASL_KEYS, *_KAFKA_TOKENS)),
)
_REDIS_TOKENS = ("redis.url", *(f"redis.{name}" for name in ("password", "token", *TOKEN_KEYS)))
_REDIS_KEYS = ("redis.url", *(f"redis.{name}" for name in (*SSL_KEYS, *SENTINEL_KEYS)))
_SSL_KEYS = ("kafka.security_protocol", *(f"kafka.{name}" for name in SSL_KEYS))
_REGISTRY_KEYS = tuple(s.key for s in SETTINGS if s.section == "registry")
_SECRET_KEYS = tuple(f"{section}.{name}" for section, *names in SECRET_FILES for name in names)

RULES: Final[tuple[tuple[tuple[str, ...], Rule], ...]] = (
    (("kafka.bootstrap_servers",), _brokers),
    (_SASL_KEYS, _sasl),
    (_SSL_KEYS, _ssl),
    (_SECRET_KEYS, _secrets),
    (("redis.url", "redis.password", "redis.password_file"), _redis_url),
    (_REDIS_TOKENS, _redis_tokens),
    (_REDIS_KEYS, _redis_logins),
    (("redis.url",), _redis_address),
    (("redis.url",), _redis_database),
    (_REGISTRY_KEYS, _registry),
    (_REGISTRY_KEYS, _registry_login),
)
"""(the keys that a rule reads, the rule)"""
