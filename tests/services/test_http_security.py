"""The protected HTTP server, over real connections with real certificates."""

import asyncio
import base64
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from relevanced.daemon.config import ConfigError
from relevanced.daemon.http import (
    OPEN_PATHS,
    READ_AGAIN_EVERY_S,
    HttpServer,
    Security,
    Unusable,
    connections,
    find_crypt,
    load,
    parse,
    read_credentials,
    requests,
    server as http_server,
)
from relevanced.daemon.telemetry import Telemetry
from tests.services.certificates import Authority, encrypt

PATIENCE_S = 30.0
AT_ONCE_S = 15.0
"""Less than anything waits here, and far more than a busy machine takes."""
CHEAP = "$2b$04$abcdefghijklmnopqrstuu8gGHls/mdv32ht0pJqcxptBcJ3WwHFi"
"""of `relevanced`"""
USERS = f"basic_auth_users: {{bob: {CHEAP}}}\n"
RIGHT = ("bob", "relevanced")
TLS = "tls_server_config: {{cert_file: {name}.pem, key_file: {name}.key{more}}}\n"
VERIFIED = ", client_ca_file: ca.pem, client_auth_type: {kind}"


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca signs server, renewed and scraper; other-ca signs stranger."""
    folder = tmp_path_factory.mktemp("certificates")
    authority, other = Authority(folder), Authority(folder, "other-ca")
    authority.server("server")
    authority.server("renewed")
    authority.client("scraper")
    other.client("stranger")
    shutil.copy(authority.server("locked")[1], folder / "unlocked.key")
    encrypt(folder / "locked.key", "hunter2")
    return folder


@pytest.fixture
def folder(certificates: Path, tmp_path: Path) -> Path:
    """A copy that the test may change, with the web configuration `web.yml` beside."""
    for file in certificates.glob("*.[pk]e[my]"):
        shutil.copy(file, tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> str:
    path = folder / "web.yml"
    path.write_text(text)
    return str(path)


def tls(name: str = "server", more: str = "") -> str:
    return TLS.format(name=name, more=more)


def client_context(folder: Path, certificate: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if certificate is not None:
        context.load_cert_chain(folder / f"{certificate}.pem", folder / f"{certificate}.key")
    return context


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Client:
    """A client of a protected server; each request is a connection of its own."""

    def __init__(self, server: HttpServer, folder: Path) -> None:
        self.server, self.folder = server, folder

    async def get(
        self,
        path: str,
        login: tuple[str, str] | None = None,
        context: ssl.SSLContext | None = None,
    ) -> tuple[int, dict[str, str]]:
        """Status and headers."""
        connector = aiohttp.TCPConnector(ssl=context or client_context(self.folder))
        headers = {} if login is None else {"Authorization": basic(*login)}
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get(self.url(path), headers=headers) as response:
                await response.read()
                return response.status, dict(response.headers)

    def url(self, path: str) -> str:
        return f"{self.server.scheme}://127.0.0.1:{self.server.port}{path}"

    async def handshake(self, context: ssl.SSLContext) -> ssl.SSLObject:
        """The parameters that a new connection agrees on."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.server.port, ssl=context)
        agreed: ssl.SSLObject = writer.get_extra_info("ssl_object")
        writer.close()
        await writer.wait_closed()
        return agreed

    async def serial(self) -> object:
        """The serial number of the certificate that a new connection gets."""
        certificate = (await self.handshake(client_context(self.folder))).getpeercert()
        assert certificate is not None
        return certificate["serialNumber"]


@asynccontextmanager
async def served(folder: Path, text: str) -> AsyncIterator[Client]:
    server = HttpServer(Telemetry("1"), "worker")
    await server.start("127.0.0.1", 0, write(folder, text))
    try:
        yield Client(server, folder)
    finally:
        await server.stop()


def has_lines(lines: list[Any], count: int) -> bool:
    return len(lines) >= count


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "login", [None, ("bob", "wrong"), ("alice", "relevanced"), ("bob", ""), ("bob", "relevanced\0")]
)
async def test_without_the_right_password_every_path_is_refused(
    folder: Path, login: tuple[str, str] | None
) -> None:
    async with served(folder, USERS) as client:
        for path in ("/", "/metrics", "/api/v1/scores", "/nowhere", "/livez/", "//livez"):
            status, headers = await client.get(path, login)
            assert (status, headers.get("WWW-Authenticate", "")[:6]) == (401, "Basic ")


async def test_the_right_password_opens_everything(folder: Path) -> None:
    async with served(folder, USERS) as client:
        assert (await client.get("/metrics", RIGHT))[0] == 200
        assert (await client.get("/nowhere", RIGHT))[0] == 404


