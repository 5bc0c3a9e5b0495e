"""The doctor on records that name schemas of a registry."""

import asyncio
import base64
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import load
from relevanced.daemon.tools.traffic import SHAPES
from tests.daemon.tools.doctor.test_diagnosis import EVENTS, native_events
from tests.registry_server import MemoryRegistry, serving

SECRET = "planted-in-the-address"


def nullable(kind: object) -> list[object]:
    return ["null", kind]


def row(name: str, **fields: object) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


SCHEMA = row(
    "Track",
    type="string",
    event="string",
    messageId="string",
    anonymousId=nullable("string"),
    context=row(
        "Context",
        device=row("Device", type=nullable("string")),
        location=row("Location", country=nullable("string")),
    ),
    timestamp="string",
    properties=row(
        "Properties",
        search_id="string",
        product_id=nullable("string"),
        position=nullable("int"),
        products=nullable(
            {"type": "array", "items": row("Product", product_id="string", position="int")}
        ),
    ),
)
"""Segment's calls as a team would write them in Avro."""


@pytest.fixture
async def registry() -> AsyncIterator[MemoryRegistry]:
    made = MemoryRegistry()
    made.add(json.dumps(SCHEMA))
    async with serving(made):
        yield made


def lines(number: int = 1) -> str:
    """A recording of `kcat -J`."""
    parsed, found = fastavro.parse_schema(SCHEMA), []
    for offset, (arrives_ms, event) in enumerate(native_events()):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, SHAPES["segment"].record(event))
        value = b"\0" + number.to_bytes(4) + body.getvalue()
        partition = len(event["impression_id"]) % 2
        line = {"topic": "shop", "partition": partition, "offset": offset, "ts": arrives_ms}
        found.append({**line, "payload_b64": base64.b64encode(value).decode()})
    return "".join(f"{json.dumps(line)}\n" for line in found)


async def invoked(tmp_path: Path, command: str, config: str, *options: str) -> Result:
    path = tmp_path / "given.toml"
    path.write_text(config)
    call = [command, str(tmp_path / "recorded.jsonl"), "--config", str(path), *options]
    return await asyncio.to_thread(CliRunner().invoke, cli, call)


def with_login(registry: MemoryRegistry) -> str:
    url = registry.url.replace("://", f"://u:{SECRET}@")
    return f'[registry]\nurl = "{url}"\n'


async def test_what_the_registry_knows_is_read_and_its_codec_proposed(
    registry: MemoryRegistry, tmp_path: Path
) -> None:
    (tmp_path / "recorded.jsonl").write_text(lines())
    where = ("--registry", registry.url, "--output", "json")
    result = await invoked(tmp_path, "doctor", "", *where)
    found = json.loads(result.stdout)
    words = {finding["name"]: finding["words"] for finding in found["findings"]}
    assert result.exit_code == 0, words
    said = "are Avro in frames of Confluent's form, schema 1"
    assert words["encoding of shop"].endswith(said)
    assert "100.0 % of" in words["records of shop"] and "100.0 %" in words["join rate"]
    text = found["configuration"]
    config = load(text, {}, "proposed")
    assert config.sources[0].keys.codec == "avro" and 'preset = "segment"' in text
    assert config.registry.url is not None and config.registry.url.reveal() == registry.url
    mapped = await invoked(tmp_path, "map", text, "--kcat")
    assert mapped.exit_code == 0 and len(mapped.stdout.splitlines()) == EVENTS


async def test_records_that_nobody_can_read_name_the_way_out(
    registry: MemoryRegistry, tmp_path: Path
) -> None:
    (tmp_path / "recorded.jsonl").write_text(lines(7))
    result = await invoked(tmp_path, "doctor", "")
    assert result.exit_code == 1
    assert "schema 7: name their schema with --registry" in result.stdout
    result = await invoked(tmp_path, "doctor", with_login(registry))
    assert result.exit_code == 1
    assert "schema 7 is not in the registry" in result.stdout and SECRET not in result.output
    await registry.stop()
    result = await invoked(tmp_path, "doctor", with_login(registry))
    assert result.exit_code == 1 and SECRET not in result.output
    assert f"registry {registry.url} does not answer: the records need schema 7" in result.stderr
