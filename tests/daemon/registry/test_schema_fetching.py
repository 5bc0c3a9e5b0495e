"""Filling a book: each schema is asked for once, misses are remembered, and nothing runs away."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from google.protobuf import descriptor_pb2
from structlog.testing import capture_logs

from relevanced.daemon.errors import RegistryUnavailable, SchemaNotThere
from relevanced.daemon.events import InvalidField
from relevanced.daemon.registry import (
    AT_ONCE,
    MARGIN,
    ConfluentRegistry,
    Listing,
    MissingSchema,
    Rate,
    RegistryClient,
    RegistrySettings,
    SchemaFiller,
    schema_fetching as filling_module,
)
from relevanced.daemon.schemas import (
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
from relevanced.daemon.worker import SchemaWaits
from tests.daemon.codecs.protobuf_messages import STRING, add_fields
from tests.registry_server import IMPROPER, MemoryRegistry, serving

TOPIC = "events"
NOW_MS = 1_795_176_000_000
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

    async def has_another(self, schema: SchemaId) -> bool:
        return False

    async def listing(self) -> Listing | None:
        return None

    async def close(self) -> None:
        pass


class Clock:
    """Of the process and of the wall."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 1_000
        monkeypatch.setattr(filling_module, "_now_ms", lambda: self.ms)
        monkeypatch.setattr(filling_module, "_clock_ms", lambda: NOW_MS + self.ms)


def of_ids(*ids: int, body: bytes = b"body", time_ms: int = 0) -> dict[str, list[SimpleNamespace]]:
    """Records that name these ids; without a time, old ones."""
    values = [b"\0" + number.to_bytes(4) + body for number in ids]
    return {
        TOPIC: [
            SimpleNamespace(topic=TOPIC, value=value, headers=(), timestamp=time_ms)
            for value in values
        ]
    }


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
    assert filler.unknown({f"{TOPIC}/7": of_ids(3)[TOPIC]}) == ids(3), "in a lane of all partitions"
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
    record = SimpleNamespace(topic=TOPIC, value=value, headers=(), timestamp=0)
    async with serving(server):
        client = RegistryClient(RegistrySettings((server.url,)))
        filler = SchemaFiller(book, ConfluentRegistry(client, lambda outcome: None))
        wanted = filler.unknown({TOPIC: [record]})
        assert wanted == ids(number)
        await filler.fetch(wanted)
        await filler.close()
    body = Bodies(framing, book).body(value)
    assert body.value == {"items": [{"id": "d1"}, {"id": "d2"}]} and body.message == "s.Shown"


@asynccontextmanager
async def filling(server: MemoryRegistry, rate: Rate | None = None) -> AsyncIterator[SchemaFiller]:
    """A filler that asks this server."""
    client = RegistryClient(RegistrySettings((server.url,)))
    made = SchemaFiller(
        SchemaBook({TOPIC: Framing(AVRO)}), ConfluentRegistry(client, lambda outcome: None), rate
    )
    try:
        yield made
    finally:
        await made.close()


def read(filler: SchemaFiller, records: dict[str, list[SimpleNamespace]]) -> list[object]:
    """What the records are; of a refused one, the reason."""
    bodies, found = Bodies(Framing(AVRO), filler.book), list[object]()
    for record in records[TOPIC]:
        try:
            found.append(bodies.body(record.value).value)
        except InvalidField as fault:
            found.append(fault.reason)
    return found


@pytest.mark.parametrize("fault", IMPROPER)
async def test_records_wait_while_the_registry_answers_what_is_no_schema(fault: str) -> None:
    status, body, said = IMPROPER[fault]
    server, fresh = MemoryRegistry(), filling_module._clock_ms()
    number = server.add('"long"')
    records = of_ids(*[number] * 60, body=b"\x0e", time_ms=fresh)
    async with serving(server), filling(server) as filler:
        server.faults.status, server.faults.body = status, body
        waits = SchemaWaits(filler, asyncio.Event())
        waiting = asyncio.create_task(waits.fetched(3, waits.unknown(records)))
        async with asyncio.timeout(10):
            while len(server.asked) < 3:
                await asyncio.sleep(0.01)
        ((what, lanes),) = waits.waiting_for.items()
        assert said in what and "lane 3 waits for schema 1" in lanes and not waiting.done()
        server.faults.status = None
        assert await waiting and waits.waiting_for == {}
        assert read(filler, records) == [7] * 60
        assert filler.unknown(records) == set()


async def test_a_schema_of_fresh_records_is_missing_only_if_it_still_is_half_a_minute_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf, clock = Shelf(), Clock(monkeypatch)
    filler = filler_of(shelf)
    records = of_ids(99, time_ms=NOW_MS)
    wanted = filler.unknown(records)
    for clock.ms in (2_000, 10_000, 31_999):
        with pytest.raises(SchemaNotThere, match="the registry has no such schema"):
            await filler.fetch(wanted)
        assert wanted == ids(99)
    clock.ms = 32_000
    await filler.fetch(wanted)
    assert wanted == set() and read(filler, records) == ["unknown_schema"]
    clock.ms += 60_000
    again = filler.unknown(of_ids(99, time_ms=NOW_MS + clock.ms))
    assert again == ids(99)
    await filler.fetch(again)
    assert again == set(), "one answer says that it is still missing"


