"""The table of settings: a frozen class per section; per key its default, kind and help.

Reading, the documentation and the namespace hash all go by this table. Pure.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from .kinds import (
    Kind,
    Secret,
    choice,
    duration,
    flag,
    integer,
    masked_url,
    number,
    optional,
    secret,
    text,
)
from .lists import groupings, several, table
from .start import Start, start

T = TypeVar("T")

HIGHEST_GRADE: Final = 1000
"""The exponential gain, 2 ** grade, is still finite when summed over a list."""
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def setting(default: object, kind: Kind[T], help_text: str, *, restarts: bool = False) -> T:
    """One key of a section. `restarts`: it shapes rows, so a change starts a fresh namespace."""
    metadata = {"default": default, "kind": kind, "help": help_text, "restarts": restarts}
    return field(default_factory=partial(kind.read, default), metadata=metadata)


_TOPIC = text(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "must be 1 to 249 of letters, digits, . _ -")
_GRADE = number(
    f"must be a number between 0 and {HIGHEST_GRADE}", lambda v: 0 <= v <= HIGHEST_GRADE
)
_POSITIVE = number(f"must be > 0 and <= {HIGHEST_GRADE}", lambda v: 0 < v <= HIGHEST_GRADE)
_PATH = optional(text(rule="must be a file name"))
_SERVER = text(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):\d{1,5}", "must be host:port")
_LISTEN = text(
    r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]*):\d{1,5}", 'must be host:port or :port, as "0.0.0.0:9465"'
)
_NAME = text(r"[A-Za-z0-9_.-]+", "must be letters, digits, . _ -")


@dataclass(frozen=True)
class KafkaSection:
    """Where the events come from."""

    bootstrap_servers: tuple[str, ...] = setting(
        ["localhost:9092"], several(_SERVER, "list of host:port"), "Brokers to ask first."
    )
    topics: tuple[str, ...] = setting(
        ["search-events"],
        several(_TOPIC, "list of topics"),
        "Topics to read: equal partition counts, the same key and the same partitioner.",
        restarts=True,
    )
    group_id: str = setting(
        "relevanced", _NAME, "Consumer group. It gets the hash of what shapes rows at its end."
    )
    client_id: str = setting("relevanced", text(), "How this client is named in the broker's logs.")
    start: Start | None = setting(
        None,
        optional(start()),
        "Where a new namespace starts reading. Default: as far back as the longest window needs; "
        '"earliest" gives baselines from the first hour.',
    )
    security_protocol: str = setting(
        "PLAINTEXT", choice(*SECURITY_PROTOCOLS), "How the brokers are talked to."
    )
    sasl_mechanism: str | None = setting(
        None, optional(choice(*SASL_MECHANISMS)), "How this client proves who it is."
    )
    sasl_username: str | None = setting(None, optional(text()), "User name for SASL.")
    sasl_password: Secret | None = setting(None, optional(secret()), "Password for SASL.")
    sasl_password_file: str | None = setting(None, _PATH, "File that holds the password for SASL.")
    ssl_cafile: str | None = setting(
        None, _PATH, "Certificates that are trusted (PEM). Default: those of the system."
    )
    ssl_certfile: str | None = setting(None, _PATH, "Certificate of this client (PEM).")
    ssl_keyfile: str | None = setting(None, _PATH, "Private key of this client (PEM).")
    ssl_key_password: Secret | None = setting(
        None, optional(secret()), "Password of the private key."
    )
    ssl_key_password_file: str | None = setting(
        None, _PATH, "File that holds the password of the private key."
    )
    ssl_check_hostname: bool = setting(
        True, flag(), "Whether a broker's certificate must name its host."
    )
    session_timeout_s: int = setting(
        "45s", duration(1000, 6_000, 1_800_000), "Silence after which a member is taken for dead."
    )
    max_batch_records: int = setting(40_000, integer(1, 1_000_000), "Most records in one commit.")
    commit_interval_ms: int = setting(
        "500ms", duration(1, 0, 5_000), "How long a commit gathers records when few come."
    )
    isolation_level: str = setting(
        "read_committed",
        choice("read_committed", "read_uncommitted"),
        "Whether records of aborted transactions are left out.",
        restarts=True,
    )


@dataclass(frozen=True)
class RedisSection:
    """Where the state lives."""

    url: Secret = setting(
        "redis://localhost:6379/0",
        secret(
            masked_url,
            r"(rediss?|rediss?\+cluster|redis\+sentinel)://.+",
            "must start with redis://, rediss://, redis+cluster://, rediss+cluster:// or"
            " redis+sentinel://",
        ),
        "redis://, rediss:// (TLS), redis+cluster://, rediss+cluster:// or redis+sentinel://.",
    )
    password: Secret | None = setting(
        None, optional(secret()), "Password, where the URL holds none."
    )
    password_file: str | None = setting(None, _PATH, "File that holds the password.")
    namespace: str = setting(
        "relevanced", _NAME, "First part of every key. It gets the hash of what shapes rows."
    )
    keep_s: int = setting(
        "7d", duration(1000, 3_600_000), "Time without a commit after which a namespace is removed."
    )


@dataclass(frozen=True)
class EventsSection:
    """How records are read."""

    format: str = setting("native", text(), "Format of the records.", restarts=True)
    max_future_s: int = setting(
        "5m",
        duration(1000, 0),
        "How far an event may lie ahead of its record's own Kafka timestamp.",
        restarts=True,
    )
    max_record_bytes: int = setting(
        1_048_576, integer(1, 2**31 - 1), "Larger records are refused.", restarts=True
    )
    dead_letter_topic: str | None = setting(
        None, optional(_TOPIC), "Topic that gets the refused records. Default: none gets them."
    )
    rank_base: int = setting(
        1,
        integer(0, 1),
        "Rank of the first item, for formats that leave it to the producer.",
        restarts=True,
    )


@dataclass(frozen=True)
class AttributionSection:
    """Which feedback counts for which impression, and how much."""

    window_s: int = setting(
        "30m", duration(1000, 1000), "How long after an impression feedback counts.", restarts=True
    )
    lateness_s: int = setting(
        "1m", duration(1000, 0), "How much disorder of events is waited for.", restarts=True
    )
    grades: dict[str, float] = setting(
        {"click": 1, "add_to_cart": 2, "purchase": 3},
        table("table of kind to grade", _GRADE),
        "Grade of each kind of feedback; a table given here replaces the default one.",
        restarts=True,
    )


@dataclass(frozen=True)
class MetricsSection:
    """Which numbers are kept."""

    names: tuple[str, ...] = setting(
        ["P@1", "P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10"],
        several(text(rule="must be the name of a metric"), "list of metrics"),
        "Metrics, spelled as `nDCG@10` or `nDCG(gain=linear)@10`.",
        restarts=True,
    )
    relevant_from: float = setting(
        1, _POSITIVE, "Lowest gain that P, RR and Success call relevant.", restarts=True
    )
    max_grade: float | None = setting(
        None,
        optional(_POSITIVE),
        "Highest grade that can be given. Default: the highest of attribution.grades.",
        restarts=True,
    )
    depth: int = setting(100, integer(1, 1000), "Ranks of a list that are kept.", restarts=True)


@dataclass(frozen=True)
class SegmentsSection:
    """What the numbers are broken down by."""

    groupings: tuple[tuple[str, ...], ...] = setting(
        [["country"], ["device"], ["country", "device"]],
        groupings(),
        "Lists of attribute names; `experiment:NAME` is the variant of an experiment.",
        restarts=True,
    )
    max_segments: int = setting(
        100, integer(1, 100_000), "Values of a grouping that are shown.", restarts=True
    )
    discovered_experiments: int = setting(
        8,
        integer(0, 1_000),
        "Experiments taken from events beside those of [experiments.NAME]; 0: none.",
    )


@dataclass(frozen=True)
class HistorySection:
    """What is kept of the past, to know what is usual."""

    days: int = setting(
        35,
        integer(0, 400),
        "Days of hourly rows of what has settled, for baselines; 0 keeps none. A new namespace has "
        'what lies behind kafka.start: "earliest" fills it from all that the log holds.',
        restarts=True,
    )


@dataclass(frozen=True)
class WorkerSection:
    """What a process may take that reads events."""

    max_memory_mib: int | None = setting(
        None,
        optional(integer(1, 1 << 30)),
        "Memory (MiB) at which no more is read. Default: 85 % of the container's limit, if any.",
    )


@dataclass(frozen=True)
class HttpSection:
    """Where scores are served."""

    listen: str = setting("0.0.0.0:9465", _LISTEN, "Address and port.")
    web_config: str | None = setting(
        None,
        _PATH,
        "Web configuration file as Prometheus exporters take it (TLS, passwords).",
    )

    @property
    def host(self) -> str:
        """Address to listen on; empty for all of them."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Port to listen on; 0 for any free one."""
        return int(self.listen.rpartition(":")[2])


@dataclass(frozen=True)
class LogSection:
    """What is said on the standard error stream."""

    level: str = setting("info", choice("debug", "info", "warning", "error"), "Least severity.")
    format: str = setting(
        "auto", choice("auto", "console", "json"), "auto: console on a terminal, JSON elsewhere."
    )
