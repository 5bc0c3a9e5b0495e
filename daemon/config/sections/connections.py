"""Sections of the connections: to Kafka, to Redis, to a schema registry. Pure."""

from dataclasses import dataclass
from typing import Final

from ..values.kinds import (
    JOIN,
    NAME,
    PATH,
    TOPIC,
    choice,
    duration,
    flag,
    integer,
    masked_url,
    optional,
    or_off,
    secret,
    setting,
    several,
    text,
)
from ..values.secrets import Secret
from ..values.shared_rules import Start, log_start, masked_urls, urls_pattern

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
_SERVER = text(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+):\d{1,5}", "must be host:port")
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
        "relevanced", NAME, "Consumer group; a hash of what the join depends on is appended."
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
    sasl_password_file: str | None = setting(None, PATH, "File with the password for SASL.")
    token: str | None = setting(
        None,
        optional(choice(OIDC, AZURE, GCP, hides=True)),
        "What gives OAUTHBEARER tokens. Default: oidc.",
    )
    token_url: str | None = setting(None, _TOKEN_URL, _TOKEN_URL_TEXT)
    token_client_id: str | None = setting(None, optional(text()), _TOKEN_CLIENT)
    token_client_secret_file: str | None = setting(None, PATH, _TOKEN_SECRET)
    token_scope: str | None = setting(None, optional(text()), _TOKEN_SCOPE)
    token_region: str | None = setting(None, optional(NAME), _TOKEN_REGION)
    ssl_cafile: str | None = setting(None, PATH, _CAFILE)
    ssl_certfile: str | None = setting(None, PATH, _CERTFILE)
    ssl_keyfile: str | None = setting(None, PATH, _KEYFILE)
    ssl_key_password: Secret | None = setting(None, optional(secret()), _KEY_PASSWORD)
    ssl_key_password_file: str | None = setting(None, PATH, _KEY_PASSWORD_FILE)
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
    password_file: str | None = setting(None, PATH, "File with the password.")
    token: str | None = setting(
        None,
        optional(choice(*TOKENS_OF_REDIS, hides=True)),
        "What gives tokens in place of a password.",
    )
    token_url: str | None = setting(None, _TOKEN_URL, _TOKEN_URL_TEXT)
    token_client_id: str | None = setting(None, optional(text()), _TOKEN_CLIENT)
    token_client_secret_file: str | None = setting(None, PATH, _TOKEN_SECRET)
    token_scope: str | None = setting(None, optional(text()), _TOKEN_SCOPE)
    token_region: str | None = setting(None, optional(NAME), _TOKEN_REGION)
    token_cache: str | None = setting(None, optional(NAME), "Name of the cache in AWS.")
    sentinel_username: str | None = setting(None, optional(text()), "User name for the Sentinels.")
    sentinel_password: Secret | None = setting(
        None, optional(secret()), "Password for the Sentinels."
    )
    sentinel_password_file: str | None = setting(
        None, PATH, "File with the password for the Sentinels."
    )
    ssl_cafile: str | None = setting(None, PATH, _CAFILE)
    ssl_certfile: str | None = setting(None, PATH, _CERTFILE)
    ssl_keyfile: str | None = setting(None, PATH, _KEYFILE)
    ssl_key_password: Secret | None = setting(None, optional(secret()), _KEY_PASSWORD)
    ssl_key_password_file: str | None = setting(None, PATH, _KEY_PASSWORD_FILE)
    ssl_check_hostname: bool = setting(True, flag(), _CHECK_HOSTNAME)
    namespace: str = setting(
        "relevanced",
        NAME,
        "First part of every key; a hash of what the join depends on is appended.",
    )
    keep_s: int = setting(
        "7d", duration(1000, 3_600_000), "A namespace without a worker for this long is removed."
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
    password_file: str | None = setting(None, PATH, "File with the password.")
    bearer_token_file: str | None = setting(
        None, PATH, "File with a bearer token, read again for each request."
    )
    ssl_cafile: str | None = setting(None, PATH, _CAFILE)
    ssl_certfile: str | None = setting(None, PATH, _CERTFILE)
    ssl_keyfile: str | None = setting(None, PATH, _KEYFILE)
    ssl_key_password: Secret | None = setting(None, optional(secret()), _KEY_PASSWORD)
    ssl_key_password_file: str | None = setting(None, PATH, _KEY_PASSWORD_FILE)
    ssl_check_hostname: bool = setting(True, flag(), _CHECK_HOSTNAME)

    @property
    def is_given(self) -> bool:
        """Whether there is a registry to ask."""
        return self.kind == GLUE or self.url is not None


@dataclass(frozen=True)
class RekeySection:
    """The topic that the stage writes and lanes read."""

    topic: str = setting(
        "relevanced-rekeyed",
        TOPIC,
        "Topic between stage and lanes; a hash is appended.",
        shapes=JOIN,
    )
    partitions: int = setting(
        8, integer(1, 1_000), "Its partitions where the daemon creates it, and lanes."
    )
