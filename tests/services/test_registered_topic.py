"""A topic of Avro behind a real registry, through Kafka, outages and a killed worker: Redis holds
what the oracle makes of the same events in the native format.

The registry is Apicurio; a gate before it makes the faults and counts what is asked.
"""

import asyncio
import base64
import io
import json
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from aiokafka.partitioner import murmur2

from relevanced.daemon.events import Limits, decoder
from relevanced.daemon.kafka import KafkaSettings
from tests import oracle
from tests.kafka_compression import Lz4Producer
from tests.oracle import Record
from tests.registry_server import Gate
from tests.services.apicurio import ApicurioRegistry
from tests.services.certificates import Authority, encrypt
from tests.services.daemons import Daemon
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer
from tests.services.test_verify import command
from tests.services.whole_path import CONFIG, PARTITIONS, Stage

EVENTS = 4_000
"""Of each part."""
NAME = "registered"
STUCK = 1
"""The lane whose records name a schema that is new while the registry is away."""
UNKNOWN = 2**31 - 2
UNKNOWN_EVERY = 500
PATIENCE_S = 60.0
PASSWORD = "pass-amber"
KEY = "key-garnet"
PATH = "/apis/ccompat/v7"

SOURCE = """
[[sources]]
topic = "{topic}"
codec = "avro"
[sources.impression]
where = "type == 'impression'"
id = "impression_id"
time = "timestamp"
items = "items"
user = "user_id"
attributes = {{ country = "context.country || country", device = "context.device || device" }}
experiments = {{ ranker-v2 = "arm" }}
[sources.feedback]
where = "type == 'feedback'"
id = "impression_id"
time = "timestamp"
kind = "kind"
item = "item"
rank = "rank"
"""
PLACE = {
    "type": "record",
    "name": "shop.Context",
    "fields": [{"name": "country", "type": "string"}, {"name": "device", "type": "string"}],
}
COMMON = [
    {
        "name": "type",
        "type": {"type": "enum", "name": "Type", "symbols": ["feedback", "impression"]},
    },
    {"name": "impression_id", "type": "string"},
    {"name": "timestamp", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "user_id", "type": ["null", "string"]},
    {"name": "arm", "type": ["null", "string"]},
    {"name": "items", "type": ["null", {"type": "array", "items": "string"}]},
    {"name": "kind", "type": ["null", "string"]},
    {"name": "item", "type": ["null", "string"]},
    {"name": "rank", "type": ["null", "int"]},
]
FLAT = [
    {"name": "country", "type": ["null", "string"]},
    {"name": "device", "type": ["null", "string"]},
]
NESTED = [{"name": "context", "type": ["null", "shop.Context"]}]
NEW = [{"name": "app_version", "type": ["null", "string"]}]
VERSIONS = (
    [*FLAT, *COMMON],
    [*COMMON, *NESTED],
    [*NEW, *COMMON, *NESTED],
)
"""The fields of each version; the later ones refer to another schema."""


