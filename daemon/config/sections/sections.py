"""The table of settings: a frozen class per section, with default, kind and help of each key.
Pure.

Reading, writing and the namespace hash are all made from this table.
"""

from dataclasses import dataclass
from typing import Final

from ...events import BY_ID, JOINS, LISTS, LOGGED
from ..values.kinds import (
    JOIN,
    LAYOUT,
    choice,
    duration,
    flag,
    groupings,
    integer,
    masked_url,
    number,
    optional,
    or_off,
    secret,
    setting,
    several,
    table,
    text,
)
from ..values.rules import Start, log_start, masked_urls, urls_pattern
from ..values.secrets import Secret

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER: Final = "OAUTHBEARER"
MSK: Final = "AWS_MSK_IAM_OAUTHBEARER"
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, MSK)
OIDC: Final = "oidc"
AZURE: Final = "azure"
GCP: Final = "gcp"
ELASTICACHE: Final = "elasticache"
ELASTICACHE_SERVERLESS: Final = "elasticache_serverless"
MEMORYDB: Final = "memorydb"
TOKENS_OF_REDIS: Final = (OIDC, AZURE, GCP, ELASTICACHE, ELASTICACHE_SERVERLESS, MEMORYDB)
"""What gives tokens."""
ONE: Final = "one"  # lane, of all partitions of all topics
REKEY: Final = "rekey"  # events that a stage divides by visitor or id
CONFLUENT: Final = "confluent"
GLUE: Final = "glue"
"""Kinds of schema registries."""

TOPIC = text(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}", "must be 1 to 249 of letters, digits, . _ -")
_PATH = optional(text(rule="must be a file name"))
_SERVER = text(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):\d{1,5}", "must be host:port")
_LISTEN = text(
    r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]*):\d{1,5}",
    'must be host:port or :port, such as "0.0.0.0:9465"',
)
_TOKEN_URL = optional(text(r"https?://[^\s@]+", "must be http(s)://host:port/path without a login"))
_TOKEN_URL_TEXT: Final = "Where oidc asks for tokens, by client credentials."
_TOKEN_CLIENT: Final = "Client id; for azure that of the identity."
_TOKEN_SECRET: Final = "File with its secret."
_TOKEN_SCOPE: Final = "Scope of the tokens."
_TOKEN_REGION: Final = "Region of AWS."
_CAFILE: Final = "Trusted certificates (PEM). Default: those of the system."
_CERTFILE: Final = "Certificate of this client (PEM)."
_KEYFILE: Final = "Private key of this client (PEM)."
_CHECK_HOSTNAME: Final = "Whether the certificate of a server must name its host."
_KEY_PASSWORD: Final = "Password of the private key."
_KEY_PASSWORD_FILE: Final = "File with the password of the private key."
_NAME = text(r"[A-Za-z0-9_.-]+", "must be letters, digits, . _ -")


