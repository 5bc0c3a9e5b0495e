"""Whatever keeps a process out of Kafka or Redis is said as that, with the setting to change: in
the log, in /readyz and at the exit."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from relevanced.daemon.config import Secret
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.kafka import KafkaSettings, KafkaSource
from relevanced.daemon.storage import answered, close, connect
from relevanced.daemon.telemetry import ADVICE, tls_mismatch
from tests.services.certificates import Authority, openssl
from tests.services.daemons import Daemon, until
from tests.services.fixtures import OwnKafka
from tests.services.kafka_server import KafkaServer
from tests.services.redis_server import RedisServer, one_binary

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One door each: without TLS and login, with TLS, and with a login."""
    certificate, key = authority.server("broker")
    keys = authority.directory / "broker-both.pem"
    openssl("pkcs8", "-topk8", "-nocrypt", "-in", str(key), "-out", str(keys))
    keys.write_text(keys.read_text() + certificate.read_text())
    server = KafkaServer(
        tmp_path_factory.mktemp("kafka"),
        listeners={"TLS": "SSL", "LOGIN": "SASL_PLAINTEXT"},
        properties={
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} user_daemon="right";',
            "listener.name.login.scram-sha-512.sasl.jaas.config": SCRAM,
        },
    )
    server.start()
    yield server
    server.close()


def kafka_case(broker: KafkaServer, authority: Authority, name: str) -> KafkaSettings:
    tls, login, plain = broker.address("TLS"), broker.address("LOGIN"), broker.bootstrap
    ca = str(authority.certificate)
    user: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": "daemon"}
    over_tls: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": ca}
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "wrong password": (login, {**user, "sasl_password": Secret("wrong")}),
        "user gone": (
            login,
            {**user, "sasl_mechanism": "SCRAM-SHA-512", "sasl_password": Secret("right")},
        ),
        "other mechanism": (
            login,
            {**user, "sasl_mechanism": "SCRAM-SHA-256", "sasl_password": Secret("right")},
        ),
        "login where none is": (plain, {**user, "sasl_password": Secret("right")}),
        "no login": (login, {}),
        "TLS to a plain port": (plain, over_tls),
        "plain to a TLS port": (tls, {}),
        "other name": (tls.replace("127.0.0.1", "localhost"), over_tls),
        "wrong CA": (tls, {**over_tls, "ssl_cafile": None}),
        "nobody there": ("127.0.0.1:1,localhost:2", {}),
        "no such host": ("no.such.host.invalid:9092", {}),
    }
    servers, others = cases[name]
    return KafkaSettings(servers, ("events",), **others)


KAFKA = {
    "wrong password": ("login", "refuses the login of user daemon .kafka.sasl_username, kafka.s"),
    "user gone": ("login", "refuses the login of user daemon .kafka.sasl_username, kafka.sasl_p"),
    "other mechanism": ("login", "has no such login .kafka.sasl_mechanism"),
    "login where none is": ("login", "takes no login .kafka.security_protocol"),
    "no login": ("tls", "may want TLS, or a login .kafka.security_protocol = PLAINTEXT"),
    "TLS to a plain port": ("tls", "not speak TLS.*: see kafka.security_protocol"),
    "plain to a TLS port": ("tls", "may want TLS, or a login .kafka.security_protocol = PLAIN"),
    "other name": ("tls", "for another name .*: see kafka.bootstrap_servers, or kafka.ssl_check"),
    "wrong CA": ("tls", "of an unknown authority .*: see kafka.ssl_cafile"),
    "nobody there": ("unreachable", "not answer: 127.0.0.1:1: Connect call failed.*localhost:2: "),
    "no such host": ("unreachable", "not answer: no.such.host.invalid:9092: [^\\[]+$"),
}


@pytest.mark.parametrize("name", KAFKA)
async def test_a_cluster_that_cannot_be_used_is_said_as_what_it_is(
    broker: KafkaServer, authority: Authority, name: str
) -> None:
    fault, words = KAFKA[name]
    noted: list[str] = []
    source = KafkaSource(kafka_case(broker, authority, name), noted.append)
    looking = asyncio.create_task(source.look_up())
    try:
        async with asyncio.timeout(30):
            while source.obstacle is None:
                await asyncio.sleep(0.05)
        said = source.obstacle
    finally:
        looking.cancel()
        await asyncio.wait({looking})
    assert noted == [fault], said
    assert re.search(words, said), said


async def test_no_partition_is_found_while_the_cluster_is_away(own_kafka: OwnKafka) -> None:
    """From the first silence on; not only once the client is replaced. And all again after it."""
    broker = own_kafka()
    await broker.create_topic("events", partitions=2)
    counts: dict[str, int] = {}
    settings = KafkaSettings(broker.bootstrap, ("events",), session_timeout_s=6.0)
    faults: list[str] = []
    source = KafkaSource(settings, faults.append, counts.update)
    await source.start()
    for act, found in ((broker.kill, 0), (broker.start, 2)):
        await asyncio.to_thread(act)
        async with asyncio.timeout(20):
            while counts != {"events": found}:
                await source.poll(1, 100)
    assert faults == ["unreachable"]
    await source.stop()


REDIS = {
    "wrong password": ("login", "refuses the login: see redis.password"),
    "no password": ("login", "refuses the login: see redis.password"),
    "full": ("full", "Redis is full: see its maxmemory"),
    "read-only": ("read-only", "takes no writes: see whether redis.url names the master"),
    "no permission": ("permission", "may not do this: see its ACL"),
    "TLS to a plain port": ("tls", "does not speak TLS there: see rediss:// in redis.url"),
    "nobody there": ("connection", "ConnectionError"),
}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(one_binary(), tmp_path / "redis")
    server.start()
    server.run_command("ACL SETUSER reader on >right ~* &* +@read +ping")
    yield server
    server.kill()


