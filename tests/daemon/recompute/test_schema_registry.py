"""What commands ask a registry for before they read records."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from relevanced.daemon.config import Config, book_of, load
from relevanced.daemon.errors import StartError, Unavailable
from relevanced.daemon.recompute import record_reader as reading
from relevanced.daemon.recompute.record_reader import record_reader
from relevanced.daemon.recompute.schema_registry import TRIES, filler_of
from tests.registry_server import MemoryRegistry, serving

SOURCE = """
[[sources]]
topic = "t"
codec = "avro"
[sources.impression]
id = "id"
time = "time"
items = "items"
"""
GLUE = 'kind = "glue"\nregion = "eu-west-1"'


def of(registry: str, source: str = SOURCE) -> Config:
    return load(f"[registry]\n{registry}\n{source}", {}, "test")


def naming(number: int, timestamp: int = 0) -> SimpleNamespace:
    value = b"\0" + number.to_bytes(4) + b"body"
    return SimpleNamespace(
        topic="t",
        partition=0,
        offset=0,
        value=value,
        headers=(),
        key=None,
        timestamp=timestamp,
    )


@pytest.fixture
async def server() -> AsyncIterator[MemoryRegistry]:
    made = MemoryRegistry()
    async with serving(made):
        yield made


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "pause_s", lambda failures, jitter: 0.0)


@pytest.mark.parametrize(
    "config",
    [
        of("", ""),
        of('url = "http://sr"', ""),
        of('url = "http://sr"', SOURCE.replace('codec = "avro"', "")),
    ],
)
def test_nobody_is_asked_where_no_record_names_a_schema(config: Config) -> None:
    assert filler_of(config, book_of(config)) is None


def test_glue_without_its_library_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "relevanced.daemon.registry.glue", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "botocore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "botocore", None)
    config = of(GLUE)
    with pytest.raises(StartError, match=r'the extra "aws", .* -m pip install \'botocore.*, or'):
        filler_of(config, book_of(config))


def test_certificates_that_cannot_be_used_are_an_error_at_the_start() -> None:
    config = of('url = "https://sr"\nssl_cafile = "/nowhere"')
    with pytest.raises(StartError, match="registry.ssl_cafile, ssl_certfile, ssl_keyfile: "):
        filler_of(config, book_of(config))


async def test_a_command_asks_once_for_what_is_there_and_three_times_for_an_answer(
    server: MemoryRegistry,
) -> None:
    server.add('"long"')
    async with record_reader(of(f'url = "{server.url}"')) as reader:
        for _ in range(2):
            await reader.prepare("t", [naming(1), naming(1)])
        assert server.asked == ["/schemas/ids/1"]
        server.faults.status = 503
        with pytest.raises(Unavailable) as raised:
            await reader.prepare("t", [naming(2), naming(1), naming(3)])
        assert str(raised.value) == (
            f"registry {server.url} answers 503: the records need schemas 2, 3"
        )
        assert server.asked.count("/schemas/ids/2") == TRIES


async def test_a_command_waits_for_a_schema_of_fresh_records_that_a_follower_has_not_yet(
    server: MemoryRegistry,
) -> None:
    async with record_reader(of(f'url = "{server.url}"')) as reader:
        records = [naming(1, int(time.time() * 1000))]
        preparing = asyncio.create_task(reader.prepare("t", records))
        async with asyncio.timeout(10):
            while len(server.asked) <= 2 * TRIES:
                await asyncio.sleep(0.01)
        assert not preparing.done()
        server.add('"long"')
        await asyncio.wait_for(preparing, 10)
        assert reader.filler is not None and len(reader.filler.book) == 1