@dataclass(frozen=True)
class KafkaSection:
    """The connection to Kafka, and what is read."""

    bootstrap_servers: tuple[str, ...] = setting(
        ["localhost:9092"],
        several(_SERVER, "list of host:port"),
        "Brokers of the first connection.",
    )
    topics: tuple[str, ...] = setting(
        ["search-events"],
        several(TOPIC, "list of topics"),
        'Topics; with lanes = "partition" of equal counts, key and partitioner.',
        shapes=JOIN,
    )
    lanes: str = setting(
        "partition",
        choice("partition", ONE, REKEY),
        f'A lane is the same "partition" of every topic, "{ONE}" has all, or "{REKEY}" divides.',
        shapes=JOIN,
    )
    idle_after_s: int = setting(
        "1m",
        or_off(duration(1000, 5_000, 86_400_000)),
        f'With "{ONE}" or "{REKEY}", a partition without records for so long is not waited for.',
    )
    group_id: str = setting(
        "relevanced", _NAME, "Consumer group; a hash of what the join depends on is appended."
    )
    client_id: str = setting(
        "relevanced", text(), "Client id; the host and the process id are appended."
    )
    start: Start | None = setting(
        None,
        optional(log_start()),
        "Where a new namespace starts reading. Default: as long ago as the longest window needs; "
        '"earliest" gives baselines from the first hour.',
    )
    security_protocol: str = setting(
        "PLAINTEXT", choice(*SECURITY_PROTOCOLS, hides=True), "Protocol of the connections."
    )
    sasl_mechanism: str | None = setting(
        None, optional(choice(*SASL_MECHANISMS, hides=True)), "How this client authenticates."
    )
    sasl_username: str | None = setting(None, optional(text()), "User name for SASL.")
    sasl_password: Secret | None = setting(None, optional(secret()), "Password for SASL.")
    sasl_password_file: str | None = setting(None, _PATH, "File with the password for SASL.")
    token: str | None = setting(
        None,
        optional(choice(OIDC, AZURE, GCP, hides=True)),
        "What gives OAUTHBEARER tokens. Default: oidc.",
    )
    token_url: str | None = setting(None, _TOKEN_URL, _TOKEN_URL_TEXT)
    token_client_id: str | None = setting(None, optional(text()), _TOKEN_CLIENT)
    token_client_secret_file: str | None = setting(None, _PATH, _TOKEN_SECRET)
    token_scope: str | None = setting(None, optional(text()), _TOKEN_SCOPE)
    token_region: str | None = setting(None, optional(_NAME), _TOKEN_REGION)
    ssl_cafile: str | None = setting(None, _PATH, _CAFILE)
    ssl_certfile: str | None = setting(None, _PATH, _CERTFILE)
    ssl_keyfile: str | None = setting(None, _PATH, _KEYFILE)
    ssl_key_password: Secret | None = setting(None, optional(secret()), _KEY_PASSWORD)
    ssl_key_password_file: str | None = setting(None, _PATH, _KEY_PASSWORD_FILE)
    ssl_check_hostname: bool = setting(True, flag(), _CHECK_HOSTNAME)
    session_timeout_s: int = setting(
        "45s",
        duration(1000, 6_000, 1_800_000),
        "Time without a heartbeat after which Kafka removes a member from the group.",
    )
    max_batch_records: int = setting(40_000, integer(1, 1_000_000), "Most records in one commit.")
    commit_interval_ms: int = setting(
        "500ms", duration(1, 0, 5_000), "How long a commit waits for more records."
    )
    isolation_level: str = setting(
        "read_committed",
        choice("read_committed", "read_uncommitted"),
        "read_committed leaves out records of aborted transactions.",
        shapes=JOIN,
    )


@dataclass(frozen=True)
class RedisSection:
    """The connection to Redis, which stores the state."""

    url: Secret = setting(
        "redis://localhost:6379/0",
        secret(
            masked_url,
            r"rediss?(\+cluster|\+sentinel)?://.+",
            "must start with redis://, redis+cluster:// or redis+sentinel://; rediss is for TLS",
        ),
        "redis://USER@HOST:PORT/DB, redis+cluster://… or redis+sentinel://HOST,HOST/NAME; with TLS,"
        " to Sentinels too, rediss…",
    )
    password: Secret | None = setting(
        None, optional(secret()), "Password, if the URL contains none."
    )
    password_file: str | None = setting(None, _PATH, "File with the password.")
    token: str | None = setting(
        None,
        optional(choice(*TOKENS_OF_REDIS, hides=True)),
        "What gives tokens in place of a password.",
    )
    token_url: str | None = setting(None, _TOKEN_URL, _TOKEN_URL_TEXT)
    token_client_id: str | None = setting(None, optional(text()), _TOKEN_CLIENT)
    token_client_secret_file: str | None = setting(None, _PATH, _TOKEN_SECRET)
    token_scope: str | None = setting(None, optional(text()), _TOKEN_SCOPE)
    token_region: str | None = setting(None, optional(_NAME), _TOKEN_REGION)
    token_cache: str | None = setting(None, optional(_NAME), "Name of the cache in AWS.")
    sentinel_username: str | None = setting(None, optional(text()), "User name for the Sentinels.")
    sentinel_password: Secret | None = setting(
        None, optional(secret()), "Password for the Sentinels."
    )
    sentinel_password_file: str | None = setting(
        None, _PATH, "File with the password for the Sentinels."
    )
    ssl_cafile: str | None = setting(None, _PATH, _CAFILE)
    ssl_certfile: str | None = setting(None, _PATH, _CERTFILE)
    ssl_keyfile: str | None = setting(None, _PATH, _KEYFILE)
    ssl_key_password: Secret | None = setting(None, optional(secret()), _KEY_PASSWORD)
    ssl_key_password_file: str | None = setting(None, _PATH, _KEY_PASSWORD_FILE)
    ssl_check_hostname: bool = setting(True, flag(), _CHECK_HOSTNAME)
    namespace: str = setting(
        "relevanced",
        _NAME,
        "First part of every key; a hash of what the join depends on is appended.",
    )
    keep_s: int = setting(
        "7d", duration(1000, 3_600_000), "A namespace without a worker for this long is removed."
    )


