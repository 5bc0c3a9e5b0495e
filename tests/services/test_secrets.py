"""No secret shows: not in the log, not over HTTP, not from check-config, whatever fails."""

import base64
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from relevanced.daemon.http import find_crypt
from tests.services import processes
from tests.services.certificates import Authority, encrypt
from tests.services.daemons import Daemon
from tests.services.fixtures import OwnKafka
from tests.services.redis_server import RedisServer, one_binary

PATIENCE_S = 60.0
PATHS = (
    *("/", "/metrics", "/metrics?x=1", "/readyz", "/livez", "/nowhere"),
    *(f"/api/v1/{name}" for name in ("scores", "health", "segments", "experiments", "nowhere")),
    *("/api/v1/changes?metric=RR@10", "/api/v1/history?metric=RR@10", "/api/v1/openapi.json"),
)

REDIS = "redis+/@:ruby"
SASL = "sasl-sapphire"
KEY = "key-emerald"
WEB = "web-topaz"
IN_FILE = "filed-opal"
MISSPELT = "misspelt-pearl"
REGISTRY = "registry-jade"
SECRETS = (REDIS, SASL, KEY, WEB, IN_FILE, MISSPELT, REGISTRY)
USER = "bob"

COMMON = """
[log]
level = "debug"
format = "{format}"
[redis]
url = "redis://{user}:{redis_password}@127.0.0.1:{redis_port}/0"
[kafka]
bootstrap_servers = ["{kafka}"]
topics = ["events"]
sasl_mechanism = "PLAIN"
sasl_username = "alice"
"""
UNREACHABLE = """
security_protocol = "SASL_SSL"
sasl_password = "{sasl}"
ssl_cafile = "{folder}/ca.pem"
ssl_certfile = "{folder}/client.pem"
ssl_keyfile = "{folder}/client.key"
ssl_key_password = "{key}"
[registry]
url = "https://{user}:{registry}@127.0.0.1:1,https://127.0.0.1:2"
ssl_key_password = "{key}"
"""
REFUSED = """
security_protocol = "SASL_PLAINTEXT"
sasl_password_file = "{folder}/password"
[registry]
url = "https://127.0.0.1:1"
bearer_token_file = "{folder}/password"
"""
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="another";'


def forms(secret: str) -> Iterator[str]:
    """The forms in which a secret could show."""
    yield secret
    yield quote(secret, safe="")
    yield base64.b64encode(secret.encode()).decode().rstrip("=")[:-1]
    yield base64.b64encode(f"{USER}:{secret}".encode()).decode().rstrip("=")[:-1]


def shown(text: str, secrets: tuple[str, ...]) -> list[str]:
    return [form for secret in secrets for form in forms(secret) if form in text]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Certificates, a file with a password, and a web configuration."""
    folder = tmp_path / "files"
    authority = Authority(folder)
    authority.server("server")
    encrypt(authority.client("client")[1], KEY)
    (folder / "password").write_text(IN_FILE)
    (folder / "web.yml").write_text(
        f"tls_server_config: {{cert_file: server.pem, key_file: server.key}}\n"
        f"basic_auth_users: {{{USER}: {web_hash()}}}\n"
    )
    return folder


def web_hash() -> str:
    crypt = find_crypt()
    assert crypt is not None
    return (crypt(WEB.encode(), b"$2b$04$abcdefghijklmnopqrstuu") or b"").decode()


def config(
    kind: str, folder: Path, kafka: str, redis_port: int, log_format: str = "console"
) -> str:
    values: Mapping[str, object] = {
        "format": log_format,
        "user": "default",
        "redis_password": quote(REDIS, safe=""),
        "redis_port": redis_port,
        "kafka": kafka,
        "sasl": SASL,
        "key": KEY,
        "registry": REGISTRY,
        "folder": folder,
    }
    return (COMMON + kind).format(**values)


def ask(daemon: Daemon, folder: Path, path: str, login: tuple[str, str] | None) -> str:
    """Status, headers and body."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    request = Request(f"https://127.0.0.1:{daemon.port}{path}")
    if login is not None:
        encoded = base64.b64encode(":".join(login).encode()).decode()
        request.add_header("Authorization", f"Basic {encoded}")
    try:
        with urlopen(request, timeout=10, context=context) as answer:
            return f"{answer.status} {answer.headers} {answer.read().decode()}"
    except HTTPError as error:
        with error:
            return f"{error.code} {error.headers} {error.read().decode()}"


def wait_for(true: Callable[[], object], daemon: Daemon) -> None:
    processes.wait_until(
        lambda: bool(true()),
        alive=lambda: daemon.process.poll() is None,
        log=daemon.log,
        name="relevanced",
        patience_s=PATIENCE_S,
    )


