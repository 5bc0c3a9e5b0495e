"""What a registry is asked, and what becomes of each of its answers."""

import asyncio
import base64
import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from relevanced.daemon.config import Secret, load, read_file
from relevanced.daemon.errors import RegistryUnavailable, StartError
from relevanced.daemon.recompute.schema_registry import registry_settings
from relevanced.daemon.registry import (
    ConfluentRegistry,
    MissingSchema,
    RegistryClient,
    RegistrySettings,
    client as client_module,
    protocol,
)
from relevanced.daemon.schemas import (
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
    server.faults.paths[f"/schemas/guids/{server.guid(1)}"] = status
    async with asking(server.url) as asked:
        with pytest.raises(MissingSchema, match="the registry has no /schemas/guids"):
            await asked.registry.schema(SchemaId(GUID, server.guid(1)))
        assert asked.outcomes == {"missing": 1}


@pytest.mark.parametrize("status", [404, 405])
async def test_a_proxy_that_has_no_path_at_all_is_no_registry_without_guids(
    server: MemoryRegistry, status: int
) -> None:
    server.faults.status = status
    async with asking(server.url) as asked:
        with pytest.raises(RegistryUnavailable, match=f"answers {status}"):
            await asked.registry.schema(SchemaId(GUID, server.guid(1)))
        assert asked.outcomes == {"failed": 1}


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


async def test_a_schema_whose_reference_is_missing_is_missing(server: MemoryRegistry) -> None:
    reference = {"name": "A", "subject": "gone", "version": 3}
    schema = server.add('"x"', references=[reference])
    why = "needs A, version 3 of subject gone, which is not in the registry"
    async with asking(server.url) as asked:
        with pytest.raises(MissingSchema, match=why):
            await asked.registry.schema(number(schema))


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


HTML = b"<html>Please log in</html>"
NOT_PROPERLY = "does not answer properly"
NO_SCHEMA = f"{NOT_PROPERLY} (200: its JSON has no schema)"
TROUBLE = [
    (401, b"", "refuses the login (401)"),
    (403, b"", "forbids to read the schema (403)"),
    (404, b"<html>", "answers 404 as for a wrong path: is that of registry.url right?"),
    (404, b'{"error_code": 404}', "answers 404 as for a wrong path"),
    (404, b'{"error_code": 40403', "answers 404 as for a wrong path"),
    (404, b'{"name": "NotFoundException"}', "answers 404 as for a wrong path"),
    (302, b"", "answers 302: leads to another address"),
    (204, b"", "answers 204"),
    (400, b'{"error_code": 40403}', "answers 400"),
    (405, b"", "answers 405"),
    (407, b"", "does not answer: a proxy before it wants a login (407)"),
    (429, b"", "answers 429"),
    (451, b"", "answers 451"),
    (500, b'{"error_code": 50001}', "answers 500"),
    (501, b"", "answers 501"),
    (503, b"", "answers 503"),
    (200, b"", f"{NOT_PROPERLY} (200: no JSON, text/html)"),
    (200, HTML, f"{NOT_PROPERLY} (200: not an object of JSON, text/html)"),
    (200, b'["schema"]', f"{NOT_PROPERLY} (200: not an object of JSON, text/html)"),
    (200, b'{"schema": "\\"lo', f"{NOT_PROPERLY} (200: not an object of JSON, text/html)"),
    (200, b"{}", NO_SCHEMA),
    (200, b'{"schema": null}', NO_SCHEMA),
    (200, b'{"error_code": 40403, "message": "not found"}', NO_SCHEMA),
    (
        200,
        b'{"schema": "x", "schemaType": ["XSD"]}',
        f"{NOT_PROPERLY} (200: its schemaType is ['XSD']: must be a text)",
    ),
    (200, b'{"schema": "x", "references": 5}', f"{NOT_PROPERLY} (200: a reference without name"),
    (200, b'{"schema": "x", "references": [{"name": "a"}]}', f"{NOT_PROPERLY} (200: a reference"),
    (200, b"x" * (client_module.MOST_BYTES + 1), f"{NOT_PROPERLY} (more than 4194304 bytes)"),
]


@pytest.mark.parametrize(
    ("status", "body", "text"), TROUBLE, ids=[f"{s}-{b[:30]!r}" for s, b, _ in TROUBLE]
)
async def test_an_answer_that_is_none_is_an_outage(
    server: MemoryRegistry, status: int, body: bytes, text: str
) -> None:
    server.add(LONG)
    server.faults.status, server.faults.body, server.faults.kind = status, body, "text/html"
    async with asking(server.url, username="u", password=Secret("planted-secret")) as asked:
        with pytest.raises(RegistryUnavailable) as raised:
            await asked.registry.schema(number(1))
        shown = f"{raised.value} {raised.value.reason}"
        assert shown.startswith(f"registry {server.url} {text}") and "planted" not in shown
        assert asked.outcomes == {"failed": 1}


async def test_an_answer_that_ends_early_is_an_outage(
    server: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"schema": "')
        assert request.transport is not None
        request.transport.close()
        return response

    monkeypatch.setattr(server, "reply", cut)
    async with asking(server.url) as asked:
        with pytest.raises(RegistryUnavailable, match="does not answer"):
            await asked.registry.schema(number(1))


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (HTML, None, "no X-Registry-ArtifactType, and no schema of Avro"),
        (b"{}", None, "no X-Registry-ArtifactType, and no schema of Avro"),
        (b'"long"', "", "its X-Registry-ArtifactType is empty"),
    ],
)
async def test_apicurios_own_answer_decides_only_if_it_says_that_it_is_one(
    server: MemoryRegistry, monkeypatch: pytest.MonkeyPatch, body: bytes, kind: Any, text: str
) -> None:
    async def answered(request: web.Request) -> web.Response:
        headers = {} if kind is None else {"X-Registry-ArtifactType": kind}
        return web.Response(body=body, headers=headers)

    monkeypatch.setattr(server, "reply", answered)
    async with asking(server.url) as asked:
        with pytest.raises(RegistryUnavailable) as raised:
            await asked.registry.schema(SchemaId(GLOBAL, 1))
        assert f"does not answer properly (200: {text})" in str(raised.value)
        body, kind = b'"long"', None
        assert await asked.registry.schema(SchemaId(GLOBAL, 1)) == SchemaText(AVRO, LONG)