@pytest.mark.parametrize("path", OPEN_PATHS)
async def test_health_is_open_to_all(folder: Path, path: str) -> None:
    async with served(folder, USERS) as client:
        assert (await client.get(path))[0] == (200 if path in ("/livez", "/-/healthy") else 503)


async def test_headers_are_added_to_every_answer(folder: Path) -> None:
    headers = "http_server_config: {headers: {X-Frame-Options: deny}}\n"
    async with served(folder, USERS + headers) as client:
        for path, login in (("/metrics", RIGHT), ("/metrics", None), ("/nowhere", RIGHT)):
            assert (await client.get(path, login))[1]["X-Frame-Options"] == "deny"


async def test_unknown_users_take_as_long_as_known_ones(folder: Path) -> None:
    crypt = find_crypt()
    assert crypt is not None
    hashed = crypt(b"relevanced", b"$2b$11$abcdefghijklmnopqrstuu")
    async with served(folder, f"basic_auth_users: {{bob: {(hashed or b'').decode()}}}") as client:

        async def seconds(user: str, password: str) -> float:
            """Processor time of this process, which other processes do not change."""
            begin = time.process_time()
            await client.get("/metrics", (user, password))
            return time.process_time() - begin

        known_s = [await seconds("bob", f"wrong{n}") for n in range(3)]
        unknown_s = [await seconds("alice", f"wrong{n}") for n in range(3)]
        first_s = await seconds("bob", "relevanced")
        again_s = [await seconds("bob", "relevanced") for _ in range(5)]
    assert min(unknown_s) > 0.7 * min(known_s)
    assert min(again_s) < 0.5 * first_s, "a good login is cached"


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !!", "Basic Ym9i", "Bearer Ym9iOng=", "Basic /w==", "Basic " + "A" * 999],
)
def test_a_header_that_is_no_login_contains_none(header: str) -> None:
    assert read_credentials(header) is None


def test_a_password_may_contain_colons_and_any_bytes() -> None:
    assert read_credentials("basic  Ym9iOmE6/w==") == ("bob", b"a:\xff")


async def test_only_tls_is_accepted(folder: Path) -> None:
    async with served(folder, tls()) as client:
        assert client.server.scheme == "https"
        assert (await client.get("/metrics"))[0] == 200
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{client.server.port}/livez")


async def test_stop_does_not_wait_for_the_closing_message_of_a_client(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "SHUTDOWN_PATIENCE_S", 2 * PATIENCE_S)

    def connect(port: int) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", port))
        return client_context(folder).wrap_socket(raw, server_hostname="127.0.0.1")

    async with served(folder, tls()) as running:
        with await asyncio.to_thread(connect, running.server.port) as connection:
            await asyncio.to_thread(
                connection.sendall, b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
            )
            await asyncio.to_thread(connection.recv, 1)
            began_s = time.monotonic()
            await running.server.stop()
            assert time.monotonic() - began_s < AT_ONCE_S
            connection.settimeout(PATIENCE_S)
            with suppress(ConnectionResetError):
                while await asyncio.to_thread(connection.recv, 65_536):
                    pass


async def test_a_handshake_has_a_deadline_and_counts_as_a_connection(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests, "HEAD_TIMEOUT_S", 3.0)
    monkeypatch.setattr(connections, "MOST_OF_AN_ADDRESS", 3)
    async with served(folder, tls()) as client:
        port = client.server.port
        began_s = time.monotonic()
        clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        clients[3][1].write(b"\x16\x03\x01")
        ends_s = []
        async with asyncio.timeout(PATIENCE_S):
            for reader, _ in clients:
                with suppress(ConnectionResetError):
                    await reader.read()
                ends_s.append(time.monotonic() - began_s)
        assert max(ends_s[:2]) < 2.9 and 2.9 < min(ends_s[2:])
        assert (await client.get("/livez"))[0] == 200
        for _, writer in clients:
            writer.close()
    # The limit of an address is said, if no other test was told so within the last minute.
    assert not [record for record in caplog.records if record.name != connections.__name__]


