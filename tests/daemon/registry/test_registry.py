"""What a registry is asked, and what becomes of each of its answers."""

import asyncio
import base64
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from relevanced.daemon.codecs import (
    AVRO,
    GLOBAL,
    GLUE_VERSION,
    GUID,
    ID,
    PROTOBUF,
    SchemaId,
    SchemaText,
    UnreadableSchema,
)
from relevanced.daemon.errors import RegistryUnavailable, StartError
from relevanced.daemon.registry import (
    ConfluentRegistry,
    MissingSchema,
    RegistryClient,
    RegistrySettings,
    client as client_module,
)
from tests.registry_server import MemoryRegistry, serving
from tests.services.certificates import Authority, encrypt

LONG = '"long"'
BASIC = "Basic dTpw8J+UkQ=="  # u:p🔑


@pytest.fixture
async def server() -> AsyncIterator[MemoryRegistry]:
    made = MemoryRegistry()
    async with serving(made):
        yield made


class Asking:
    """A registry that is asked, and what came of the questions."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.outcomes = Counter[str]()
        self.registry = ConfluentRegistry(RegistryClient(settings), self.count)

    def count(self, outcome: str) -> None:
        self.outcomes[outcome] += 1


@asynccontextmanager
async def asking(*urls: str, **settings: Any) -> AsyncIterator[Asking]:
    made = Asking(RegistrySettings(urls, **settings))
    try:
        yield made
    finally:
        await made.registry.close()


def number(value: int) -> SchemaId:
    return SchemaId(ID, value)


async def test_a_schema_is_read_with_all_that_it_refers_to(server: MemoryRegistry) -> None:
    server.add(LONG, "a/b")
    server.add('"a"', "child", references=[{"name": "A", "subject": "a/b", "version": 1}])
    both = [
        {"name": "child", "subject": "child", "version": 1},
        {"name": "A.again", "subject": "a/b", "version": 1},
    ]
    parent = server.add('"p"', "parent", references=both)
    async with asking(server.url) as asked:
        found = await asked.registry.schema(number(parent))
        assert asked.outcomes == {"ok": 3}
    a = SchemaText(AVRO, LONG)
    child = SchemaText(AVRO, '"a"', (("A", a),))
    assert found == SchemaText(AVRO, '"p"', (("child", child), ("A.again", a)))
    assert server.asked[1] == "/subjects/child/versions/1?deleted=true"
    assert server.asked[2] == "/subjects/a%2Fb/versions/1?deleted=true"


async def test_protobuf_is_read_as_its_descriptor_and_so_are_its_imports(
    server: MemoryRegistry,
) -> None:
    server.add("message A {}", "a", "PROTOBUF", descriptor=b"a compiled")
    imports = [{"name": "a.proto", "subject": "a", "version": 1}]
    schema = server.add("message B {}", "b", "PROTOBUF", imports, descriptor=b"b compiled")
    async with asking(server.url) as asked:
        found = await asked.registry.schema(number(schema))
    assert base64.b64decode(found.text) == b"b compiled" and found.codec == PROTOBUF
    ((name, imported),) = found.references
    assert name == "a.proto" and base64.b64decode(imported.text) == b"a compiled"


async def test_protobuf_that_the_registry_does_not_compile_names_the_way_out(
    server: MemoryRegistry,
) -> None:
    schema = server.add('syntax = "proto3"; message A {}', kind="PROTOBUF")
    async with asking(server.url) as asked:
        with pytest.raises(UnreadableSchema, match=r'descriptor_set = "FILE", from protoc'):
            await asked.registry.schema(number(schema))
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/1?format=serialized"]


async def test_a_schema_is_found_by_its_guid(server: MemoryRegistry) -> None:
    schema = server.add(LONG)
    async with asking(server.url) as asked:
        found = await asked.registry.schema(SchemaId(GUID, server.guid(schema)))
        assert found == SchemaText(AVRO, LONG)
        with pytest.raises(MissingSchema, match="is not in the registry"):
            await asked.registry.schema(SchemaId(GUID, server.guid(99)))


@pytest.mark.parametrize("status", [404, 405])
async def test_a_registry_without_guids_is_no_outage(server: MemoryRegistry, status: int) -> None:
    server.faults.status = status
    async with asking(server.url) as asked:
        with pytest.raises(MissingSchema, match="the registry has no /schemas/guids"):
            await asked.registry.schema(SchemaId(GUID, server.guid(1)))
        assert asked.outcomes == {"missing": 1}


@pytest.mark.parametrize("value", [99, 2**31 - 1])
async def test_an_id_that_the_registry_does_not_have_is_missing(
    server: MemoryRegistry, value: int
) -> None:
    async with asking(server.url) as asked:
        with pytest.raises(MissingSchema, match="is not in the registry"):
            await asked.registry.schema(number(value))
        assert asked.outcomes == {"missing": 1}


@pytest.mark.parametrize(
    "schema", [number(2**31), SchemaId(GLOBAL, 2**63), SchemaId(GLUE_VERSION, "u")]
)
async def test_what_no_such_registry_can_have_is_not_asked_for(
    server: MemoryRegistry, schema: SchemaId
) -> None:
    async with asking(server.url) as asked:
        with pytest.raises(MissingSchema):
            await asked.registry.schema(schema)
    assert server.asked == []


UNREADABLE = {
    "no schema": ({"schema": None}, "has no schema"),
    "unknown type": ({"schema": "x", "schemaType": "XSD"}, "its type is 'XSD': must be one of"),
    "references": ({"schema": "x", "references": 5}, "has no schema"),
    "reference": ({"schema": "x", "references": [{"name": "a"}]}, "a reference without name"),
    "missing reference": (
        {"schema": "x", "references": [{"name": "A", "subject": "gone", "version": 3}]},
        "needs A, version 3 of subject gone, which is not in the registry",
    ),
}


@pytest.mark.parametrize(("stored", "why"), UNREADABLE.values(), ids=list(UNREADABLE))
async def test_a_schema_that_says_nothing_cannot_be_read(
    server: MemoryRegistry, stored: dict[str, Any], why: str
) -> None:
    server.schemas[server.add("")] = stored
    async with asking(server.url) as asked:
        with pytest.raises(UnreadableSchema, match=why):
            await asked.registry.schema(number(1))


async def test_references_in_a_circle_or_without_end_are_bounded(server: MemoryRegistry) -> None:
    circle = server.add("1", "c", references=[{"name": "c", "subject": "c", "version": 1}])
    wide = server.add(
        "2",
        "w",
        references=[{"name": f"n{i}", "subject": f"s{i}", "version": 1} for i in range(200)],
    )
    for i in range(200):
        server.add(LONG, f"s{i}")
    async with asking(server.url) as asked:
        with pytest.raises(UnreadableSchema, match="more than 16 deep, at c"):
            await asked.registry.schema(number(circle))
        with pytest.raises(UnreadableSchema, match="more than 100 references"):
            await asked.registry.schema(number(wide))
    assert len(server.asked) < 150


TROUBLE = [
    (401, b"", "refuses the login (401)"),
    (403, b"", "forbids to read the schema (403)"),
    (404, b"<html>", "answers 404 as for a wrong path: is that of registry.url right?"),
    (404, b'{"error_code": 404}', "answers 404 as for a wrong path"),
    (302, b"", "answers 302: leads to another address"),
    (429, b"", "answers 429"),
    (500, b'{"error_code": 50001}', "answers 500"),
    (503, b"", "answers 503"),
]


@pytest.mark.parametrize(("status", "body", "text"), TROUBLE, ids=[t for *_, t in TROUBLE])
async def test_an_answer_that_is_none_is_an_outage(
    server: MemoryRegistry, status: int, body: bytes, text: str
) -> None:
    server.add(LONG)
    server.faults.status, server.faults.body = status, body
    async with asking(server.url) as asked:
        with pytest.raises(RegistryUnavailable) as raised:
            await asked.registry.schema(number(1))
        assert str(raised.value).startswith(f"registry {server.url} {text}")
        assert asked.outcomes == {"failed": 1}


async def test_a_registry_that_is_away_is_named(server: MemoryRegistry) -> None:
    await server.stop()
    async with asking(server.url) as asked:
        with pytest.raises(RegistryUnavailable) as raised:
            await asked.registry.schema(number(1))
    assert str(raised.value) == f"registry {server.url} does not answer"
    assert "Connect" in raised.value.reason


async def test_the_next_address_is_tried_and_kept(server: MemoryRegistry) -> None:
    server.add(LONG)
    away, refusing = MemoryRegistry(), MemoryRegistry()
    async with serving(refusing):
        refusing.faults.login = "nobody's"
        await away.start()
        await away.stop()
        async with asking(away.url, refusing.url, server.url) as asked:
            for _ in range(3):
                assert await asked.registry.schema(number(1)) == SchemaText(AVRO, LONG)
            assert len(refusing.asked) == 1
            await server.stop()
            with pytest.raises(RegistryUnavailable) as raised:
                await asked.registry.schema(number(1))
    assert f"registry {away.url} does not answer" in str(raised.value)
    assert f"registry {refusing.url} refuses the login (401)" in str(raised.value)


async def test_a_registry_that_is_silent_is_left(
    server: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    monkeypatch.setattr(client_module, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(server, "reply", silent)
    async with asking(server.url) as asked:
        with pytest.raises(RegistryUnavailable) as raised:
            await asked.registry.schema(number(1))
    released.set()
    assert raised.value.reason.startswith("not within")


async def test_a_schema_without_end_cannot_be_read(server: MemoryRegistry) -> None:
    server.faults.status, server.faults.body = 200, b"x" * (client_module.MOST_BYTES + 1)
    async with asking(server.url) as asked:
        with pytest.raises(UnreadableSchema, match="is larger than 4194304 bytes"):
            await asked.registry.schema(number(1))


async def test_a_login_is_sent_as_it_is_given(server: MemoryRegistry) -> None:
    server.add(LONG)
    server.faults.login = BASIC
    async with asking(server.url, username="u", password="p🔑") as asked:
        assert await asked.registry.schema(number(1)) == SchemaText(AVRO, LONG)


async def test_a_token_is_read_again_for_each_question(
    server: MemoryRegistry, tmp_path: Path
) -> None:
    server.add(LONG)
    path = tmp_path / "token"
    async with asking(server.url, bearer_token_file=str(path)) as asked:
        for token in ("one", "two"):
            path.write_text(f"{token}\n")
            await asked.registry.schema(number(1))
        for text in ("", "a\nb", "é"):
            path.write_text(text)
            with pytest.raises(RegistryUnavailable, match="registry.bearer_token_file=.*: "):
                await asked.registry.schema(number(1))
        path.unlink()
        with pytest.raises(RegistryUnavailable, match="cannot be read: No such file"):
            await asked.registry.schema(number(1))
    assert server.authorizations == ["Bearer one", "Bearer two"]


async def test_both_sides_prove_who_they_are_over_tls(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "files"), Authority(tmp_path / "other")
    certificate, key = authority.server("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate, key)
    own, own_key = authority.client("client")
    encrypt(own_key, "key")
    given = {"ssl_certfile": str(own), "ssl_keyfile": str(own_key), "ssl_key_password": "key"}
    server = MemoryRegistry()
    server.add(LONG)
    async with serving(server, context):
        async with asking(server.url, ssl_cafile=str(authority.certificate), **given) as asked:
            assert await asked.registry.schema(number(1)) == SchemaText(AVRO, LONG)
        for cafile, files in ((stranger, given), (authority, {})):
            async with asking(server.url, ssl_cafile=str(cafile.certificate), **files) as asked:
                with pytest.raises(RegistryUnavailable, match="does not answer"):
                    await asked.registry.schema(number(1))
    with pytest.raises(StartError, match="registry.ssl_cafile, ssl_certfile, ssl_keyfile"):
        RegistryClient(RegistrySettings((), ssl_cafile=str(tmp_path / "none")))