@pytest.mark.parametrize("kind", ["XSD", "OPENAPI", "AGENT_CARD", "x" * 100])
async def test_a_schema_of_a_type_that_no_record_is_read_by_is_an_answer(
    server: MemoryRegistry, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """No record of it can ever be read, and those after it must not wait for that."""

    async def answered(request: web.Request) -> web.Response:
        if "globalIds" in request.path:
            return web.Response(text="x", headers={"X-Registry-ArtifactType": kind})
        return web.json_response({"schema": "x", "schemaType": kind})

    monkeypatch.setattr(server, "reply", answered)
    async with asking(server.url) as asked:
        for schema in (number(1), SchemaId(GLOBAL, 1)):
            with pytest.raises(UnreadableSchema, match=f"its type is '{kind[:39]}") as raised:
                await asked.registry.schema(schema)
            assert len(str(raised.value)) < 100
        assert asked.outcomes == {"ok": 2}


async def test_a_schema_is_missing_only_where_every_address_says_so(
    server: MemoryRegistry,
) -> None:
    server.add(LONG)
    lagging = MemoryRegistry()
    async with serving(lagging), asking(lagging.url, server.url) as asked:
        assert await asked.registry.schema(number(1)) == SchemaText(AVRO, LONG)
        with pytest.raises(MissingSchema):
            await asked.registry.schema(number(2))
        server.faults.status = 503
        with pytest.raises(RegistryUnavailable) as raised:
            await asked.registry.schema(number(2))
        assert str(raised.value) == f"registry {server.url} answers 503"


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


async def test_a_registry_that_was_made_anew_is_noticed(server: MemoryRegistry) -> None:
    reference = {"name": "A", "subject": "a", "version": 1}
    server.add(LONG, "a")
    schema = server.add('"x"', "b", references=[reference])
    async with asking(server.url) as asked:
        before = await asked.registry.schema(number(schema))
        assert not await asked.registry.has_another(number(schema))
        server.schemas.clear()
        server.versions.clear()
        server.add('"int"', "a")
        with pytest.raises(MissingSchema):
            await asked.registry.has_another(number(schema))
        server.add('"y"', "b", references=[reference])
        assert await asked.registry.has_another(number(schema))
        after = await asked.registry.schema(number(schema))
    a = SchemaText(AVRO, LONG)
    assert before == SchemaText(AVRO, '"x"', (("A", a),))
    assert after == SchemaText(AVRO, '"y"', (("A", SchemaText(AVRO, '"int"')),))
    assert asked.outcomes == {"ok": 4}, "nobody waits for these questions: they are not counted"


async def test_what_a_registry_lists_says_which_ids_it_cannot_have(server: MemoryRegistry) -> None:
    for _ in range(protocol.PAGE + 1):
        server.add(LONG)
    async with asking(server.url) as asked:
        listing = await asked.registry.listing()
        assert listing is not None and (listing.lowest, listing.highest) == (1, 501)
        assert [listing.cannot_have(number(n)) for n in (0, 502, 1501, 1502)] == [0, 0, 0, 1]
        assert not listing.cannot_have(SchemaId(GUID, server.guid(1)))
        older = MemoryRegistry()
        older.lists = False
        async with serving(older), asking(server.url, older.url) as both:
            assert await both.registry.listing() is None, "each must list what it has"
        server.faults.status, server.faults.body = 200, HTML
        assert await asked.registry.listing() is None


async def test_a_login_is_sent_as_it_is_given(server: MemoryRegistry) -> None:
    server.add(LONG)
    server.faults.login = BASIC
    async with asking(server.url, username="u", password=Secret("p🔑")) as asked:
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


async def test_a_certificate_and_a_password_that_are_refused_are_read_again(tmp_path: Path) -> None:
    old, new = Authority(tmp_path / "files"), Authority(tmp_path / "files", "new")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=new.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*old.server("server"))
    certificate, key = old.client("client")
    password = tmp_path / "password"
    password.write_text("one")
    server = MemoryRegistry()
    server.add(LONG)
    server.faults.login = f"Basic {base64.b64encode(b'u:two').decode()}"
    async with serving(server, context):
        toml = (
            f'[registry]\nurl = "{server.url}"\nusername = "u"\npassword_file = "{password}"\n'
            f'ssl_cafile = "{old.certificate}"\nssl_certfile = "{certificate}"\n'
            f'ssl_keyfile = "{key}"\n'
        )
        asked = Asking(registry_settings(load(toml, {}, "test", read_file).registry))
        with pytest.raises(RegistryUnavailable, match="does not answer"):
            await asked.registry.schema(number(1))
        for file, its in zip((certificate, key), new.client("another"), strict=True):
            os.replace(its, file)
        with pytest.raises(RegistryUnavailable, match="refuses the login"):
            await asked.registry.schema(number(1))
        password.write_text("two\n")
        assert await asked.registry.schema(number(1)) == SchemaText(AVRO, LONG)
        await asked.registry.close()


async def test_both_sides_prove_who_they_are_over_tls(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "files"), Authority(tmp_path / "other")
    certificate, key = authority.server("server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate, key)
    own, own_key = authority.client("client")
    encrypt(own_key, "key")
    given = {"ssl_certfile": str(own), "ssl_keyfile": str(own_key)}
    given["ssl_key_password"] = Secret("key")
    server = MemoryRegistry()
    server.add(LONG)
    async with serving(server, context):
        async with asking(server.url, ssl_cafile=str(authority.certificate), **given) as asked:
            assert await asked.registry.schema(number(1)) == SchemaText(AVRO, LONG)
        authorities = "unknown authority .*: see registry.ssl_cafile"
        for cafile, files, words in ((stranger, given, authorities), (authority, {}, "registry")):
            async with asking(server.url, ssl_cafile=str(cafile.certificate), **files) as asked:
                with pytest.raises(RegistryUnavailable, match=words):
                    await asked.registry.schema(number(1))
    with pytest.raises(StartError, match="registry.ssl_cafile, ssl_certfile, ssl_keyfile"):
        RegistryClient(RegistrySettings((), ssl_cafile=str(tmp_path / "none")))
