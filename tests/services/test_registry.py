"""What a real registry answers: Apicurio Registry, by Confluent's protocol and by its own."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from relevanced.daemon.errors import RegistryUnavailable
from relevanced.daemon.registry import (
    ConfluentRegistry,
    MissingSchema,
    RegistryClient,
    RegistrySettings,
)
from relevanced.daemon.schemas import (
    AVRO,
    GLOBAL,
    GUID,
    ID,
    JSON,
    SchemaId,
    SchemaText,
    UnreadableSchema,
)
from tests.services.apicurio import ApicurioRegistry

MISSING = 2**31 - 1


@pytest.fixture
async def registry(apicurio: ApicurioRegistry) -> AsyncIterator[ConfluentRegistry]:
    made = of(apicurio.url)
    yield made
    await made.close()


def of(url: str) -> ConfluentRegistry:
    return ConfluentRegistry(RegistryClient(RegistrySettings((url,))), lambda outcome: None)


def record(name: str, **fields: Any) -> str:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return json.dumps({"type": "record", "name": name, "namespace": "a", "fields": listed})


async def test_a_schema_is_read_with_what_it_refers_to(
    apicurio: ApicurioRegistry, registry: ConfluentRegistry
) -> None:
    prefix = uuid4().hex
    child, parent = record("Child", x="long"), record("Parent", c="a.Child")
    apicurio.register(f"{prefix}/child", child)
    reference = {"name": "a.Child", "subject": f"{prefix}/child", "version": 1}
    number = apicurio.register(f"{prefix}-parent", parent, references=[reference])
    found = await registry.schema(SchemaId(ID, number))
    assert found == SchemaText(AVRO, parent, (("a.Child", SchemaText(AVRO, child)),))


async def test_a_schema_of_json_is_read_as_one(
    apicurio: ApicurioRegistry, registry: ConfluentRegistry
) -> None:
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})
    number = apicurio.register(uuid4().hex, text, "JSON")
    assert await registry.schema(SchemaId(ID, number)) == SchemaText(JSON, text)


async def test_protobuf_without_a_descriptor_names_the_way_out(
    apicurio: ApicurioRegistry, registry: ConfluentRegistry
) -> None:
    number = apicurio.register(
        uuid4().hex, 'syntax = "proto3"; message A { int32 x = 1; }', "PROTOBUF"
    )
    with pytest.raises(UnreadableSchema, match='descriptor_set = "FILE"'):
        await registry.schema(SchemaId(ID, number))


async def test_what_is_not_there_is_missing(registry: ConfluentRegistry) -> None:
    with pytest.raises(MissingSchema, match="is not in the registry"):
        await registry.schema(SchemaId(ID, MISSING))
    with pytest.raises(MissingSchema, match="has no /schemas/guids"):
        await registry.schema(SchemaId(GUID, str(uuid4())))
    with pytest.raises(MissingSchema, match="is not in the registry"):
        await registry.schema(SchemaId(GLOBAL, MISSING))


async def test_what_is_listed_says_which_ids_cannot_be_there(
    apicurio: ApicurioRegistry, registry: ConfluentRegistry
) -> None:
    numbers = [apicurio.register(uuid4().hex, record(f"R{n}", x="long")) for n in range(3)]
    listing = await registry.listing()
    assert listing is not None
    assert not any(listing.cannot_have(SchemaId(ID, number)) for number in numbers)
    assert listing.cannot_have(SchemaId(ID, MISSING))
    assert listing.cannot_have(SchemaId(GLOBAL, MISSING))


async def test_a_wrong_path_is_no_missing_schema(apicurio: ApicurioRegistry) -> None:
    registry = of(f"{apicurio.root}/apis/ccompat")
    with pytest.raises(RegistryUnavailable, match="as for a wrong path: is that of registry.url"):
        await registry.schema(SchemaId(ID, 1))
    await registry.close()


@pytest.mark.parametrize("path", ["", "/apis/ccompat/v7", "/apis/registry/v2", "/apis/registry/v3"])
async def test_a_global_id_is_one_of_apicurios_own_interface(
    apicurio: ApicurioRegistry, path: str
) -> None:
    prefix = uuid4().hex
    apicurio.register(f"{prefix}-child", record("Child", x="long"))
    reference = {"name": "a.Child", "subject": f"{prefix}-child", "version": 1}
    number = apicurio.register(
        f"{prefix}-p", record("Parent", c="a.Child", y="int"), references=[reference]
    )
    registry = of(f"{apicurio.root}{path}")
    found = await registry.schema(SchemaId(GLOBAL, apicurio.global_id(f"{prefix}-p")))
    child = json.loads(found.text)["fields"][0]["type"]
    assert found.codec == AVRO and child["name"] == "Child", "references are resolved there"
    if path:
        assert (await registry.schema(SchemaId(ID, number))).text == record(
            "Parent", c="a.Child", y="int"
        )
    await registry.close()
