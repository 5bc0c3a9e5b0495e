"""Passwords and certificates in files that change while a daemon runs: it goes on with the new ones
where the old ones are refused, nothing is lost, and one line says so."""

import asyncio
import os
from pathlib import Path

from tests.services import processes
from tests.services.certificates import Authority, openssl
from tests.services.daemons import Daemon, until
from tests.services.fixtures import OwnKafka
from tests.services.redis_lanes import ask
from tests.services.redis_server import RedisServer, one_binary
from tests.services.test_day_two import impression, send, small

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = "listener.name.login.plain.sasl.jaas.config"
EACH = 30
ACCEPTED = 'relevanced_impression_outcomes_total{outcome="accepted"}'
RENEWED = "a login was refused: it goes on with what its file has now"


def mounted(path: Path, text: str) -> None:
    """Written as Kubernetes does: a name comes to stand for another file, at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def certified(authority: Authority, name: str, serial: int) -> None:
    """Another certificate and key under the same names."""
    certificate, key = authority.client(f"{name}-{serial}")
    os.replace(certificate, authority.directory / f"{name}.pem")
    os.replace(key, authority.directory / f"{name}.key")


def said_once(daemon: Daemon, *settings: str) -> None:
    for setting in settings:
        lines = [x for x in daemon.log().splitlines() if RENEWED in x and setting in x]
        assert len(lines) == 1, daemon.log()


async def test_a_daemon_goes_on_over_new_passwords_and_certificates(
    own_kafka: OwnKafka, tmp_path: Path
) -> None:
    """Both servers trust another authority from then on, and take other passwords."""
    files = tmp_path / "files"
    old, new = Authority(files), Authority(files, "new")
    server, server_key = old.server("server", also_client=True)
    certified(old, "client", 1)
    keys = files / "broker-both.pem"
    openssl("pkcs8", "-topk8", "-nocrypt", "-in", str(server_key), "-out", str(keys))
    keys.write_text(keys.read_text() + server.read_text())
    trusted = files / "trusted.pem"
    trusted.write_text(old.certificate.read_text())
    broker = own_kafka(
        listeners={"LOGIN": "SASL_SSL"},
        properties={
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            "ssl.client.auth": "required",
            "listener.name.login.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN",
            JAAS: f'{LOGIN} user_relevanced="one";',
        },
    )
    await broker.create_topic("events", partitions=2)
    tls_port = processes.free_port()
    redis = RedisServer(
        one_binary(),
        tmp_path / "redis",
        {
            "tls-port": str(tls_port),
            "tls-cert-file": str(server),
            "tls-key-file": str(server_key),
            "tls-ca-cert-file": str(trusted),
        },
    )
    redis.start()
    redis.run_command("ACL SETUSER relevanced on >one ~* +@all")
    for name in ("kafka", "redis"):
        mounted(files / f"{name}.txt", "one")
    tls = "".join(
        f'ssl_{kind}file = "{files}/{name}"\n'
        for kind, name in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
    )
    user = 'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "relevanced"'
    config = small(
        broker.address("LOGIN"),
        "events",
        f"rediss://relevanced@127.0.0.1:{tls_port}/0",
        more=f'{user}\nsasl_password_file = "{files}/kafka.txt"\n{tls}',
        redis_more=f'password_file = "{files}/redis.txt"\n{tls}',
    )
    daemons = tmp_path / "daemons"
    daemons.mkdir()
    daemon = Daemon(daemons, config)
    try:
        await send(broker.bootstrap, "events", {f"q{n}": impression(n) for n in range(EACH)})
        await until(lambda: daemon.series(ACCEPTED) == EACH, daemon)
        # Passwords first.
        mounted(files / "redis.txt", "two")
        redis.run_command("ACL SETUSER relevanced resetpass >two")
        await ask(redis.url, "CLIENT", "KILL", "USER", "relevanced")
        await until(lambda: RENEWED in daemon.log(), daemon)
        mounted(files / "kafka.txt", "two")
        broker.properties[JAAS] = f'{LOGIN} user_relevanced="two";'
        broker._write_settings()
        await asyncio.to_thread(broker.restart)
        more = {f"q{n}": impression(n) for n in range(EACH, 2 * EACH)}
        await send(broker.bootstrap, "events", more)
        await until(lambda: daemon.series(ACCEPTED) == 2 * EACH, daemon)
        said_once(daemon, "redis.password_file", "kafka.sasl_password_file")
        # Certificates: only those of another authority are taken.
        trusted.write_text(new.certificate.read_text())
        certified(new, "client", 2)
        broker.properties["ssl.truststore.location"] = str(trusted)
        await asyncio.to_thread(broker.restart)
        redis.run_command(f"CONFIG SET tls-ca-cert-file {trusted}")
        await ask(redis.url, "CLIENT", "KILL", "USER", "relevanced")
        more = {f"q{n}": impression(n) for n in range(2 * EACH, 3 * EACH)}
        await send(broker.bootstrap, "events", more)
        await until(lambda: daemon.series(ACCEPTED) == 3 * EACH, daemon)
        said_once(daemon, "redis.ssl_certfile", "kafka.ssl_certfile")
        assert "refuses the login" not in daemon.log()
        await until(lambda: '"ready":true' in daemon.readiness(), daemon)
    finally:
        daemon.close()
        redis.kill()
