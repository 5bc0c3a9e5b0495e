"""Tokens on a real broker that validates what a real issuer signs, and as passwords on a real
Redis: tokens that end cost no record and no rebalance, and what is refused is said with the
setting."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from relevanced.daemon.config import load, read_file
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import KafkaSettings, KafkaSource, kafka_settings
from relevanced.daemon.recompute.redis_client import connected
from relevanced.daemon.storage import answered
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic, OwnKafka, OwnRedis
from tests.services.kafka_server import Broker, KafkaServer
from tests.services.oidc_issuer import ISSUER, SECRET, Issuer, issuing
from tests.services.proxy import Proxy
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
            "connections.max.reauth.ms": "10000",
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


async def all_is_taken_meanwhile(
    daemon: Daemon, issuer: Issuer, bootstrap: str, topic: str, of: str
) -> None:
    """Every other request to the issuer fails, over several lives of a token; what is sent all the
    while is accepted once."""
    await until(lambda: daemon.series("relevanced_owned_lanes") == 2, daemon)
    began, sent = issuer.asked, 0
    issuer.statuses = [200, 503] * 100
    async with asyncio.timeout(120):
        while issuer.asked < began + 8:
            values = {f"q{n}": impression(n) for n in range(sent, sent + EACH)}
            sent += EACH
            await send(bootstrap, topic, values)
            await asyncio.sleep(LIFETIME_S / 4)
    await until(lambda: daemon.series(ACCEPTED) == sent, daemon)
    asked = f'relevanced_token_requests_total{{of="{of}",outcome="%s"}}'
    assert daemon.series(asked % "ok") > 3 and daemon.series(asked % "failed") > 3
    ends_s = daemon.series(f'relevanced_token_expiry_timestamp_seconds{{of="{of}"}}')
    assert abs(ends_s - time.time()) < 2 * LIFETIME_S


async def test_tokens_that_end_cost_no_record_and_no_rebalance(
    broker: KafkaServer, issuer: Issuer, one_redis: RedisServer, tmp_path: Path
) -> None:
    await broker.create_topic("events", partitions=2)
    config = small(broker.address("LOGIN"), "events", one_redis.url, more=login(issuer, tmp_path))
    directory = tmp_path / "daemons"
    directory.mkdir()
    daemon = Daemon(directory, config)
    try:
        await all_is_taken_meanwhile(daemon, issuer, broker.bootstrap, "events", "kafka")
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


class TokenRedis:
    """A server whose user has the tokens that live for passwords, behind a proxy that ends each
    connection when the token ends with which it logged in last, as clouds do."""

    def __init__(self, server: RedisServer, issuer: Issuer) -> None:
        self._server, self._issuer = server, issuer
        self._ends_s: dict[bytes, float] = {}
        server.run_command("ACL SETUSER daemon on ~* &* +@all")
        issuer.issued = self.issue

    def issue(self, token: str) -> None:
        loop, lives_s = asyncio.get_running_loop(), self._issuer.lifetime_s
        self._ends_s[token.encode()] = loop.time() + lives_s
        self._server.run_command(f"ACL SETUSER daemon >{token}")
        loop.call_later(lives_s, self._server.run_command, f"ACL SETUSER daemon <{token}")

    def life_s(self, request: bytes) -> float | None:
        if b"\r\nAUTH\r\n" not in request:
            return None
        now_s = asyncio.get_running_loop().time()
        ends_s = [end for token, end in self._ends_s.items() if token in request]
        return max(ends_s[0] - now_s, 0.0) if ends_s else None


def redis_login(issuer: Issuer, directory: Path) -> str:
    """What stands in [redis]."""
    return "\n".join(("", 'token = "oidc"', *login(issuer, directory).splitlines()[3:]))


async def test_tokens_of_redis_are_renewed_before_they_end(
    kafka: Broker, make_topic: MakeTopic, own_redis: OwnRedis, issuer: Issuer, tmp_path: Path
) -> None:
    topic, server = await make_topic(partitions=2), own_redis()
    users = TokenRedis(server, issuer)
    directory = tmp_path / "daemons"
    directory.mkdir()
    async with Proxy(server.port) as proxy:
        proxy.life_s = users.life_s
        url = proxy.url.replace("redis://", "redis://daemon@")
        more = redis_login(issuer, tmp_path)
        daemon = Daemon(directory, small(kafka.bootstrap, topic, url, redis_more=more))
        try:
            await all_is_taken_meanwhile(daemon, issuer, kafka.bootstrap, topic, "redis")
            logins = proxy.sent("\r\nAUTH\r\n")
            assert logins > proxy.accepted + 3, "connections in use log in again, and go on"
            log = daemon.log()
            assert log.count("lanes assigned") == 1, log
            for line in log.splitlines():
                if "[warning" in line or "[error" in line:
                    assert "the token cannot be renewed yet" in line, log
            for secret in (SECRET, *(token.decode() for token in users._ends_s)):
                assert secret not in log
        finally:
            daemon.close()


@pytest.mark.parametrize("kind", ["redis", "redis+cluster"])
async def test_what_redis_refuses_is_said_with_the_setting(
    own_redis: OwnRedis, issuer: Issuer, tmp_path: Path, kind: str
) -> None:
    server, tokens = own_redis(), list[str]()
    server.run_command("ACL SETUSER daemon on >another ~* +@all")
    issuer.issued = tokens.append
    toml = redis_login(issuer, tmp_path)
    url = f"{kind}://daemon@127.0.0.1:{server.port}"

    async def said(old: str = "", new: str = "") -> str:
        config = load(f'[redis]\nurl = "{url}"{toml.replace(old, new)}', {}, "test", read_file)
        async with connected(config) as client:
            with pytest.raises(Unavailable) as raised:
                await answered(client, client.get("key"))
            assert raised.value.trouble == "login", raised.value
            return str(raised.value)

    refused = await said()
    assert "see redis.token and the settings beside it, and the user in redis.url" in refused
    assert len(tokens) == 1 and tokens[0] not in refused
    assert "redis.token_url=http://127.0.0.1:1/x: does not answer" in await said(
        issuer.url, "http://127.0.0.1:1/x"
    )
    assert "see redis's token_client_id and token_client_secret" in await said(
        'id = "daemon"', 'id = "stranger"'
    )