async def test_stop_ends_a_handshake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "CLOSING_PATIENCE_S", PATIENCE_S)
    async with served(folder, tls()) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        await asyncio.sleep(0.1)
        began_s = time.monotonic()
        await client.server.stop()
        assert time.monotonic() - began_s < AT_ONCE_S
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("kind", "certificate", "admitted"),
    [
        ("RequireAndVerifyClientCert", "scraper", True),
        ("RequireAndVerifyClientCert", "stranger", False),
        ("RequireAndVerifyClientCert", None, False),
        ("VerifyClientCertIfGiven", "scraper", True),
        ("VerifyClientCertIfGiven", "stranger", False),
        ("VerifyClientCertIfGiven", None, True),
        ("RequestClientCert", "stranger", True),
        ("RequestClientCert", None, True),
    ],
)
async def test_client_certificates_are_requested_as_configured(
    folder: Path, kind: str, certificate: str | None, admitted: bool
) -> None:
    async with served(folder, tls(more=VERIFIED.format(kind=kind))) as client:
        response = client.get("/livez", context=client_context(folder, certificate))
        if admitted:
            assert (await response)[0] == 200
        else:
            with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                await response


async def test_only_configured_versions_and_suites_are_accepted(folder: Path) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    older = client_context(folder)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    more = f", cipher_suites: [{suite}], curve_preferences: [CurveP384]"
    async with served(folder, tls(more=more)) as client:
        agreed = (await client.handshake(older)).cipher()
        assert agreed is not None and agreed[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    for more in (", min_version: TLS13", ", cipher_suites: [TLS_AES_128_GCM_SHA256]"):
        async with served(folder, tls(more=more)) as client:
            assert (await client.handshake(client_context(folder))).version() == "TLSv1.3"
            with pytest.raises(OSError):
                await client.handshake(older)


async def test_new_connections_get_the_renewed_certificate(folder: Path) -> None:
    async with served(folder, tls()) as client, aiohttp.ClientSession() as session:
        before = await client.serial()
        kept = await session.get(client.url("/livez"), ssl=client_context(folder))
        with capture_logs() as lines:
            shutil.copy(folder / "renewed.pem", folder / "server.pem")
            await until(lambda: "cannot be used" in str(lines))
            assert await client.serial() == before, "the key does not belong to it yet"
            shutil.copy(folder / "renewed.key", folder / "server.key")
            await until(lambda: "reloaded" in str(lines))
        assert await client.serial() != before
        again = await session.get(client.url("/livez"), ssl=client_context(folder))
        assert kept.status == again.status == 200


async def test_a_removed_authority_admits_nobody(folder: Path) -> None:
    text = tls(more=VERIFIED.format(kind="RequireAndVerifyClientCert"))
    async with served(folder, text) as client:
        scraper = client_context(folder, "scraper")
        assert (await client.get("/livez", context=scraper))[0] == 200
        with capture_logs() as lines:
            shutil.copy(folder / "other-ca.pem", folder / "trusted.pem")
            write(folder, text.replace("ca.pem", "trusted.pem"))
            await until(lambda: "reloaded" in str(lines))
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await client.get("/livez", context=scraper)


async def test_users_change_while_it_runs(folder: Path) -> None:
    async with served(folder, USERS) as client:
        assert (await client.get("/metrics", RIGHT))[0] == 200
        with capture_logs() as lines:
            write(folder, USERS.replace("bob", "eve"))
            await until(lambda: "reloaded" in str(lines))
        assert (await client.get("/metrics", RIGHT))[0] == 401
        assert (await client.get("/metrics", ("eve", "relevanced")))[0] == 200


@pytest.mark.parametrize("text", ["basic_auth_users: {bob: hunter2}", "x: 1", "{", tls(), None])
async def test_a_change_that_cannot_be_used_leaves_the_old_state(
    folder: Path, text: str | None
) -> None:
    async with served(folder, USERS) as client:
        with capture_logs() as lines:
            if text is None:
                (folder / "web.yml").unlink()
            else:
                write(folder, text)
            await until(lambda: lines)
        assert (await client.get("/metrics"))[0] == 401
        assert (await client.get("/metrics", RIGHT))[0] == 200
    assert "changed but cannot be used" in str(lines) and "hunter2" not in str(lines)


async def test_each_unusable_change_is_logged_once(folder: Path) -> None:
    async with served(folder, USERS):
        with capture_logs() as lines:
            for times, text in enumerate(("x: 1", "y: 1"), start=1):
                write(folder, text)
                await until(partial(has_lines, lines, times))
                await asyncio.sleep(1.5 * READ_AGAIN_EVERY_S)  # it is read once more
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            tls("nothing"),
            ["cert_file=nothing.pem: cannot be read: No such", "key_file=nothing.key"],
        ),
        (
            "tls_server_config: {cert_file: server.pem, key_file: scraper.key}",
            ["key_file=scraper.key: must be an unencrypted PEM key that belongs to cert_file: key"],
        ),
        (tls("locked"), ["key_file=locked.key: must be an unencrypted PEM key"]),
        (
            tls(more=VERIFIED.format(kind="VerifyClientCertIfGiven")).replace("ca.pem", "web.yml"),
            ["client_ca_file=web.yml: must be PEM certificates: "],
        ),
    ],
    ids=["missing", "foreign key", "locked key", "no certificate"],
)
async def test_unusable_certificates_are_faults_at_the_start(
    folder: Path, text: str, expected: list[str]
) -> None:
    path = write(folder, text)
    with pytest.raises(ConfigError) as caught:
        await HttpServer(Telemetry("1"), "worker").start("127.0.0.1", 0, path)
    assert len(caught.value.faults) == len(expected)
    for fault, beginning in zip(caught.value.faults, expected, strict=True):
        assert fault.startswith(f"http.web_config={path}: tls_server_config.{beginning}")


