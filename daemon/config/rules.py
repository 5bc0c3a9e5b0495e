"""Rules between settings, and on elements of lists: what one key's kind alone cannot judge. Pure.

One table at the end. A rule is asked only where every key it reads could be read, so no fault is
told twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np

from relevanced.daemon.config import experiments, propensities
from relevanced.daemon.config.kinds import shown
from relevanced.daemon.config.settings import Config
from relevanced.daemon.events import MAX_TEXT_BYTES
from relevanced.daemon.formats.decoders import FORMATS
from relevanced.daemon.plan import ALL, EXPERIMENT_PREFIX, LARGEST_EXACT
from relevanced.metrics.lists import Lists
from relevanced.metrics.metric import Metric, Need
from relevanced.metrics.propensities import CLIP

HIGHEST_PORT: Final = 65_535
SECRETS_TWICE: Final = (
    ("kafka", "sasl_password", "sasl_password_file"),
    ("kafka", "ssl_key_password", "ssl_key_password_file"),
    ("redis", "password", "password_file"),
)
"""(section, key of a secret, key of the file that may hold it instead)"""
CARRIED: Final[tuple[Need, ...]] = ("timing", "propensities")
"""What the daemon can know of an impression beyond its list and gains."""
SASL_KEYS: Final = ("sasl_mechanism", "sasl_username", "sasl_password", "sasl_password_file")
SSL_KEYS: Final = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_key_password",
    "ssl_key_password_file",
)


@dataclass(frozen=True)
class Fault:
    """One broken rule of one key."""

    key: str
    value: object
    """None where there is no value to show, or none that should be."""
    rule: str

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.key}: {self.rule}"
        return f"{self.key}={shown(self.value)}: {self.rule}"


def broken(config: Config, unreadable: Iterable[str] = ()) -> list[Fault]:
    """Every fault of the configuration, but for rules that read an unreadable key."""
    without = set(unreadable)
    return [
        fault for keys, rule in RULES if not without.intersection(keys) for fault in rule(config)
    ]


def _windows(config: Config) -> Iterator[Fault]:
    twice = Counter(seconds for _, seconds in config.windows)
    for name, seconds in config.windows:
        if twice[seconds] > 1:
            yield Fault("windows", name, "stands more than once")
    if len(twice) < len(config.windows):
        return
    try:
        config.timing
    except ValueError as error:
        names = [name for name, _ in config.windows]
        yield Fault("windows", names, str(error).removeprefix("windows: "))


def _topics(config: Config) -> Iterator[Fault]:
    yield from _some("kafka.topics", config.kafka.topics, "topic")
    yield from _once("kafka.topics", config.kafka.topics)
    if config.events.dead_letter_topic in config.kafka.topics:
        rule = "must not be an input topic (kafka.topics)"
        yield Fault("events.dead_letter_topic", config.events.dead_letter_topic, rule)


def _brokers(config: Config) -> Iterator[Fault]:
    yield from _some("kafka.bootstrap_servers", config.kafka.bootstrap_servers, "broker")
    for server in config.kafka.bootstrap_servers:
        if not 0 < int(server.rpartition(":")[2]) <= HIGHEST_PORT:
            yield Fault("kafka.bootstrap_servers", server, f"port must be 1 to {HIGHEST_PORT}")


def _sasl(config: Config) -> Iterator[Fault]:
    kafka = config.kafka
    if not kafka.security_protocol.startswith("SASL_"):
        yield from _unused(kafka, SASL_KEYS, 'security_protocol "SASL_SSL" or "SASL_PLAINTEXT"')
        return
    needed = {
        "sasl_mechanism": kafka.sasl_mechanism,
        "sasl_username": kafka.sasl_username,
        "sasl_password": kafka.sasl_password or kafka.sasl_password_file,
    }
    for name, value in needed.items():
        if value is None:
            yield Fault(f"kafka.{name}", None, f"must be set for {kafka.security_protocol}")


def _ssl(config: Config) -> Iterator[Fault]:
    kafka = config.kafka
    if not kafka.security_protocol.endswith("SSL"):
        yield from _unused(kafka, SSL_KEYS, 'security_protocol "SSL" or "SASL_SSL"')
    elif kafka.ssl_keyfile is not None and kafka.ssl_certfile is None:
        yield Fault("kafka.ssl_keyfile", kafka.ssl_keyfile, "needs ssl_certfile beside it")


def _secrets(config: Config) -> Iterator[Fault]:
    for section, name, file_name in SECRETS_TWICE:
        owner = getattr(config, section)
        file = getattr(owner, file_name)
        if file is not None and getattr(owner, name) is not None:
            yield Fault(f"{section}.{file_name}", file, f"{name} is given already: keep one")


def _redis_url(config: Config) -> Iterator[Fault]:
    redis = config.redis
    credentials, at, _ = redis.url.reveal().partition("://")[2].rpartition("@")
    if not at or not credentials.partition(":")[2]:
        return
    for name in ("password", "password_file"):
        if getattr(redis, name) is not None:
            yield Fault(f"redis.{name}", getattr(redis, name), "the URL holds a password: keep one")


def _redis_address(config: Config) -> Iterator[Fault]:
    """A password whose `/`, `?` or `#` ends the address early would come out in error messages. So
    would the value here, which may hold the password in a wrong place: it stays unsaid."""
    rule = "is no URL of host:port: special characters of a password must be written as %2F, %40 …"
    try:
        parts = urlsplit(config.redis.url.reveal())
        hosts = parts.netloc.rpartition("@")[2].split(",")
        ports = [urlsplit(f"//{host}").port for host in hosts]
    except ValueError:
        yield Fault("redis.url", None, rule)
        return
    late_at = "@" not in parts.netloc and "@" in f"{parts.path}{parts.query}{parts.fragment}"
    if late_at or 0 in ports:
        yield Fault("redis.url", None, rule)


def _format(config: Config) -> Iterator[Fault]:
    if config.events.format not in FORMATS:
        yield Fault("events.format", config.events.format, f"must be one of {', '.join(FORMATS)}")


def _grades(config: Config) -> Iterator[Fault]:
    for kind in config.attribution.grades:
        if not 0 < len(kind.encode()) <= MAX_TEXT_BYTES:
            rule = f"a kind must be 1 to {MAX_TEXT_BYTES} bytes"
            yield Fault("attribution.grades", kind, rule)
    highest = max(config.attribution.grades.values(), default=0.0)
    max_grade = config.metrics.max_grade
    if max_grade is not None and max_grade < highest:
        rule = f"must be >= the highest of attribution.grades ({highest:g})"
        yield Fault("metrics.max_grade", max_grade, rule)


def _relevant(config: Config) -> Iterator[Fault]:
    if config.metrics.relevant_from > config.resolved_max_grade:
        rule = f"must be <= the highest grade ({config.resolved_max_grade:g}): nothing is relevant"
        yield Fault("metrics.relevant_from", config.metrics.relevant_from, rule)


def _metrics(config: Config) -> Iterator[Fault]:
    yield from _some("metrics.names", config.metrics.names, "metric")
    meant: Counter[str] = Counter()
    for name in config.metrics.names:
        try:
            metric = config.parse_metric(name)
        except ValueError as error:
            yield Fault("metrics.names", name, str(error).removeprefix(f"{name!r}: "))
            continue
        meant[metric.name] += 1
        refusal = metric.refusal(CARRIED)
        if refusal is not None:
            yield Fault("metrics.names", name, refusal)
        if meant[metric.name] == 2:
            yield Fault("metrics.names", name, f"{metric.name} stands more than once")


def _cutoffs(config: Config) -> Iterator[Fault]:
    for name in config.metrics.names:
        with suppress(ValueError):  # told by the rule of the names
            metric = config.parse_metric(name)
            if metric.k is not None and metric.k > config.metrics.depth:
                yield Fault("metrics.names", name, f"k must be <= depth ({config.metrics.depth})")


def _exact(config: Config) -> Iterator[Fault]:
    """Counters hold whole numbers: the best list there can be must not pass what is exact."""
    best = np.full((1, config.metrics.depth), config.resolved_max_grade)
    clip = CLIP if config.propensities is None else config.propensities.clip
    lists = Lists(
        gains=best,
        lengths=np.array([best.size]),
        judged=np.ones(best.shape, np.bool_),
        weights=np.full(best.shape, clip),
    )
    for name in config.metrics.names:
        with suppress(ValueError):  # told by the rule of the names
            metric = config.parse_metric(name)
            if metric.refusal(["propensities"]) is not None:
                continue
            with np.errstate(all="ignore"):
                value = float(metric.values(lists)[0])
            if not metric.unit * max(value, value * value) < LARGEST_EXACT:
                rule = f"can get too large to be counted with grades up to {best.max():g}"
                yield Fault("metrics.names", name, rule)


def _groupings(config: Config) -> Iterator[Fault]:
    groupings = config.segments.groupings
    seen: set[frozenset[str]] = set()
    for names in groupings:
        rule = _grouping_rule(names)
        if rule is None and frozenset(names) in seen:
            rule = "stands more than once"
        seen.add(frozenset(names))
        if rule is not None:
            yield Fault("segments.groupings", list(names), rule)


def _grouping_rule(names: tuple[str, ...]) -> str | None:
    if names in ((), (ALL,)):
        return "must name attributes: the whole is always there"
    if len(set(names)) < len(names):
        return "names an attribute more than once"
    if any("," in name for name in names):
        return "a name must not hold a comma"
    if any(len(name.encode()) > MAX_TEXT_BYTES for name in names):
        return f"a name must be at most {MAX_TEXT_BYTES} bytes"
    if EXPERIMENT_PREFIX in names:
        return f"{EXPERIMENT_PREFIX} must be followed by the name of an experiment"
    return None


def _experiments(config: Config) -> Iterator[Fault]:
    by_name = _by_name(config)
    metrics = by_name | {metric.name: metric for metric in by_name.values()}
    groupings = [",".join(names) for names in config.segments.groupings]
    told = experiments.broken(config.experiments, metrics, groupings)
    yield from (Fault(*fault) for fault in told)


def _propensities(config: Config) -> Iterator[Fault]:
    metrics, depth = list(_by_name(config).values()), config.metrics.depth
    yield from (Fault(*told) for told in propensities.broken(config.propensities, metrics, depth))


def _by_name(config: Config) -> dict[str, Metric]:
    """The metrics by their names as written, as far as they can be read."""
    metrics: dict[str, Metric] = {}
    for name in config.metrics.names:
        with suppress(ValueError):  # told by the rule of the names
            metrics[name] = config.parse_metric(name)
    return metrics


def _listen(config: Config) -> Iterator[Fault]:
    if config.http.port > HIGHEST_PORT:
        yield Fault("http.listen", config.http.listen, f"port must be 0 to {HIGHEST_PORT}")


def _keep(config: Config) -> Iterator[Fault]:
    longest_s = max((seconds for _, seconds in config.windows), default=0)
    if config.redis.keep_s < longest_s:
        rule = f"must be >= the longest window ({longest_s}s)"
        yield Fault("redis.keep", f"{config.redis.keep_s}s", rule)


def _some(key: str, values: tuple[str, ...], what: str) -> Iterator[Fault]:
    if not values:
        yield Fault(key, [], f"at least one {what} is needed")


def _once(key: str, values: tuple[str, ...]) -> Iterator[Fault]:
    for value, count in Counter(values).items():
        if count > 1:
            yield Fault(key, value, "stands more than once")


def _unused(kafka: Any, names: tuple[str, ...], needs: str) -> Iterator[Fault]:
    """Credentials that would silently not be used, where their owner thinks the connection safe."""
    for name in names:
        value = getattr(kafka, name)
        if value is not None:
            rule = f"is of no effect with {kafka.security_protocol}: needs {needs}"
            yield Fault(f"kafka.{name}", value, rule)


_GRADES_KEYS = ("attribution.grades", "metrics.max_grade")
_SASL_KEYS = ("kafka.security_protocol", *(f"kafka.{name}" for name in SASL_KEYS))
_SSL_KEYS = ("kafka.security_protocol", *(f"kafka.{name}" for name in SSL_KEYS))
_SECRET_KEYS = tuple(f"{section}.{name}" for section, *names in SECRETS_TWICE for name in names)

RULES: Final[tuple[tuple[tuple[str, ...], Callable[[Config], Iterator[Fault]]], ...]] = (
    (("windows",), _windows),
    (("kafka.topics", "events.dead_letter_topic"), _topics),
    (("kafka.bootstrap_servers",), _brokers),
    (_SASL_KEYS, _sasl),
    (_SSL_KEYS, _ssl),
    (_SECRET_KEYS, _secrets),
    (("redis.url", "redis.password", "redis.password_file"), _redis_url),
    (("redis.url",), _redis_address),
    (("redis.keep", "windows"), _keep),
    (("events.format",), _format),
    (_GRADES_KEYS, _grades),
    (("metrics.relevant_from", *_GRADES_KEYS), _relevant),
    (("metrics.names",), _metrics),
    (("metrics.names", "metrics.depth"), _cutoffs),
    (("metrics.names", "metrics.depth", *_GRADES_KEYS), _exact),
    (("segments.groupings",), _groupings),
    (("http.listen",), _listen),
    (("metrics.names", "segments.groupings", *_GRADES_KEYS), _experiments),
    (("propensities", "metrics.names", "metrics.depth", *_GRADES_KEYS), _propensities),
)
"""(the keys that a rule reads, the rule)"""