def redis_case(server: RedisServer, name: str) -> str:
    """Bring the server to refuse; returns the URL to ask it by."""
    at = f"127.0.0.1:{server.port}"
    urls = {
        "wrong password": f"redis://reader:wrong@{at}",
        "no permission": f"redis://reader:right@{at}",
        "TLS to a plain port": f"rediss://{at}",
        "nobody there": "redis://127.0.0.1:1",
    }
    commands = {
        "no password": "CONFIG SET requirepass secret",
        "full": "CONFIG SET maxmemory 1",
        "read-only": "REPLICAOF 127.0.0.1 1",
    }
    if name in commands:
        server.run_command(commands[name])
    return urls.get(name, f"redis://{at}")


@pytest.mark.parametrize("name", REDIS)
async def test_a_redis_that_cannot_be_used_is_said_as_what_it_is(
    redis: RedisServer, name: str
) -> None:
    trouble, words = REDIS[name]
    client = connect(redis_case(redis, name))
    try:
        with pytest.raises(Unavailable, match=words) as raised:
            await answered(client, client.set("key", "value"))
    finally:
        await close(client)
    assert raised.value.trouble == trouble, raised.value


def test_a_file_that_is_not_there_is_said_before_anything_connects() -> None:
    with pytest.raises(ValueError, match="ssl_ca_certs=/nowhere/ca.pem: cannot be read: No such"):
        connect("rediss://127.0.0.1?ssl_ca_certs=/nowhere/ca.pem")


@pytest.fixture
async def tls_port(authority: Authority) -> AsyncIterator[int]:
    async with tls_spoken(authority) as port:
        yield port


@asynccontextmanager
async def tls_spoken(authority: Authority) -> AsyncIterator[int]:
    """A port that speaks TLS, and nothing after the handshake."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.server("tls"))
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context
    )
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_certificates_that_are_refused_are_told_apart(
    authority: Authority, tls_port: int, tmp_path: Path
) -> None:
    ca = authority.certificate
    of_urls = {
        f"rediss://127.0.0.1:{tls_port}": "unknown authority .*: see redis.ssl_cafile",
        f"rediss://localhost:{tls_port}?ssl_ca_certs={ca}&ssl_check_hostname=true": "another name",
        f"redis://127.0.0.1:{tls_port}": "may want TLS: redis.url with rediss://",
    }
    for url, words in of_urls.items():
        client = connect(url)
        with pytest.raises(Unavailable, match=words):
            await answered(client, client.get("key"))
        await close(client)
    lax = Authority(tmp_path / "lax", lax=True)
    for one, is_lax in ((authority, False), (lax, True)):
        strict = ssl.create_default_context(cafile=str(one.certificate))
        strict.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 makes every context
        async with tls_spoken(one) as port:
            said = await refusal(port, strict)
        assert ("finds the certificate of the authority too lax" in said) == is_lax, said


async def refusal(port: int, context: ssl.SSLContext) -> str:
    """Why TLS does not come about; "" where it does."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    except ssl.SSLError as error:
        return str(tls_mismatch(error))
    writer.close()
    await writer.wait_closed()
    return ""


TOML = """
[kafka]
bootstrap_servers = ["{bootstrap}"]
topics = ["events"]
security_protocol = "SASL_PLAINTEXT"
sasl_mechanism = "PLAIN"
sasl_username = "daemon"
sasl_password = "wrong"
[redis]
url = "{redis}"
"""


async def test_log_readiness_and_exit_of_a_worker_and_an_exporter_say_it(
    broker: KafkaServer, redis: RedisServer, tmp_path: Path
) -> None:
    redis.run_command("CONFIG SET requirepass secret")
    text = TOML.format(bootstrap=broker.address("LOGIN"), redis=redis.url)
    directory = tmp_path / "daemons"
    directory.mkdir()
    worker, exporter = Daemon(directory, text, "worker"), Daemon(directory, text, "exporter")
    password = "Redis refuses the login: see redis.password"
    login = "refuses the login of user daemon (kafka.sasl_username, kafka.sasl_password)"
    try:
        for daemon, words in ((worker, (login, password)), (exporter, (password,))):
            await until(lambda d=daemon, w=words: all(x in d.readiness() for x in w), daemon)
            await until(lambda d=daemon, w=words: all(x in d.log() for x in w), daemon)
        assert ADVICE["login"] in worker.log()
        assert exporter.series('relevanced_snapshot_errors_total{trouble="login"}') > 1
        assert exporter.log().count("no snapshot of the scores") == 1
        for daemon, words in ((worker, (login, password)), (exporter, (password,))):
            assert daemon.terminate() == 0
            assert all(x in daemon.log().splitlines()[-1] for x in words), daemon.log()
    finally:
        worker.close()
        exporter.close()


ERRORS = 'relevanced_snapshot_errors_total{trouble="connection"}'


async def test_an_exporter_says_when_an_outage_begins_and_ends(
    redis: RedisServer, tmp_path: Path
) -> None:
    directory = tmp_path / "daemons"
    directory.mkdir()
    exporter = Daemon(directory, f'[redis]\nurl = "{redis.url}"', "exporter")
    begins = "no snapshot of the scores"
    try:
        await until(lambda: "no lane has been claimed yet" in exporter.log(), exporter)
        redis.kill()
        await until(lambda: exporter.log().count(begins) == 2, exporter)
        await until(lambda: exporter.series(ERRORS) > 2, exporter)
        assert exporter.log().count(begins) == 2, exporter.log()
        redis.start()
        await until(lambda: exporter.log().count(begins) == 3, exporter)
    finally:
        exporter.close()