def everything(daemon: Daemon, folder: Path, failures: tuple[str, ...]) -> str:
    """All answers and the log of the daemon, after all these words were in its log."""
    try:
        wait_for(lambda: all(word in daemon.log() for word in ("serving", *failures)), daemon)
        time.sleep(1)  # the failures of the second and third attempt
        answers = [
            ask(daemon, folder, path, login)
            for login in ((USER, WEB), (USER, MISSPELT), None)
            for path in PATHS
        ]
        assert any("200" in answer and "relevanced_build_info" in answer for answer in answers)
        assert daemon.terminate() == 0, daemon.log()
    finally:
        daemon.close()
    return "\n".join((*answers, daemon.log()))


def checked(path: Path, **environment: str) -> str:
    """The output of check-config."""
    command = [sys.executable, "-m", "relevanced.daemon", "check-config", str(path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_secret_shows_while_nothing_can_be_reached(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_format: str
) -> None:
    monkeypatch.setenv("RELEVANCED_HTTP__WEB_CONFIG", str(folder / "web.yml"))
    kafka = f"127.0.0.1:{processes.free_port()}"
    text = config(UNREACHABLE, folder, kafka, processes.free_port(), log_format)
    output = everything(Daemon(tmp_path, text), folder, ("ConnectionError", "waiting for"))
    assert not shown(output, (*SECRETS, web_hash()))


@pytest.fixture
def locked_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that wants another password."""
    server = RedisServer(one_binary(), tmp_path / "redis", {"requirepass": "another"})
    try:
        server.start()
        yield server
    finally:
        server.kill()


def test_no_secret_shows_while_all_logins_are_refused(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own_kafka: OwnKafka,
    locked_redis: RedisServer,
) -> None:
    monkeypatch.setenv("RELEVANCED_HTTP__WEB_CONFIG", str(folder / "web.yml"))
    properties = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": LOGIN,
    }
    kafka = own_kafka(listeners={"LOGIN": "SASL_PLAINTEXT"}, properties=properties)
    text = config(REFUSED, folder, kafka.address("LOGIN"), locked_redis.port)
    failures = ("AuthenticationError", "SaslAuthenticationFailed")
    output = everything(Daemon(tmp_path, text), folder, failures)
    assert not shown(output, (*SECRETS, web_hash()))


def test_no_secret_shows_if_the_key_cannot_be_opened(folder: Path, tmp_path: Path) -> None:
    kafka = f"127.0.0.1:{processes.free_port()}"
    text = config(UNREACHABLE, folder, kafka, processes.free_port()).replace(KEY, MISSPELT)
    daemon = Daemon(tmp_path, text)
    try:
        assert daemon.process.wait(PATIENCE_S) == 1, daemon.log()
    finally:
        daemon.close()
    assert "ssl_keyfile" in daemon.log() and not shown(daemon.log(), SECRETS)


@pytest.mark.parametrize("kind", [UNREACHABLE, REFUSED], ids=["inline", "in files"])
def test_check_config_shows_no_secret(folder: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(config(kind, folder, "127.0.0.1:9092", 6379))
    output = checked(path, RELEVANCED_HTTP__WEB_CONFIG=str(folder / "web.yml"))
    assert 'url = "redis://default:***@127.0.0.1:6379/0"' in output
    assert not shown(output, (*SECRETS, web_hash()))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("REDIS__URL", "redis+sentinel://:{}@h:1,h:2/main", "redis+sentinel://:***@h:1,h:2/main"),
        ("REDIS__URL", "rediss://h/0?password={}&db=3", "password=***"),
        ("REDIS__URL", "redis://h?passwrd={}", "passwrd=***"),
        ("REDIS__PASSWORD", "{}", "redis.password=***: redis.url contains a password"),
        ("KAFKA__SASL_PASSWORD", "{}", "sasl_password is given too"),
        ("KAFKA__SSL_KEY_PASSWORD", "{}", "kafka.ssl_key_password=***: "),
        ("REGISTRY__URL", "http://bob:{}@h,http://i", "a user name is given too"),
        ("REGISTRY__URL", "h,http://bob:{}@h", "registry.url=***: must be http"),
        ("REGISTRY__USERNAME", "{}:x", "registry.username: must not contain a colon"),
        ("REGISTRY__PASSWORD", "{}", "registry.password: has no effect"),
        ("REGISTRY__SSL_KEY_PASSWORD", "{}", "ssl_key_password = "),
        ("REDIS__PASSWORD_FILE", "{folder}/password", "password"),
        ("REDIS__PASSWORD_FILE", "{folder}/{}", "password_file"),
    ],
)
def test_check_config_shows_no_secret_of_the_environment(
    folder: Path, tmp_path: Path, name: str, value: str, expected: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(config(REFUSED, folder, "127.0.0.1:9092", 6379))
    output = checked(path, **{f"RELEVANCED_{name}": value.format(MISSPELT, folder=folder)})
    assert expected in output, output
    assert not shown(output, SECRETS)


FAULTS = {
    "misspelt key": f'[redis]\npasswrod = "{MISSPELT}"',
    "wrong kind": f'[redis]\npassword = ["{MISSPELT}"]',
    "wrong section": f'redis = "{MISSPELT}"',
    "twice": f'[redis]\nurl = "redis://:{MISSPELT}@h"\npassword = "{SASL}"',
    "no effect": f'[kafka]\nsasl_password = "{SASL}"\nssl_key_password = "{KEY}"',
    "no URL": f'[redis]\nurl = "{MISSPELT}"',
    "wrong scheme": f'[redis]\nurl = "http://:{MISSPELT}@h"',
    "unquoted": f"[redis]\npassword = {MISSPELT}",
    "no end": f'[redis]\npassword = "{MISSPELT}',
    "bad escape": f'[redis]\npassword = "\\q{MISSPELT}"',
    "environment": "",
}


@pytest.mark.parametrize("text", FAULTS.values(), ids=list(FAULTS))
def test_faults_of_a_configuration_show_no_secret(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    output = checked(path, RELEVANCED_REDIS__PASWORD=MISSPELT)
    assert "RELEVANCED_REDIS__PASWORD" in output or "TOML" in output
    assert not shown(output, SECRETS)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:{}/x@127.0.0.1:6379/0",
        "redis://127.0.0.1:{}/0",
        "redis://:{}@[127.0.0.1:6379/0",
        "redis://:{}#x@127.0.0.1:6379/0",
        "redis://:{}@127.0.0.1:6379/0?dbb=1",
        "redis://127.0.0.1:6379/0?password={}&dbb=1",
        "redis+sentinel://:{}@127.0.0.1:x/main",
        "redis+cluster://:{}@127.0.0.1:x",
    ],
)
def test_an_unusable_url_is_refused_without_its_password(tmp_path: Path, url: str) -> None:
    daemon = Daemon(tmp_path, f'[redis]\nurl = "{url.format(MISSPELT)}"')
    path = tmp_path / "config.toml"
    path.write_text(f'[redis]\nurl = "{url.format(MISSPELT)}"')
    try:
        code = daemon.process.wait(PATIENCE_S)
    finally:
        daemon.close()
    assert code in (1, 2)
    assert not shown(daemon.log() + checked(path), SECRETS)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:{}@127.0.0.1:1/0?ssl_password={}",
        "rediss://127.0.0.1:1/0?password={}&ssl_password={}",
        "redis+sentinel://:{}@127.0.0.1:1/main?ssl_password={}",
    ],
)
def test_secrets_in_the_options_of_a_url_do_not_show(tmp_path: Path, url: str) -> None:
    """Not even if the library rejects an option, and only a traceback is left."""
    text = f'[log]\nlevel = "debug"\n[redis]\nurl = "{url.format(MISSPELT, KEY)}"'
    text += '\n[kafka]\nbootstrap_servers = ["127.0.0.1:1"]'
    path = tmp_path / "config.toml"
    path.write_text(text)
    output = checked(path)
    assert "***" in output and not shown(output, SECRETS)
    daemon = Daemon(tmp_path, text)
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while daemon.process.poll() is None and "Redis: " not in daemon.log():
            assert time.monotonic() < deadline_s, daemon.log()
            time.sleep(0.1)
    finally:
        daemon.close()
    assert not shown(daemon.log(), SECRETS)


LOGIN_REQUEST = f"""
import logging, sys
from aiokafka.protocol.admin import SaslAuthenticateRequest_v0
from relevanced.daemon.telemetry.logs import configure
configure("debug", "json", sys.stderr)
request = SaslAuthenticateRequest_v0(b"\\0alice\\0{SASL}")
for name in ("aiokafka.conn", "aiokafka.producer.sender", "relevanced"):
    logging.getLogger(name).debug("Request to %s:%d %d: %s", "host", 9092, 1, request)
"""


def test_a_login_that_a_library_logs_whole_is_kept_out() -> None:
    """At debug level aiokafka does so; our own logger shows that we would see it."""
    command = [sys.executable, "-c", LOGIN_REQUEST]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    (line,) = done.stderr.splitlines()
    assert '"logger": "relevanced"' in line and shown(line, SECRETS)


def test_a_shown_secret_would_be_found() -> None:
    assert shown(f"url=redis://:{quote(REDIS, safe='')}@host", SECRETS)
    assert shown(base64.b64encode(f"{USER}:{WEB}".encode()).decode(), SECRETS)