class RegisteredStage(Stage):
    """A stage whose topic has Avro of versions that take turns."""

    gate: Gate
    registry: ApicurioRegistry
    extra = ""
    """More of `[registry]`."""

    def prepare(self) -> None:
        self.native: dict[bytes, bytes] = {}
        self.refused = Counter[int]()
        context = f"{self.topic}/context"
        self.registry.register(context, json.dumps(PLACE))
        reference = {"name": "shop.Context", "subject": context, "version": 1}
        self.schemas, self.ids = list[Any](), list[int]()
        for number, fields in enumerate(VERSIONS):
            schema = {"type": "record", "name": f"shop.Event{number}", "fields": fields}
            references = [reference] if number else []
            subject = f"{self.topic}-{number}"
            self.ids.append(self.registry.register(subject, json.dumps(schema), "AVRO", references))
            named: dict[str, Any] = {}
            if number:
                fastavro.parse_schema(PLACE, named)
            self.schemas.append(fastavro.parse_schema(schema, named))

    def toml(self, name: str) -> str:
        given = super().toml(name).replace(f'topics = ["{self.topic}"]\n', "")
        registry = f'[registry]\nurl = "{self.gate.url}{PATH}"\n{self.extra}\n'
        return f"{given}{registry}{SOURCE.format(topic=self.topic)}"

    def record(self, event: dict[str, Any], version: int) -> bytes:
        attributes = event.get("attributes")
        row = {
            **dict.fromkeys(("user_id", "items", "kind", "item", "rank"), None),
            **event,
            **(attributes or {}),
            "context": attributes,
            # A tuple would name a branch of the union.
            "items": list(event["items"]) if "items" in event else None,
            "arm": event.get("experiments", {}).get("ranker-v2"),
        }
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self.schemas[version], row)
        return framed(self.ids[version], body.getvalue())

    async def produce(
        self,
        count: int,
        *,
        new_in: int | None = None,
        unknown: bool = True,
        written_ms: int | None = None,
    ) -> None:
        """Send events by versions 0 and 1 in turn, by version 2 to one partition, and between them
        records of a schema that nobody knows; as written at this time, else when they arrived."""
        producer = Lz4Producer(KafkaSettings(self.kafka.bootstrap))
        await producer.start()
        for number, (arrival_ms, event) in enumerate(islice(self.events, count)):
            key = str(event["impression_id"]).encode()
            partition = (murmur2(key) & 0x7FFFFFFF) % PARTITIONS
            value = self.record(event, 2 if partition == new_in else number % 2)
            self.native[value] = msgspec.json.encode(event)
            await producer.send(self.topic, value, key, timestamp_ms=written_ms or arrival_ms)
            if unknown and number % UNKNOWN_EVERY == 0:
                bad = framed(UNKNOWN, b"body")
                await producer.send(self.topic, bad, key, timestamp_ms=arrival_ms)
                self.refused[partition] += 1
        await producer.flush()
        await producer.stop()

    async def native_records(self) -> list[Record]:
        """The records that can be read, in the native format at their offsets."""
        return [
            replace(record, value=self.native[record.value])
            for record in await self.records()
            if record.value in self.native
        ]

    async def assert_all_is_counted(self) -> None:
        """Redis has what the oracle makes of the topic, and what is refused."""
        expected = oracle.run(await self.native_records(), [self.topic], CONFIG)
        for lane, records in self.refused.items():
            expected[lane].rejected["unknown_schema"] += records
        await self.assert_equals_oracle(NAME, expected)

    async def ends_of(self) -> Counter[int]:
        return Counter(record.partition for record in await self.records())

    async def wait_for_others(self, ends: Counter[int]) -> None:
        """Until all lanes but the one that is stuck have read up to there."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                taken = await self.taken(NAME)
                if all(taken[lane] >= end for lane, end in ends.items() if lane != STUCK):
                    return
                await asyncio.sleep(0.1)

    async def wait_for_all(self) -> None:
        await self.wait_for(NAME, sum((await self.ends_of()).values()))


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + body


async def says(daemon: Daemon, *words: str) -> str:
    """The readiness of the daemon, once it has all these words."""
    async with asyncio.timeout(PATIENCE_S):
        while not all(word in (text := daemon.readiness()) for word in words):
            assert daemon.process.poll() is None, daemon.log()
            await asyncio.sleep(0.1)
    return text


@pytest.fixture
async def stage(
    kafka: Broker,
    one_redis: RedisServer,
    apicurio: ApicurioRegistry,
    make_topic: MakeTopic,
    tmp_path: Path,
) -> AsyncIterator[RegisteredStage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = RegisteredStage(kafka, one_redis.url, topic, tmp_path)
    built.registry, built.gate = apicurio, Gate(apicurio.root)
    built.prepare()
    await built.gate.start()
    yield built
    built.close()
    await built.gate.stop()


async def test_outages_stop_only_new_schemas_and_nothing_is_lost(stage: RegisteredStage) -> None:
    first, second, third = stage.ids
    away = f"registry {stage.gate.url}{PATH} does not answer: "
    await stage.gate.stop()
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS)
    waits = [f"lane {lane} waits for schemas {first}, {second}" for lane in range(PARTITIONS)]
    await says(daemon, away, *waits)
    assert set((await stage.taken(NAME)).values()) == {0}, "nothing of these batches is applied"

    await stage.gate.start()
    await stage.wait_for_all()
    await says(daemon, '"answers"')
    assert stage.gate.asked.count(f"{PATH}/schemas/ids/{first}") == 1

    await stage.gate.stop()
    await stage.produce(EVENTS, unknown=False)
    await stage.wait_for_all()  # known schemas need no registry

    before = (await stage.taken(NAME))[STUCK]
    await stage.produce(EVENTS, new_in=STUCK, unknown=False)
    text = await says(daemon, f"{away}lane {STUCK} waits for schema")
    ends = await stage.ends_of()
    await stage.wait_for_others(ends)
    assert (await stage.taken(NAME))[STUCK] == before < ends[STUCK]
    assert f"{third}" in text and f"schemas {first}" not in text

    daemon.process.kill()
    successor = stage.daemon(NAME)
    await stage.produce(EVENTS, new_in=STUCK)
    await says(successor, away, f"lane {STUCK} waits for schema")
    await stage.gate.start()
    await stage.wait_for_all()
    assert successor.series('relevanced_registry_requests_total{outcome="failed"}') > 0
    assert successor.series("relevanced_schemas") == 3
    assert successor.terminate() == 0, successor.log()
    await stage.assert_all_is_counted()


async def test_a_login_page_in_place_of_schemas_loses_nothing_while_a_worker_restarts(
    stage: RegisteredStage,
) -> None:
    faults = stage.gate.faults
    faults.status, faults.body, faults.kind = 200, b"<html>Please log in</html>", "text/html"
    wrong = f"registry {stage.gate.url}{PATH} does not answer properly (200: not an object of JSON"
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS)
    await says(daemon, wrong, *(f"lane {lane} waits" for lane in range(PARTITIONS)))
    assert daemon.series('relevanced_registry_requests_total{outcome="failed"}') > 0
    daemon.process.kill()
    successor = stage.daemon(NAME)
    await stage.produce(EVENTS, new_in=STUCK)
    await says(successor, wrong, *(f"lane {lane} waits" for lane in range(PARTITIONS)))
    assert set((await stage.taken(NAME)).values()) == {0}, "nothing is refused"
    faults.status = None
    await stage.wait_for_all()
    assert successor.terminate() == 0, successor.log()
    await stage.assert_all_is_counted()


async def test_a_follower_that_lags_loses_no_record_that_was_just_written(
    stage: RegisteredStage,
) -> None:
    faults = stage.gate.faults
    faults.paths = {f"{PATH}/schemas/ids/{number}": 404 for number in stage.ids}
    faults.body = json.dumps({"error_code": 40403, "message": "not found"}).encode()
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS // 4, unknown=False, written_ms=int(time.time() * 1000))
    await says(daemon, "the registry has no such schema: lane 0 waits for schema")
    assert daemon.get("/readyz"), "a process that waits for new schemas is ready"
    faults.paths.clear()
    await stage.wait_for_all()
    assert daemon.terminate() == 0, daemon.log()
    await stage.assert_all_is_counted()


async def test_a_login_over_tls_is_refused_and_taken_and_never_shown(
    stage: RegisteredStage, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "files")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*authority.server("server"))
    certificate, key = authority.client("client")
    encrypt(key, KEY)
    (tmp_path / "password").write_text(PASSWORD)
    stage.extra = (
        f'username = "u"\npassword_file = "{tmp_path}/password"\nssl_key_password = "{KEY}"\n'
        f'ssl_cafile = "{authority.certificate}"\nssl_certfile = "{certificate}"\n'
        f'ssl_keyfile = "{key}"\n'
    )
    await stage.gate.stop()
    await stage.gate.start(context)
    stage.gate.faults.login = "another"
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS)
    refused = f"registry {stage.gate.url}{PATH} refuses the login (401): lane "
    shown = await says(daemon, refused)
    login = base64.b64encode(f"u:{PASSWORD}".encode()).decode()
    stage.gate.faults.login = f"Basic {login}"
    await stage.wait_for_all()
    shown += daemon.get("/metrics").decode() + daemon.get("/api/v1/health").decode()
    assert daemon.terminate() == 0, daemon.log()
    shown += daemon.log()
    assert stage.gate.url.startswith("https://") and "waiting for schemas" in shown
    assert not [secret for secret in (PASSWORD, KEY, login) if secret in shown]
    await stage.assert_all_is_counted()


async def test_a_stop_while_lanes_wait_is_orderly_and_loses_nothing(stage: RegisteredStage) -> None:
    await stage.gate.stop()
    daemon = stage.daemon(NAME)
    await stage.produce(EVENTS)
    await says(daemon, "does not answer: lane ")
    assert daemon.terminate() == 0, daemon.log()
    assert "Traceback" not in daemon.log()
    await stage.gate.start()
    successor = stage.daemon(NAME)
    await stage.wait_for_all()
    assert successor.terminate() == 0
    await stage.assert_all_is_counted()


def as_kcat(records: list[Record]) -> str:
    """Records as `kcat -J` prints them."""
    lines = [
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "ts": record.timestamp_ms,
            "payload_b64": base64.b64encode(record.value or b"").decode(),
        }
        for record in records
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


async def test_commands_ask_the_registry_and_end_where_it_does_not_answer(
    stage: RegisteredStage, tmp_path: Path
) -> None:
    await stage.produce(EVENTS)
    daemon = stage.daemon(NAME)
    await stage.wait_for_all()
    assert daemon.terminate() == 0, daemon.log()
    config, recorded = tmp_path / "commands.toml", tmp_path / "recorded.jsonl"
    config.write_text(stage.toml(NAME))
    records = await stage.records()
    recorded.write_text(as_kcat(records))
    files = (str(recorded), "--kcat", "--config", str(config))
    hours = ("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T13:00:00Z")
    calls = {
        "map": ("map", *files),
        "replay": ("replay", *files, "--output", "json"),
        "hours": ("replay", "--kafka", *hours, "--config", str(config)),
        "verify": ("verify", "--config", str(config)),
    }
    code, mapped = await command(*calls["map"])
    read = decoder("native", Limits())
    expected = [stage.native[record.value] for record in records if record.value in stage.native]
    assert code == 0
    assert [read(line.encode(), None) for line in mapped.splitlines()] == [
        read(value, None) for value in expected
    ]
    code, replayed = await command(*calls["replay"])
    events = json.loads(replayed)["events"]
    assert code == 0 and events["rejected"] == {"unknown_schema": stage.refused.total()}
    assert events["impressions"] + events["feedback"] == EVENTS
    assert (await command(*calls["hours"]))[0] == 0
    code, proven = await command(*calls["verify"])
    assert code == 0, proven
    await stage.gate.stop()
    for name, call in calls.items():
        code, out = await command(*call)
        url = f"{stage.gate.url}{PATH}"
        assert code == 1, name
        assert f"registry {url} does not answer: the records need schema" in out, (name, out)
        assert "Traceback" not in out


async def test_verify_says_where_the_registry_has_more_than_it_had(
    stage: RegisteredStage, tmp_path: Path
) -> None:
    hidden = f"{PATH}/schemas/ids/{stage.ids[1]}"
    stage.gate.faults.paths[hidden] = 404
    stage.gate.faults.body = json.dumps({"error_code": 40403, "message": "not found"}).encode()
    await stage.produce(EVENTS // 4, unknown=False)
    daemon = stage.daemon(NAME)
    await stage.wait_for_all()
    assert daemon.terminate() == 0, daemon.log()
    config = tmp_path / "commands.toml"
    config.write_text(stage.toml(NAME))
    assert (await command("verify", "--config", str(config)))[0] == 0
    stage.gate.faults.paths.clear()
    code, out = await command("verify", "--config", str(config))
    assert code == 1
    assert (
        "records were refused as unknown_schema, now 0 would be: which schemas the registry" in out
    )
