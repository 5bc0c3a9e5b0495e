"""OAUTHBEARER on a real broker that validates what a real issuer signs: tokens that end cost no
record and no rebalance, and what is refused is said with the setting."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from relevanced.daemon.config import load
from relevanced.daemon.kafka import KafkaSettings, KafkaSource, kafka_settings
from tests.services.daemons import Daemon, until
from tests.services.fixtures import OwnKafka
from tests.services.kafka_server import KafkaServer
from tests.services.oidc_issuer import ISSUER, SECRET, Issuer, issuing
from tests.services.redis_server import RedisServer
from tests.services.test_day_two import impression, send, small

OAUTH = "org.apache.kafka.common.security.oauthbearer"
LIFETIME_S = 6.0
EACH = 20
ACCEPTED = 'relevanced_impression_outcomes_total{outcome="accepted"}'


@pytest.fixture
async def issuer(tmp_path: Path) -> AsyncIterator[Issuer]:
    async with issuing(Issuer(tmp_path / "issuer", LIFETIME_S)) as made:
        yield made


@pytest.fixture
def broker(own_kafka: OwnKafka, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> KafkaServer:
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{issuer.jwks}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", allowed)
    prefix = "listener.name.login.oauthbearer"
    return own_kafka(
        listeners={"LOGIN": "SASL_PLAINTEXT"},
        properties={
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "connections.max.reauth.ms": "60000",
            f"{prefix}.sasl.jaas.config": f"{OAUTH}.OAuthBearerLoginModule required;",
            f"{prefix}.sasl.server.callback.handler.class": (
                f"{OAUTH}.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{issuer.jwks}",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.clock.skew.seconds": "1",
        },
    )


def login(issuer: Issuer, directory: Path) -> str:
    """What stands in [kafka]."""
    secret = directory / "secret.txt"
    secret.write_text(SECRET)
    return f"""
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "OAUTHBEARER"
token_url = "{issuer.url}"
token_client_id = "daemon"
token_client_secret_file = "{secret}"
token_scope = "events"
"""


async def test_tokens_that_end_cost_no_record_and_no_rebalance(
    broker: KafkaServer, issuer: Issuer, one_redis: RedisServer, tmp_path: Path
) -> None:
    """Every other request to the issuer fails, over several lives of a token."""
    await broker.create_topic("events", partitions=2)
    config = small(broker.address("LOGIN"), "events", one_redis.url, more=login(issuer, tmp_path))
    directory = tmp_path / "daemons"
    directory.mkdir()
    daemon = Daemon(directory, config)
    try:
        await until(lambda: daemon.series("relevanced_owned_lanes") == 2, daemon)
        began, sent = issuer.asked, 0
        issuer.statuses = [200, 503] * 100
        async with asyncio.timeout(120):
            while issuer.asked < began + 8:
                values = {f"q{n}": impression(n) for n in range(sent, sent + EACH)}
                sent += EACH
                await send(broker.bootstrap, "events", values)
                await asyncio.sleep(LIFETIME_S / 4)
        await until(lambda: daemon.series(ACCEPTED) == sent, daemon)
        log = daemon.log()
        assert log.count("lanes assigned") == 1, log
        for word in (
            "refuses",
            "Unable connect",
            "Kafka cannot be read",
            "Traceback",
            "fetch fail",
        ):
            assert word not in log, log
        assert SECRET not in log
    finally:
        daemon.close()


async def obstacle(settings: KafkaSettings) -> str:
    source = KafkaSource(settings)
    looking = asyncio.create_task(source.look_up())
    try:
        async with asyncio.timeout(60):
            while source.obstacle is None:
                await asyncio.sleep(0.05)
        return source.obstacle
    finally:
        looking.cancel()
        await asyncio.wait({looking})


async def test_what_is_refused_is_said_with_the_setting(
    broker: KafkaServer, issuer: Issuer, tmp_path: Path
) -> None:
    toml = login(issuer, tmp_path)

    def settings(old: str = "", new: str = "") -> KafkaSettings:
        text = f'[kafka]\nbootstrap_servers = ["{broker.address("LOGIN")}"]\n{toml}'
        return replace(kafka_settings(load(text.replace(old, new), {}, "test")), topics=("e",))

    refused = "token_client_id and token_client_secret_file"
    assert refused in await obstacle(settings('"daemon"', '"stranger"'))
    assert "(400 invalid_scope): see kafka's token_scope" in await obstacle(
        settings('"events"', '"other"')
    )
    assert "kafka.token_url=http://127.0.0.1:1/x: does not answer" in await obstacle(
        settings(issuer.url, "http://127.0.0.1:1/x")
    )
    issuer.audience = "another"
    assert "refuses the token (kafka.token_url, kafka.token_client_id" in await obstacle(settings())
    issuer.audience, issuer.late_s = "kafka", LIFETIME_S + 5
    assert "refuses the token" in await obstacle(settings())
    issuer.lifetime_s = 0
    assert f"{issuer.url}: gives tokens that have ended" in await obstacle(settings())