@pytest.mark.parametrize("command", [["run", "--config"], ["check-config"]], ids=["run", "check"])
def test_a_faulty_web_configuration_ends_the_command(folder: Path, command: list[str]) -> None:
    path = write(folder, "x: 1\nbasic_auth_users: {bob: hunter2}")
    config = folder / "config.toml"
    config.write_text(f'[http]\nlisten = "127.0.0.1:0"\nweb_config = "{path}"\n')
    arguments = [sys.executable, "-m", "relevanced.daemon", *command, str(config)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    faults = [line for line in done.stderr.splitlines() if "http.web_config" in line]
    assert (done.returncode, len(faults)) == (2, 2)
    assert faults[0].startswith(f"http.web_config={path}: x: unknown key")
    assert "hunter2" not in done.stdout + done.stderr


def test_check_config_can_leave_the_files_of_others_unread(folder: Path) -> None:
    config = folder / "config.toml"
    config.write_text('[http]\nweb_config = "/elsewhere/web.yml"\n')
    command = [sys.executable, "-m", "relevanced.daemon", "check-config", str(config)]
    for option, code in (("--secret-files", 2), ("--no-secret-files", 0)):
        done = subprocess.run([*command, option], capture_output=True, timeout=60, check=False)
        assert done.returncode == code


def test_a_system_without_bcrypt_gets_advice(folder: Path) -> None:
    with pytest.raises(Unusable, match="basic_auth_users.bob: this system's crypt .*scrypt"):
        load(write(folder, USERS), None)


async def test_a_security_can_be_stopped_twice(folder: Path) -> None:
    security = Security(write(folder, USERS))
    await security.start()
    await security.stop()
    await security.stop()


GOOD = {
    "empty": "",
    "users": USERS,
    "tls": tls(),
    "suites": tls(more=", cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA], max_version: TLS12"),
    "suites of 1.3": tls(more=", cipher_suites: [TLS_AES_128_GCM_SHA256], min_version: TLS13"),
    "curve": tls(more=", curve_preferences: [X25519], prefer_server_cipher_suites: false"),
    "mutual": tls(more=VERIFIED.format(kind="RequireAndVerifyClientCert")),
    "if given": tls(more=VERIFIED.format(kind="VerifyClientCertIfGiven")),
    "requested": tls(more=VERIFIED.format(kind="RequestClientCert")),
    "headers": "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: sameorigin\n",
}
BAD = {
    "no YAML": "{",
    "unknown key": "x: 1",
    "unknown inner key": tls(more=", x: 1"),
    "twice": USERS + USERS,
    "no hash": "basic_auth_users: {bob: secret}",
    "no key": "tls_server_config: {cert_file: server.pem}",
    "no file": tls("nothing"),
    "foreign key": "tls_server_config: {cert_file: server.pem, key_file: scraper.key}",
    "version": tls(more=", min_version: TLS9"),
    "suite": tls(more=", cipher_suites: [RC4]"),
    "curve": tls(more=", curve_preferences: [P1]"),
    "kind": tls(more=", client_auth_type: Maybe"),
    "authority without kind": tls(more=", client_ca_file: ca.pem"),
    "header": "http_server_config: {headers: {Server: me}}",
}


def promtool_takes(path: str) -> bool:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    command = ["promtool", "check", "web-config", path]
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


@pytest.mark.parametrize("text", GOOD.values(), ids=list(GOOD))
def test_promtool_and_we_take_the_same_files(folder: Path, text: str) -> None:
    path = write(folder, text)
    assert promtool_takes(path)
    assert load(path, find_crypt()).settings == parse(text)


@pytest.mark.parametrize("text", BAD.values(), ids=list(BAD))
def test_promtool_and_we_refuse_the_same_files(folder: Path, text: str) -> None:
    path = write(folder, text)
    assert not promtool_takes(path)
    with pytest.raises(Unusable):
        load(path, find_crypt())
