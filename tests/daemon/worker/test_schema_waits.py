"""What is said of lanes that wait for schemas."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.errors import RegistryUnavailable
from relevanced.daemon.events import LogRecord
from relevanced.daemon.schemas import GUID, ID, SchemaId
from relevanced.daemon.worker import MANY, SchemaWaits, schema_names

AWAY = "registry https://sr:8081 does not answer"


def ids(*numbers: int) -> set[SchemaId]:
    return {SchemaId(ID, number) for number in numbers}


@pytest.mark.parametrize(
    ("schemas", "text"),
    [
        (ids(12), "schema 12"),
        (ids(100, 9), "schemas 9, 100"),
        (ids(*range(1, 9)), "schemas 1, 2, 3 and 5 more"),
        ({SchemaId(GUID, "b7b4")}, "schema guid b7b4"),
    ],
)
def test_schemas_are_named_the_first_few_of_many(schemas: set[SchemaId], text: str) -> None:
    assert schema_names(schemas) == text


class Away:
    """A registry that answers once it is `open`."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.answers = False
        self.says = AWAY

    def unknown(self, records: Mapping[str, Sequence[LogRecord]]) -> set[SchemaId]:
        return ids(1)

    async def fetch(self, wanted: set[SchemaId]) -> None:
        if self.answers:
            await self.open.wait()
            return
        raise RegistryUnavailable(self.says, "refused")


async def until(waits: SchemaWaits, expected: dict[str, str]) -> None:
    async with asyncio.timeout(10):
        while waits.waiting_for != expected:
            await asyncio.sleep(0)


async def test_lanes_are_named_by_what_the_registry_does_with_its_reason_once() -> None:
    stop = asyncio.Event()
    waits = SchemaWaits(Away(), stop)
    tasks = [
        asyncio.create_task(waits.fetched(3, ids(12))),
        asyncio.create_task(waits.fetched(1, ids(7, 8))),
    ]
    lanes = "lane 1 waits for schemas 7, 8; lane 3 waits for schema 12"
    await until(waits, {AWAY: f"{lanes} (refused)"})
    stop.set()
    assert await asyncio.gather(*tasks) == [False, False]
    assert waits.waiting_for == {}


async def test_another_trouble_is_logged_too_and_each_once() -> None:
    shelf, stop = Away(), asyncio.Event()
    waits = SchemaWaits(shelf, stop)
    with capture_logs() as lines:
        task = asyncio.create_task(waits.fetched(3, ids(12)))
        await until(waits, {AWAY: "lane 3 waits for schema 12 (refused)"})
        shelf.says = "registry https://sr:8081 answers 503"
        await until(waits, {shelf.says: "lane 3 waits for schema 12 (refused)"})
        stop.set()
        await task
    waiting = [line["server"] for line in lines if line["event"] == "waiting for schemas"]
    assert waiting == [AWAY, shelf.says]


async def test_a_lane_that_names_many_schemas_says_so() -> None:
    shelf = Away()
    shelf.answers = True
    waits = SchemaWaits(shelf, asyncio.Event())
    task = asyncio.create_task(waits.fetched(2, ids(*range(MANY + 1))))
    await asyncio.sleep(0)
    (text,) = waits.waiting_for.values()
    assert text.startswith("lane 2 waits for 101 unknown schemas (") and "framing" in text
    shelf.open.set()
    assert await task and waits.waiting_for == {}