@pytest.mark.parametrize(
    ("time_ms", "waits"),
    [(-59_000, True), (1_000, True), (-61_000, False), (25 * 3_600_000, False)],
)
async def test_only_records_of_the_last_minute_wait_for_a_second_answer(
    monkeypatch: pytest.MonkeyPatch, time_ms: int, waits: bool
) -> None:
    shelf, _ = Shelf(), Clock(monkeypatch)
    filler = filler_of(shelf)
    wanted = filler.unknown(of_ids(99, time_ms=NOW_MS + 1_000 + time_ms))
    if waits:
        with pytest.raises(SchemaNotThere):
            await filler.fetch(wanted)
    else:
        await filler.fetch(wanted)
    assert bool(wanted) is waits


FLOOD = 40_000
FAR = 1_000_000


@pytest.mark.parametrize("age_ms", [0, 3_600_000], ids=["fresh", "old"])
async def test_ids_that_nobody_can_know_are_settled_by_a_listing_and_a_new_one_is_read(
    monkeypatch: pytest.MonkeyPatch, age_ms: int
) -> None:
    server, clock = MemoryRegistry(), Clock(monkeypatch)
    held, new = server.add('"long"'), server.add('"int"')
    junk = of_ids(*range(FAR, FAR + FLOOD), time_ms=NOW_MS + clock.ms - age_ms)
    real = of_ids(held, new, body=b"\x0e")
    async with serving(server), filling(server) as filler:
        wanted = filler.unknown({TOPIC: [*junk[TOPIC], *real[TOPIC]]})
        assert len(wanted) == FLOOD + 2
        if not age_ms:
            with pytest.raises(SchemaNotThere):
                await filler.fetch(wanted)
            assert len(wanted) == FLOOD
            clock.ms += 30_000
        async with asyncio.timeout(20):
            await filler.fetch(wanted)
        assert wanted == set() and len(server.asked) < 10
        assert read(filler, real) == [7, 7]
        with pytest.raises(InvalidField, match="which lists ids from 1 to 2"):
            filler.book.find(SchemaId(ID, FAR))


@pytest.mark.parametrize("why", ["too near", "no listing", "not of everything"])
async def test_what_a_listing_does_not_settle_is_asked_for(why: str) -> None:
    server = MemoryRegistry()
    for _ in range(2):
        server.add('"long"')
    async with serving(server), filling(server, Rate(burst=10_000)) as filler:
        server.lists = why != "no listing"
        if why == "not of everything":
            server.schemas[2 * FAR] = server.schemas[1]
            await filler.fetch(ids(2 * FAR))
            del server.schemas[2 * FAR]
        first = 3 if why == "too near" else FAR
        wanted = ids(*range(first, first + 300))
        hidden = first + 250
        server.schemas[hidden] = {"schema": '"long"'}
        if why == "too near":
            assert hidden < 2 + MARGIN
        await filler.fetch(wanted)
        assert wanted == set() and read(filler, of_ids(hidden, body=b"\x0e")) == [7]


async def test_all_is_read_again_where_the_registry_was_made_anew() -> None:
    server = MemoryRegistry()
    for text in ('"long"', '"string"', '"long"', '"long"'):
        server.add(text)
    records = of_ids(1, 2, 3, body=b"\x02")
    record = json.dumps({"type": "record", "name": "N", "fields": [{"name": "x", "type": "long"}]})
    async with serving(server), filling(server) as filler:
        await filler.fetch(ids(1, 2, 3, 4))
        bodies = Bodies(Framing(AVRO), filler.book)
        assert [bodies.body(one.value).value for one in records[TOPIC][::2]] == [1, 1]
        await filler.look_again(SchemaId(ID, 1))
        server.schemas.clear()
        for text in (record, '"int"', "{"):
            server.add(text)
        server.faults.status = 503
        await filler.look_again(SchemaId(ID, 3))
        assert bodies.body(records[TOPIC][0].value).value == 1, "an outage changes nothing"
        server.faults.status = None
        with capture_logs() as lines:
            await filler.look_again(SchemaId(ID, 2))
        assert bodies.body(records[TOPIC][0].value).value == {"x": 1}
        assert bodies.body(records[TOPIC][1].value).value == 1
        with pytest.raises(InvalidField, match="schema 3 cannot be read"):
            bodies.body(records[TOPIC][2].value)
        (older,) = of_ids(4, body=b"\x02")[TOPIC]
        assert bodies.body(older.value).value == 1, "what is gone is kept for older records"
    said = [line["event"] for line in lines if line["log_level"] == "error"]
    assert len(said) == 1 and "it was made anew, or is another one" in said[0]


async def test_what_is_held_is_asked_for_again_until_the_process_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filling_module, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(filling_module, "LEAST_PAUSE_S", 0.01)
    server, stop = MemoryRegistry(), asyncio.Event()
    number = server.add('"long"')
    async with serving(server), filling(server) as filler:
        await filler.fetch(ids(number))
        watching = asyncio.create_task(filler.watch(stop))
        server.schemas[number] = {"schema": '"string"'}
        async with asyncio.timeout(10):
            while read(filler, of_ids(number, body=b"\x02a")) != ["a"]:
                await asyncio.sleep(0.01)
        stop.set()
        await asyncio.wait_for(watching, 10)
