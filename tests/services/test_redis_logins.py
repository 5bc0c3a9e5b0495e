"""Redis with TLS, certificates of clients, ACLs and Sentinels at once, under the permissions that
the guide names; and logins that are changed while the daemon runs."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from relevanced.daemon.config import load, read_file
from relevanced.daemon.errors import Unavailable
from relevanced.daemon.recompute.redis_client import connected
from relevanced.daemon.storage import answered, namespace
from tests.services import processes
from tests.services.certificates import Authority, encrypt
from tests.services.daemons import Daemon, until
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import ask
from tests.services.redis_server import RedisServer, one_binary
from tests.services.test_judgements import JudgedStage
from tests.services.test_verify import command
from tests.services.whole_path import PARTITIONS

OPERATIONS = Path(__file__).parents[2] / "deploy" / "guide" / "operations.md"
NAME = "relevanced"
EVENTS = 1_000
"""Of more than an hour."""
KEY = "key-beryl"
REDIS_PASSWORD = "redis-garnet"
SENTINEL_PASSWORD = "sentinel-onyx"
MORE = """
[queries]
text = "plain"
kept = 5
min_users = 2
[experiments.ranker-v2]
control = "control"
"""
ACCEPTED = 'relevanced_impression_outcomes_total{outcome="accepted"}'


def users() -> tuple[str, str]:
    """The commands of the guide that make the users of a server and of a Sentinel."""
    found = re.findall(r"^    (ACL SETUSER .*)$", OPERATIONS.read_text(), re.MULTILINE)
    assert len(found) == 2
    return found[0], found[1]


class Managed:
    """A master, its replica, and the Sentinel that watches them: daemons come in by TLS, with a
    certificate, a user and a password. The tests use the ports without."""

    def __init__(self, directory: Path) -> None:
        self.authority = authority = Authority(directory / "files")
        self.directory = authority.directory
        server, key = authority.server("server", also_client=True)
        client, client_key = authority.client("client")
        encrypt(client_key, KEY)
        self.tls_ports = [processes.free_port() for _ in range(3)]
        tls = {"tls-cert-file": str(server), "tls-key-file": str(key)}
        tls |= {"tls-ca-cert-file": str(authority.certificate), "tls-replication": "yes"}
        master, replica, sentinel = ({**tls, "tls-port": str(port)} for port in self.tls_ports)
        binary = one_binary()
        self.master = RedisServer(binary, directory / "master", master)
        replica |= {"replicaof": f"127.0.0.1 {self.tls_ports[0]}", "repl-diskless-sync-delay": "0"}
        self.replica = RedisServer(binary, directory / "replica", replica)
        name = directory / "redis-sentinel"
        name.symlink_to(binary)
        sentinel |= {
            f"sentinel monitor main 127.0.0.1 {self.tls_ports[0]}": "1",
            "sentinel down-after-milliseconds main": "1000",
            "sentinel failover-timeout main": "6000",
        }
        self.sentinel = RedisServer(str(name), directory / "sentinel", sentinel)
        self.servers = (self.master, self.replica, self.sentinel)

    async def start(self) -> None:
        for server in self.servers:
            server.start()
        of_redis, of_sentinel = users()
        for server in self.servers[:2]:
            server.run_command(of_redis.replace(">PASSWORD", f">{REDIS_PASSWORD}"))
        self.sentinel.run_command(of_sentinel.replace(">PASSWORD", f">{SENTINEL_PASSWORD}"))
        async with asyncio.timeout(30):
            while (await ask(self.replica.url, "INFO"))["master_link_status"] != "up":
                await asyncio.sleep(0.05)

    def close(self) -> None:
        for server in self.servers:
            if server.running:
                server.kill()

    @property
    def toml(self) -> str:
        """What stands in [redis]."""
        for name, password in (("redis", REDIS_PASSWORD), ("sentinel", SENTINEL_PASSWORD)):
            (self.directory / f"{name}.txt").write_text(f"{password}\n")
        (self.directory / "key.txt").write_text(KEY)
        files = f"{self.directory}"
        return f"""