@dataclass(frozen=True)
class EventsSection:
    """How records are decoded."""

    format: str = setting("native", text(), "Format of the records.", shapes=JOIN)
    max_future_s: int = setting(
        "5m",
        duration(1000, 0),
        "How far an event may be ahead of the Kafka timestamp of its record.",
        shapes=JOIN,
    )
    max_record_bytes: int = setting(
        1_048_576, integer(1, 2**31 - 1), "Larger records are refused.", shapes=JOIN
    )
    dead_letter_topic: str | None = setting(
        None, optional(TOPIC), "Topic to which refused records are sent. Default: none."
    )
    rank_base: int = setting(
        1,
        integer(0, 1),
        "Rank of the first item, in formats that leave it to the producer.",
        shapes=JOIN,
    )
    ubi_lists: str = setting(
        LOGGED,
        choice(*LISTS),
        "Lists of ubi: logged with the query, or made of the items shown.",
        shapes=JOIN,
    )


@dataclass(frozen=True)
class RegistrySection:
    """The schema registry that records name their schemas in."""

    url: Secret | None = setting(
        None,
        optional(
            secret(
                masked_urls,
                urls_pattern(),
                "must be http(s)://host:port/path, or several of them separated by commas",
            )
        ),
        "Address, or several with commas, tried in turn; of Apicurio Registry with its path: "
        "http://host:8080/apis/ccompat/v7.",
    )
    kind: str = setting(
        CONFLUENT,
        choice(CONFLUENT, GLUE, hides=True),
        "confluent: the REST protocol of Confluent, Redpanda, Karapace and Apicurio. glue: AWS"
        " Glue.",
    )
    region: str | None = setting(
        None, optional(text(r"[a-z0-9-]+", "must be a region such as eu-west-1")), "Region of Glue."
    )
    username: str | None = setting(None, optional(text()), "User name, or API key.")
    password: Secret | None = setting(None, optional(secret()), "Password, or secret of the key.")
    password_file: str | None = setting(None, _PATH, "File with the password.")
    bearer_token_file: str | None = setting(
        None, _PATH, "File with a bearer token, read again for each request."
    )
    ssl_cafile: str | None = setting(None, _PATH, _CAFILE)
    ssl_certfile: str | None = setting(None, _PATH, _CERTFILE)
    ssl_keyfile: str | None = setting(None, _PATH, _KEYFILE)
    ssl_key_password: Secret | None = setting(None, optional(secret()), _KEY_PASSWORD)
    ssl_key_password_file: str | None = setting(None, _PATH, _KEY_PASSWORD_FILE)
    ssl_check_hostname: bool = setting(True, flag(), _CHECK_HOSTNAME)

    @property
    def is_given(self) -> bool:
        """Whether there is a registry to ask."""
        return self.kind == GLUE or self.url is not None


@dataclass(frozen=True)
class WorkerSection:
    """Limits of a process that reads events."""

    max_memory_mib: int | None = setting(
        None,
        optional(integer(1, 1 << 30)),
        "Memory (MiB) at which reading pauses. Default: 85 % of the container's limit, if any.",
    )


