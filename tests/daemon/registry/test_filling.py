"""Filling a book: each schema is asked for once, misses are remembered, and nothing runs away."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest
from google.protobuf import descriptor_pb2

from relevanced.daemon.codecs import (
    AVRO,
    ID,
    PROTOBUF,
    Bodies,
    Framing,
    SchemaBook,
    SchemaId,
    SchemaText,
    UnreadableSchema,
)
from relevanced.daemon.errors import RegistryUnavailable
from relevanced.daemon.registry import (
    AT_ONCE,
    ConfluentRegistry,
    MissingSchema,
    Rate,
    RegistryClient,
    RegistrySettings,
    SchemaFiller,
    filling as filling_module,
)
from tests.daemon.schemas.protobuf_messages import STRING, add_fields
from tests.registry_server import MemoryRegistry, serving

TOPIC = "events"
KNOWN = 10
"""Ids below this are in the registry."""


class Shelf:
    """A registry in memory. `open` is clear while it answers nobody."""

    def __init__(self) -> None:
        self.asked = Counter[SchemaId]()
        self.open = asyncio.Event()
        self.open.set()
        self.away = False
        self.at_once = self.most_at_once = 0

    async def schema(self, schema: SchemaId) -> SchemaText:
        self.asked[schema] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            await self.open.wait()
        finally:
            self.at_once -= 1
        if self.away:
            raise RegistryUnavailable("registry http://sr does not answer")
        assert isinstance(schema.value, int)
        if schema.value >= KNOWN:
            raise MissingSchema("is not in the registry")
        if schema.value == 0:
            return SchemaText(AVRO, "{")
        return SchemaText(AVRO, '"long"')

    async def close(self) -> None:
        pass


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 1_000
        monkeypatch.setattr(filling_module, "_now_ms", lambda: self.ms)


def of_ids(*ids: int) -> dict[str, list[SimpleNamespace]]:
    values = [b"\0" + number.to_bytes(4) + b"body" for number in ids]
    return {TOPIC: [SimpleNamespace(topic=TOPIC, value=value, headers=()) for value in values]}


def ids(*numbers: int) -> set[SchemaId]:
    return {SchemaId(ID, number) for number in numbers}


def filler_of(shelf: Shelf, rate: Rate | None = None) -> SchemaFiller:
    return SchemaFiller(SchemaBook({TOPIC: Framing(AVRO)}), shelf, rate)


async def test_each_schema_is_asked_for_once_however_many_wait() -> None:
    shelf = Shelf()
    filler = filler_of(shelf)
    shelf.open.clear()
    waiting = [asyncio.create_task(filler.fetch(ids(1, 2))) for _ in range(5)]
    await asyncio.sleep(0.05)
    shelf.open.set()
    await asyncio.gather(*waiting)
    assert shelf.asked == {schema: 1 for schema in ids(1, 2)}
    assert filler.unknown(of_ids(1, 2, 3)) == ids(3)
    assert filler.unknown({"another": of_ids(3)[TOPIC]}) == set()
    assert len(filler.book) == 2


@pytest.mark.parametrize("number", [0, 99], ids=["unreadable", "missing"])
async def test_what_cannot_be_used_is_asked_for_again_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    shelf, clock = Shelf(), Clock(monkeypatch)
    filler = filler_of(shelf)
    await filler.fetch(ids(number))
    for clock.ms in (1_000, 60_999):
        assert filler.unknown(of_ids(number)) == set()
    clock.ms = 61_000
    assert filler.unknown(of_ids(number)) == ids(number)
    assert shelf.asked == {SchemaId(ID, number): 1}


async def test_an_outage_leaves_what_was_answered_out_of_the_next_question() -> None:
    shelf = Shelf()
    filler = filler_of(shelf)
    await filler.fetch(ids(1, 2))
    shelf.away = True
    wanted = ids(3, 4)
    with pytest.raises(RegistryUnavailable):
        await filler.fetch(wanted)
    assert wanted == ids(3, 4)
    assert filler.unknown(of_ids(1, 2)) == set(), "an outage stops new ids only"
    shelf.away = False
    await filler.fetch(wanted)
    assert wanted == set() and shelf.asked[SchemaId(ID, 3)] == 2


async def test_what_another_lane_got_meanwhile_is_not_asked_for_again() -> None:
    shelf = Shelf()
    filler = filler_of(shelf)
    shelf.away = True
    waiting = [ids(1, 2, 99), ids(1, 2, 99)]
    for wanted in waiting:
        with pytest.raises(RegistryUnavailable):
            await filler.fetch(wanted)
    shelf.away, before = False, shelf.asked.total()
    for wanted in waiting:
        await filler.fetch(wanted)
        assert wanted == set()
    assert shelf.asked.total() == before + 3


async def test_who_leaves_takes_no_answer_from_the_others() -> None:
    shelf = Shelf()
    filler = filler_of(shelf)
    shelf.open.clear()
    leaving, staying = (asyncio.create_task(filler.fetch(ids(1))) for _ in range(2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.sleep(0.01)
    shelf.open.set()
    await staying
    assert leaving.cancelled() and shelf.asked == {SchemaId(ID, 1): 1}
    await filler.close()


async def test_random_ids_are_asked_for_few_at_a_time_and_at_a_bounded_rate() -> None:
    shelf = Shelf()
    filler = filler_of(shelf, Rate(burst=50, a_second=500.0))
    wanted = filler.unknown(of_ids(*range(1000, 1200)))
    began = asyncio.get_running_loop().time()
    await filler.fetch(wanted)
    assert asyncio.get_running_loop().time() - began >= (200 - 50) / 500.0 * 0.9
    assert shelf.most_at_once <= AT_ONCE
    assert max(shelf.asked.values()) == 1 and len(shelf.asked) == 200
    assert filler.unknown(of_ids(*range(1000, 1200))) == set()


async def test_closing_leaves_no_task_behind() -> None:
    shelf = Shelf()
    filler = filler_of(shelf)
    shelf.open.clear()
    waiting = asyncio.create_task(filler.fetch(ids(1)))
    await asyncio.sleep(0.01)
    await filler.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_a_rate_allows_a_burst_and_then_so_many_a_second() -> None:
    rate = Rate(burst=2, a_second=10.0)
    assert [rate.take(100.0) for _ in range(4)] == pytest.approx([0, 0, 0.1, 0.2])
    assert rate.take(100.3) == pytest.approx(0.0)
    assert rate.take(1000.0) == rate.take(1000.0) == 0
    assert rate.take(1000.0) == pytest.approx(0.1)


def test_an_unreadable_schema_is_no_error_of_the_caller() -> None:
    with pytest.raises(UnreadableSchema):
        SchemaBook().add(SchemaId(ID, 0), SchemaText("xsd", ""))


async def test_protobuf_of_a_registry_is_read_with_its_imports() -> None:
    common = descriptor_pb2.FileDescriptorProto(name="common.proto", package="c", syntax="proto3")
    add_fields(common.message_type.add(name="Item"), ("id", STRING))
    shown = descriptor_pb2.FileDescriptorProto(name="shown.proto", package="s", syntax="proto3")
    shown.dependency.append("shop/common.proto")
    add_fields(shown.message_type.add(name="Shown"), ("items*", ".c.Item"))
    server = MemoryRegistry()
    server.add("text", "common", "PROTOBUF", descriptor=common.SerializeToString())
    imports = [{"name": "shop/common.proto", "subject": "common", "version": 1}]
    number = server.add("text", "shown", "PROTOBUF", imports, shown.SerializeToString())
    framing = Framing(PROTOBUF)
    book = SchemaBook({TOPIC: framing})
    value = b"\0" + number.to_bytes(4) + b"\0" + b"\x0a\x04\x0a\x02d1" + b"\x0a\x04\x0a\x02d2"
    record = SimpleNamespace(topic=TOPIC, value=value, headers=())
    async with serving(server):
        client = RegistryClient(RegistrySettings((server.url,)))
        filler = SchemaFiller(book, ConfluentRegistry(client, lambda outcome: None))
        wanted = filler.unknown({TOPIC: [record]})
        assert wanted == ids(number)
        await filler.fetch(wanted)
        await filler.close()
    body = Bodies(framing, book).of(value)
    assert body.value == {"items": [{"id": "d1"}, {"id": "d2"}]} and body.message == "s.Shown"