url = "rediss+sentinel://relevanced@127.0.0.1:{self.tls_ports[2]}/main"
password_file = "{files}/redis.txt"
sentinel_username = "relevanced"
sentinel_password_file = "{files}/sentinel.txt"
ssl_cafile = "{files}/ca.pem"
ssl_certfile = "{files}/client.pem"
ssl_keyfile = "{files}/client.key"
ssl_key_password_file = "{files}/key.txt"
"""


class ManagedStage(JudgedStage):
    """A stage whose daemons have all that keeps state, on a managed Redis."""

    managed: Managed
    more = ""

    def toml(self, name: str) -> str:
        text = super().toml(name)
        assert text.count(f'url = "{self.redis_url}"\n') == 1
        return text.replace(f'url = "{self.redis_url}"\n', self.managed.toml) + MORE + self.more


@pytest.fixture
async def managed(tmp_path: Path) -> AsyncIterator[Managed]:
    directory = tmp_path / "servers"
    directory.mkdir()
    built = Managed(directory)
    try:
        await built.start()
        yield built
    finally:
        built.close()


@pytest.fixture
async def stage(
    kafka: Broker, managed: Managed, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[ManagedStage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = ManagedStage(kafka, managed.master.url, topic, tmp_path / "daemons", rate=0.2)
    built.directory.mkdir()
    built.managed = managed
    yield built
    built.close()


async def used_commands(url: str) -> set[str]:
    """What the server was asked to do since the last CONFIG RESETSTAT."""
    found: Mapping[str, object] = await ask(url, "INFO", "commandstats")
    return {name.removeprefix("cmdstat_") for name in found}


def post(daemon: Daemon, path: str, body: Mapping[str, object]) -> None:
    request = Request(
        f"http://127.0.0.1:{daemon.port}{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=10) as answer:
        assert answer.status == 201


async def test_all_that_is_documented_is_enough_and_nothing_of_it_is_idle(
    stage: ManagedStage,
) -> None:
    """Worker, exporter, repair, takeover, removal of old namespaces, and every command."""
    master = stage.managed.master
    master.run_command("CONFIG RESETSTAT")
    stage.judge()
    await stage.produce(EVENTS)
    config = load(stage.toml(NAME), {}, "test")
    own, names = namespace(config), config.metrics.names
    lives = int(time.time() * 1000), f"{NAME}-11111111"
    await ask(master.url, "ZADD", f"{NAME}:namespaces", 1, f"{NAME}-00000000", *lives)
    await ask(master.url, "SET", f"{{{NAME}-00000000:0}}:old", "1")
    daemon = stage.daemon(NAME, "all")
    await until(lambda: daemon.series("relevanced_owned_lanes") == PARTITIONS, daemon)
    await stage.wait_for(NAME, EVENTS)
    await until(lambda: "old namespaces removed" in daemon.log(), daemon)
    await ask(master.url, "UNLINK", f"{{{own}:0}}:head")  # damage, which is repaired
    await stage.produce(EVENTS)
    await stage.wait_for(NAME, 2 * EVENTS)
    post(daemon, "/api/v1/markers", {"kind": "release", "text": "v8", "id": "v8"})
    daemon.process.kill()
    daemon.process.wait()
    stage.more = f'[metrics]\nnames = {json.dumps([*names, "AP@7"])}\n'
    other = stage.daemon(NAME, "all")
    await stage.produce(EVENTS)
    await stage.wait_for(NAME, 3 * EVENTS)
    await until(lambda: '"ready":true' in other.readiness(), other)
    path, old = stage.directory / "commands.toml", stage.directory / "old.toml"
    path.write_text(stage.toml(NAME))
    stage.more = ""
    old.write_text(stage.toml(NAME))
    span = ("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T13:00:00Z")
    commands = (
        (0, "verify"),
        (0, "backfill", "--kafka"),
        (0, "layout", "show"),
        (1, "lane", "accept-new-log", stage.topic),  # every log is the one that was read
        (0, "lane", "begin-anew", "0"),
        (0, "lane", "take-group", "--dry-run"),
        (0, "replay", "--kafka", *span),
    )
    for expected, *arguments in commands:
        code, out = await command(*arguments, "--config", str(path))
        assert code == expected and "NOPERM" not in out, out
    code, out = await command("check-config", "--in-place", str(path))
    assert code == 0 and "# it may be rolled out in place" in out, out
    assert await asyncio.to_thread(other.terminate) == 0, other.log()
    code, out = await command("layout", "use", "--config", str(old))
    assert code == 0, out
    for server in stage.managed.servers:
        assert await ask(server.url, "ACL", "LOG") == []
    for one in (daemon, other):
        assert "NOPERM" not in one.log() and "Traceback" not in one.log()
    given = {name for name in re.findall(r"\+(\S+)", users()[0]) if name != "select"}
    assert given <= await used_commands(master.url), "these are never used"


REFUSALS = {
    "sentinel_password": ("login", "the Sentinels refuse the login: see redis.sentinel_username"),
    "no sentinel login": ("login", "the Sentinels refuse the login: see redis.sentinel_username"),
    "sentinel ACL": ("permission", "redis.sentinel_username may not do this"),
    "password": ("login", "Redis refuses the login: see redis.password"),
    "ssl_cafile": ("tls", "no Sentinel answers: .* unknown authority .*: see redis.ssl_cafile"),
    "no certificate": ("tls|connection", "another certificate of the client.*: see redis.ssl_cert"),
    "no TLS": ("connection", "it may want TLS: redis.url with rediss://"),
    "name": ("connection", "no Sentinel knows a master of that name: see what follows /"),
    "nobody there": ("connection", "no Sentinel answers: "),
    "": ("", ""),
}


async def test_what_sentinels_refuse_is_said_with_the_setting(managed: Managed) -> None:
    stranger = Authority(managed.directory, "stranger").certificate
    managed.sentinel.run_command("ACL SETUSER nobody on >right -@all +auth")
    managed.sentinel.run_command("ACL SETUSER default -@all +ping resetpass")
    changes = {
        "sentinel_password": ("sentinel_password", "wrong"),
        "no sentinel login": ("sentinel_username", None),
        "sentinel ACL": ("sentinel_username", "nobody"),
        "password": ("password", "wrong"),
        "ssl_cafile": ("ssl_cafile", str(stranger)),
        "no certificate": ("ssl_certfile", None),
        "no TLS": ("url", "redis+sentinel://relevanced@127.0.0.1:{}/main"),
        "name": ("url", "rediss+sentinel://relevanced@127.0.0.1:{}/other"),
        "nobody there": ("url", "rediss+sentinel://relevanced@127.0.0.1:1/main"),
    }
    for name, (trouble, words) in REFUSALS.items():
        values = dict(re.findall(r'^(\w+) = "(.*)"$', managed.toml, re.MULTILINE))
        key, value = changes.get(name, ("", None))
        if name == "sentinel ACL":
            values["sentinel_password"] = "right"
        if key.endswith("password") or name == "sentinel ACL":
            file = f"{'sentinel_' if 'sentinel' in name else ''}password_file"
            values.pop(file)
        values[key] = "" if value is None else value.format(managed.tls_ports[2])
        if name == "no sentinel login":
            values.pop("sentinel_password_file")
        if name == "no certificate":
            values.pop("ssl_keyfile")
            values.pop("ssl_key_password_file")
        if name == "no TLS":
            values = {k: v for k, v in values.items() if not k.startswith("ssl_")}
        lines = "".join(f'{k} = "{v}"\n' for k, v in values.items() if v)
        config = load(f"[redis]\n{lines}", {}, "test", read_file)
        async with connected(config) as client:
            if not name:
                assert await answered(client, client.get("relevanced:key")) is None
                continue
            with pytest.raises(Unavailable, match=words) as raised:
                await answered(client, client.get("relevanced:key"))
            assert raised.value.trouble in trouble.split("|"), (name, raised.value)
            assert not [s for s in (REDIS_PASSWORD, SENTINEL_PASSWORD) if s in str(raised.value)]