@dataclass(frozen=True)
class HttpSection:
    """The HTTP server."""

    listen: str = setting("0.0.0.0:9465", _LISTEN, "Address and port to listen on.")
    web_config: str | None = setting(
        None,
        _PATH,
        "Web configuration file (TLS, passwords), in the format of Prometheus exporters.",
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
    """The log on the standard error stream."""

    level: str = setting(
        "info", choice("debug", "info", "warning", "error"), "Lowest severity that is logged."
    )
    format: str = setting(
        "auto", choice("auto", "console", "json"), "auto is console on a terminal, else json."
    )
    record_values: bool = setting(
        False,
        flag(),
        "Whether lines on refused records show the refused value, which may be personal data.",
    )


HIGHEST_GRADE: Final = 1000
"""Up to this grade the sum of exponential gains, 2 ** grade, over a list is finite."""
_GRADE = number(
    f"must be a number between 0 and {HIGHEST_GRADE}", lambda v: 0 <= v <= HIGHEST_GRADE
)
_POSITIVE = number(f"must be > 0 and <= {HIGHEST_GRADE}", lambda v: 0 < v <= HIGHEST_GRADE)


@dataclass(frozen=True)
class AttributionSection:
    """Which feedback counts for which impression, and how much."""

    window_s: int = setting(
        "30m", duration(1000, 1000), "How long after its impression feedback counts.", shapes=JOIN
    )
    lateness_s: int = setting(
        "1m",
        duration(1000, 0),
        "How late an event may be, compared with the events before it.",
        shapes=JOIN,
    )
    pane_s: int | None = setting(
        None,
        optional(duration(1000, 1000)),
        "Length of a base pane, the unit of lateness. Default: a 30th of the shortest window.",
        shapes=JOIN,
    )
    grades: dict[str, float] = setting(
        {"click": 1, "add_to_cart": 2, "purchase": 3},
        table("table of kind to grade", _GRADE),
        "Grade of each kind of feedback. A table replaces the whole default.",
        shapes=JOIN,
    )
    join: str = setting(
        BY_ID,
        choice(*JOINS),
        "By what feedback joins: its id, or the visitor's latest list that had the item.",
        shapes=JOIN,
    )
    touch_wait_s: int = setting(
        "10s",
        duration(1000, 5000),
        "How long last touch waits for lists that come later: 5s to attribution.lateness.",
        shapes=JOIN,
    )

    @property
    def is_by_id(self) -> bool:
        """Whether all feedback joins by its id."""
        return self.join == BY_ID


@dataclass(frozen=True)
class MetricsSection:
    """The metrics that are computed."""

    names: tuple[str, ...] = setting(
        ["P@1", "P@5", "P@10", "Success@10", "RR@10", "ERR@10", "nDCG@10"],
        several(text(rule="must be the name of a metric"), "list of metrics"),
        "Metrics, spelled as `nDCG@10` or `nDCG(gain=linear)@10`.",
        shapes=LAYOUT,
    )
    relevant_from: float = setting(
        1,
        _POSITIVE,
        "Lowest gain of a relevant item, for P, RR, Success and the like.",
        shapes=LAYOUT,
    )
    max_grade: float | None = setting(
        None,
        optional(_POSITIVE),
        "Highest grade that can be given. Default: the highest of attribution.grades.",
        shapes=JOIN,
    )
    depth: int = setting(100, integer(1, 1000), "Ranks of a list that are kept.", shapes=JOIN)


@dataclass(frozen=True)
class SegmentsSection:
    """The breakdown of traffic into segments."""

    groupings: tuple[tuple[str, ...], ...] = setting(
        [["country"], ["device"], ["country", "device"]],
        groupings(),
        "Lists of attribute names. `experiment:NAME` stands for the variant of an experiment.",
        shapes=LAYOUT,
    )
    max_segments: int = setting(
        100,
        integer(1, 100_000),
        "Largest number of segments of a grouping that get series.",
    )
    version_attribute: str | None = setting(
        None, optional(text()), "Attribute, a grouping of its own, whose new values are releases."
    )
    max_values: int | None = setting(
        None,
        optional(integer(1, 1_000_000)),
        "Values of a grouping that are admitted. Default: 10 times max_segments, at least 1000.",
        shapes=LAYOUT,
    )
    discovered_experiments: int = setting(
        8,
        integer(0, 1_000),
        "Experiments that are taken from events beside those declared; 0: none.",
        shapes=LAYOUT,
    )


@dataclass(frozen=True)
class HistorySection:
    """The history that baselines are computed from."""

    days: int = setting(
        35,
        integer(0, 400),
        "Days of settled hourly rows that are kept for baselines; 0: none.",
        shapes=LAYOUT,
    )
