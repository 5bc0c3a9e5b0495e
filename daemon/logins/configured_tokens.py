"""Which tokens a section of the configuration asks for. Imported by name, as HTTP clients are slow
to load; botocore, slower and of an extra, where a configuration asks for it."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol, TypeAlias

from ..config import (
    AZURE,
    ELASTICACHE_SERVERLESS,
    GCP,
    MEMORYDB,
    MSK,
    OIDC,
    KafkaSection,
    RedisSection,
)
from ..errors import Unavailable
from ..extras import lacking
from .issuers import AzureIdentity, ClientCredentials, GoogleIdentity
from .token_source import NoteToken, TokenSource, ignore_token
from .tokens import Token

OF_AZURE_REDIS: Final = "https://redis.azure.com/.default"
"""The scope of Azure Managed Redis and of Azure Cache for Redis."""
Fetch: TypeAlias = Callable[[], Awaitable[Token]]


class _TokenKeys(Protocol):
    @property
    def token_url(self) -> str | None: ...
    @property
    def token_client_id(self) -> str | None: ...
    @property
    def token_client_secret_file(self) -> str | None: ...
    @property
    def token_scope(self) -> str | None: ...


def kafka_tokens(kafka: KafkaSection, note: NoteToken = ignore_token) -> TokenSource:
    """Return what a login by OAUTHBEARER shows to brokers."""
    if kafka.sasl_mechanism == MSK:
        region, setting = kafka.token_region or "", f"kafka.sasl_mechanism={MSK}"
        policy = "kafka.token_region, and the policy of this AWS identity"
        fetch = _of_aws(setting, lambda aws: aws.of_msk(setting, region))
        return TokenSource(fetch, policy, note=note)
    kind = kafka.token or OIDC
    names = ["kafka.token_scope"] if kind == AZURE else ["kafka.token"]
    if kind == OIDC:
        names = ["kafka.token_url", "kafka.token_client_id", "kafka.token_scope"]
    fetch = _by_http("kafka", kind, kafka, kafka.token_scope, for_kafka=True)
    return TokenSource(fetch, ", ".join(names), note=note)


def redis_tokens(redis: RedisSection, user: str, note: NoteToken = ignore_token) -> TokenSource:
    """Return what is shown to Redis as the password of a user; `redis.token` is given."""
    kind = redis.token or OIDC
    settings = "redis.token and the settings beside it"
    if kind in (OIDC, AZURE, GCP):
        scope = redis.token_scope or (OF_AZURE_REDIS if kind == AZURE else None)
        fetch = _by_http("redis", kind, redis, scope, for_kafka=False)
        return TokenSource(fetch, settings, note=note)
    setting = f'redis.token="{kind}"'
    service = "memorydb" if kind == MEMORYDB else "elasticache"
    given = (setting, redis.token_region or "", service, redis.token_cache or "", user)
    is_serverless = kind == ELASTICACHE_SERVERLESS
    fetch = _of_aws(setting, lambda aws: aws.of_cache(*given, is_serverless=is_serverless))
    return TokenSource(fetch, settings, note=note)


def _by_http(
    section: str, kind: str, keys: _TokenKeys, scope: str | None, *, for_kafka: bool
) -> Fetch:
    if kind == AZURE:
        return AzureIdentity(section, scope or "", keys.token_client_id).fetch
    if kind == GCP:
        return GoogleIdentity(section, for_kafka=for_kafka).fetch
    url, client_id = keys.token_url or "", keys.token_client_id or ""
    file = keys.token_client_secret_file or ""
    return ClientCredentials(section, url, client_id, file, scope).fetch


def _of_aws(setting: str, make: Callable[[ModuleType], Any]) -> Fetch:
    try:
        aws = import_module(".aws", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "botocore":
            raise
        reason = f"{setting}: {lacking('aws')}"

        async def fetch() -> Token:
            raise Unavailable(reason)

        return fetch
    made: Fetch = make(aws).fetch
    return made
