"""AWS Glue, as its documentation says that it answers. No cloud is asked: a server of the test
speaks the protocol."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from relevanced.daemon.errors import RegistryUnavailable
from relevanced.daemon.registry import MissingSchema
from relevanced.daemon.registry.glue import GlueRegistry
from relevanced.daemon.schemas import AVRO, GLUE_VERSION, ID, SchemaId, SchemaText, UnreadableSchema
from tests.registry_server import FaultyServer, serving

VERSION = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"
SECRET = "planted-secret-of-aws"
AVAILABLE = {"DataFormat": "AVRO", "SchemaDefinition": '"long"', "Status": "AVAILABLE"}


class GlueServer(FaultyServer):
    """Answers GetSchemaVersion."""

    versions: dict[str, dict[str, Any]] = {}
    refusal: str | None = None

    async def reply(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["X-Amz-Target"] == "AWSGlue.GetSchemaVersion"
        version = json.loads(await request.text())["SchemaVersionId"]
        code = self.refusal or (None if version in self.versions else "EntityNotFoundException")
        body = {"__type": code, "Message": "no"} if code else self.versions[version]
        return web.Response(status=400 if code else 200, text=json.dumps(body))


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[GlueServer]:
    made = GlueServer()
    async with serving(made):
        monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", made.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
        yield made


async def test_each_answer_of_glue_becomes_what_it_says(server: GlueServer) -> None:
    outcomes = Counter[str]()
    asked = SchemaId(GLUE_VERSION, VERSION)
    registry = GlueRegistry("eu-west-1", lambda outcome: outcomes.update([outcome]))
    server.versions = {VERSION: AVAILABLE}
    assert await registry.schema(asked) == SchemaText(AVRO, '"long"')
    with pytest.raises(MissingSchema, match="is not in the registry"):
        await registry.schema(SchemaId(GLUE_VERSION, VERSION.replace("b", "c")))
    with pytest.raises(MissingSchema, match="is none of AWS Glue"):
        await registry.schema(SchemaId(ID, 1))
    for change, why in (
        ({"Status": "DELETING"}, "its status"),
        ({"DataFormat": "PROTOBUF"}, "FILE"),
        ({"DataFormat": "XSD"}, "its type is 'XSD'"),
    ):
        server.versions = {VERSION: {**AVAILABLE, **change}}
        with pytest.raises(UnreadableSchema, match=why):
            await registry.schema(asked)
    assert outcomes == {"ok": 4, "missing": 1}
    await registry.close()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("AccessDeniedException", "refuses the login (AccessDeniedException)"),
        ("InternalServiceException", "answers InternalServiceException"),
        ("InvalidInputException", "answers InvalidInputException"),
        ("", "does not answer"),
    ],
)
async def test_what_is_no_answer_is_an_outage(server: GlueServer, code: str, text: str) -> None:
    server.refusal = code
    if not code:
        await server.stop()
    assert await trouble_of(VERSION) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({**AVAILABLE, "Status": "PENDING"}, "the status of the schema is PENDING, must become"),
        ({**AVAILABLE, "Status": "LATER"}, "no status of a schema"),
        ({}, "no status of a schema"),
        ({**AVAILABLE, "DataFormat": None}, "no SchemaDefinition with a DataFormat"),
        ({"Status": "AVAILABLE", "DataFormat": "AVRO"}, "no SchemaDefinition with a DataFormat"),
    ],
)
async def test_an_answer_that_is_no_version_is_an_outage_until_it_is_one(
    server: GlueServer, given: dict[str, Any], text: str
) -> None:
    server.versions = {VERSION: given}
    said = await trouble_of(VERSION)
    assert said.startswith(f"does not answer properly (200: {text}")


@pytest.mark.parametrize("status", [200, 400, 404, 407])
async def test_a_page_of_html_is_an_outage(server: GlueServer, status: int) -> None:
    server.faults.status, server.faults.body = status, b"<html>Please log in</html>"
    server.faults.kind = "text/html"
    assert await trouble_of(VERSION)


async def trouble_of(version: str) -> str:
    """What is said of Glue when it is asked for a version."""
    outcomes = Counter[str]()
    registry = GlueRegistry("eu-west-1", lambda outcome: outcomes.update([outcome]))
    with pytest.raises(RegistryUnavailable) as raised:
        await registry.schema(SchemaId(GLUE_VERSION, version))
    await registry.close()
    shown = str(raised.value)
    assert shown.startswith("registry AWS Glue in eu-west-1 ") and SECRET not in shown
    assert SECRET not in raised.value.reason and outcomes == {"failed": 1}
    return shown.removeprefix("registry AWS Glue in eu-west-1 ")
