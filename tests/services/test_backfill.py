"""`relevanced backfill` on real parts: what the lanes lack comes from Kafka, beside them; and a run
that ends at any of its steps leaves nothing that is seen."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.progress import Progress

from relevanced.daemon.config import layout_of, load
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.backfill import (
    Backfill,
    BackfillRefused,
    FileHours,
    HoursToFill,
)
from relevanced.daemon.recompute.backfill_report import lines
from relevanced.daemon.storage import (
    LayoutRegistry,
    Namespace,
    PastStore,
    close,
    connect,
    namespace,
)
from relevanced.daemon.tools.traffic import Traffic, generate_events
from tests.services.fixtures import MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import ask as ask_redis
from tests.services.redis_server import RedisServer
from tests.services.test_exporters import comes, ready
from tests.services.test_layouts import NEW_GROUPINGS, OLD_GROUPINGS, end_with_the_events, start
from tests.services.test_verify import command, delete_before
from tests.services.whole_path import PARTITIONS, Stage

NAME = "filled"
RATE = 0.5
COMBINED = "device,country"
PART = 4_000
"""Events: some two hours."""
TO_THE_END = -1
"""In place of an offset: all records are deleted."""
Row = tuple[str, str, str, str]
"""Start, grouping, segment, metric."""


@pytest.fixture
async def stage(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Path
) -> AsyncIterator[Stage]:
    topic = await make_topic(partitions=PARTITIONS)
    built = Stage(kafka, one_redis.url, topic, tmp_path, rate=RATE)
    yield built
    built.close()


def configured(stage: Stage, *, is_new: bool) -> str:
    """From the end of the topics on; the new one has a metric and a grouping more."""
    old = stage.toml(NAME).replace('"earliest"', '"latest"')
    old = old.replace(OLD_GROUPINGS, '["country"]')
    if not is_new:
        return old
    names = [*load(old, {}, "test").metrics.names, "AP@7"]
    return old.replace('["country"]', NEW_GROUPINGS) + f"\n[metrics]\nnames = {json.dumps(names)}\n"


async def counted(stage: Stage, toml: str, records: int) -> None:
    """Until a worker has taken so many more records than there were when it began."""
    worker = start(stage, toml)
    await comes(lambda: ready(worker), worker)
    await stage.produce(records)
    whole = len(await stage.records())
    async with asyncio.timeout(90):
        while await stored(stage) < whole:
            await asyncio.sleep(0.2)
    assert await asyncio.to_thread(worker.terminate) == 0, worker.log()


async def stored(stage: Stage) -> int:
    return sum((await stage.taken(NAME)).values())


def hours(exporter: Any) -> Mapping[Row, dict[str, Any]]:
    query = "from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z"
    rows = json.loads(exporter.get(f"/api/v1/hours?{query}"))["rows"]
    return {(r["start"], r["grouping"], r["segment"], r["metric"]): r for r in rows}


async def test_what_the_lanes_lack_comes_from_kafka_and_what_they_have_stays(stage: Stage) -> None:
    path = stage.directory / "new.toml"
    path.write_text(configured(stage, is_new=True))
    code, said = await command("backfill", "--kafka", "--config", str(path))
    assert code == 1 and "start one first" in said
    await stage.produce(PART)
    await counted(stage, configured(stage, is_new=False), PART)
    code, said = await command("backfill", "--kafka", "--config", str(path))
    assert code == 1 and "generation 1 of the layout is in force" in said
    await counted(stage, configured(stage, is_new=True), PART)

    await end_with_the_events(stage, NAME)
    exporter = start(stage, configured(stage, is_new=True), "exporter")
    await comes(lambda: ready(exporter), exporter)
    before = hours(exporter)
    assert not any(row["filled"] for row in before.values())
    code, said = await command("backfill", "--kafka", "--config", str(path))
    assert code == 0, said
    assert "hours that the lanes do not have: 2" in said and "metric AP@7: " in said, said
    assert "grouping device: " in said and "from Kafka: 2026-11-20T12:00:00.000Z to" in said, said
    await comes(lambda: any(row["filled"] for row in hours(exporter).values()), exporter)
    after = hours(exporter)
    assert_filled(before, after, await replayed(path))

    code, said = await command("backfill", "--kafka", "--config", str(path))
    assert code == 1 and "Filled earlier, from Kafka: 2026-11-20T12:00:00.000Z to" in said, said
    assert hours(exporter) == after
    assert exporter.terminate() == 0, exporter.log()
    code, said = await command("verify", "--config", str(path))
    assert code == 0, "the lanes were not touched"


async def test_hours_after_all_that_a_partition_has_lost_are_not_refused(stage: Stage) -> None:
    """Its lane has read all of it: it was quiet for as long as Kafka keeps records."""
    toml = configured(stage, is_new=False)
    path = stage.directory / "new.toml"
    path.write_text(toml)
    await counted(stage, toml, 300)
    await delete_before(stage, 1, TO_THE_END)
    ask = ("replay", "--kafka", "--config", str(path), "--from")
    code, said = await command(*ask, "2026-11-20T12:00Z", "--to", "2026-11-20T13:00Z")
    way_out = "which hours before 2026-11-20T14:00:00.000Z they were of. Give --from 2026-11-20T14"
    assert code == 1 and f"{stage.topic}[1]" in said and way_out in said, said
    code, said = await command(*ask, "2026-11-20T14:00Z", "--to", "2026-11-20T15:00Z")
    assert "Computed now / stored" in said, said  # of hours in which nothing was shown
    await ask_redis(stage.redis_url, "FLUSHALL")
    code, said = await command(*ask, "2026-11-20T14:00Z", "--to", "2026-11-20T15:00Z")
    assert code == 1 and "no hour is whole" in said, "nobody knows"


async def test_hours_before_a_topic_was_created_again_are_left_out(stage: Stage) -> None:
    """Its lanes have read both logs; Kafka has the second alone, from its first record on."""
    toml = configured(stage, is_new=False)
    path = stage.directory / "new.toml"
    path.write_text(toml)
    await counted(stage, toml, PART)
    await stage.kafka.delete_topic(stage.topic)
    await stage.kafka.create_topic(stage.topic, PARTITIONS)
    await stage.produce(PART)
    code, said = await command("backfill", "--kafka", "--config", str(path))
    assert code == 1 and "the topic was deleted and created again" in said, said
    code, said = await command("lane", "accept-new-log", stage.topic, "--config", str(path))
    assert code == 0, said
    await counted(stage, toml, PART)
    computed = [row for row in (await replayed(path)).values() if row["stored_impressions"]]
    assert {row["start"][11:16] for row in computed} == {"15:00", "16:00", "17:00"}
    assert all(row["impressions"] == row["stored_impressions"] for row in computed)
    await counted(stage, configured(stage, is_new=True), 100)
    path.write_text(configured(stage, is_new=True))
    code, said = await command("backfill", "--kafka", "--config", str(path))
    before = "Kafka has no whole hour before 2026-11-20T15:00"
    assert code == 0 and "metric AP@7: " in said and before in said, said


async def test_what_a_stage_did_not_send_comes_from_the_input_topics(stage: Stage) -> None:
    lanes = f'lanes = "rekey"\nidle_after = "5s"\n[rekey]\npartitions = {PARTITIONS}\n[redis]'
    toml = configured(stage, is_new=True).replace("[redis]", lanes)
    path = stage.directory / "new.toml"
    path.write_text(toml)
    await stage.produce(PART)
    worker = start(stage, toml)
    await comes(lambda: ready(worker), worker)
    await stage.produce(PART)
    kinds = [f'relevanced_events_total{{kind="{kind}"}}' for kind in ("impression", "feedback")]
    await comes(lambda: sum(map(worker.series, kinds)) == PART, worker)
    assert await asyncio.to_thread(worker.terminate) == 0, worker.log()
    await end_with_the_events(stage, NAME)
    exporter = start(stage, toml, "exporter")
    await comes(lambda: ready(exporter), exporter)
    before = hours(exporter)
    code, said = await command("backfill", "--kafka", "--config", str(path))
    assert code == 0, said
    await comes(lambda: any(row["filled"] for row in hours(exporter).values()), exporter)
    after, computed = hours(exporter), await replayed(path)
    filled = [row for row, found in after.items() if found["filled"]]
    assert filled and min(filled)[0] < min(before)[0]
    assert all(str(after[row]["scored"]) == computed[row]["scored"] for row in filled)
    assert all(after[row] == found for row, found in before.items() if row not in filled)
    assert exporter.terminate() == 0, exporter.log()
    code, said = await command("verify", "--config", str(path))
    assert code == 0, said


async def replayed(path: Path) -> Mapping[Row, dict[str, str]]:
    """What Kafka has of the hours."""
    span = ("--from", "2026-11-20T12:00:00Z", "--to", "2026-11-20T20:00:00Z", "--output", "csv")
    code, said = await command("replay", "--kafka", "--config", str(path), *span)
    assert code == 0, said
    rows = csv.DictReader(io.StringIO(said))
    return {(r["start"], r["grouping"], r["segment"], r["metric"]): r for r in rows}


def assert_filled(
    before: Mapping[Row, dict[str, Any]],
    after: Mapping[Row, dict[str, Any]],
    computed: Mapping[Row, dict[str, str]],
) -> None:
    born = min(start for start, *_ in before)
    kinds = set()
    for row, found in after.items():
        if not found["filled"]:
            assert found == before[row]
            continue
        same = computed[row]
        assert str(found["scored"]) == same["scored"], row
        assert (found["mean"] is None) == (same["mean"] == ""), row
        assert found["mean"] is None or found["mean"] == pytest.approx(float(same["mean"])), row
        assert row not in before or not before[row]["scored"]
        kinds.add("hour" if row[0] < born else "metric" if row[3] == "AP@7" else row[1])
    assert before.keys() <= after.keys()
    assert kinds == {"hour", "metric", "device", COMBINED}


class StopsAt:
    """A client that is gone at its nth call: before the call is made, or after."""

    def __init__(self, client: Any, calls: int, *, after: bool) -> None:
        self._client, self._left, self._after = client, calls, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in ("eval", "evalsha", "smembers", "hgetall", "hget", "srem", "unlink", "mget"):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == 0 and self._after:
                await found(*arguments, **named)
            if self._left <= 0:
                raise Gone
            return await found(*arguments, **named)

        return call


class Gone(BaseException):
    """The process was killed."""


async def test_a_run_that_is_killed_at_any_step_shows_nothing_and_leaves_nothing(
    one_redis: RedisServer, tmp_path: Path
) -> None:
    client = connect(one_redis.url)
    config = load(f'[redis]\nurl = "{one_redis.url}"\nnamespace = "killed"\n', {}, "test")
    name = namespace(config)
    files = FileHours(
        config, [await recorded(client, tmp_path)], Progress(), kcat=False, topic=None
    )

    async def run(through: Any) -> str:
        found = await Backfill(config, through).run(
            HoursToFill(None, None), files, lambda share: None
        )
        return "\n".join(lines(found))

    with pytest.raises(BackfillRefused, match="start one first"):
        await run(client)
    own = layout_of(config)
    await LayoutRegistry(client, name).use(own.digest, own.text)
    await Namespace(client, config.redis.namespace, name).register(1)
    whole = await past_of(client, name, await fresh(client, name, run))
    finished, calls = False, 0
    while not finished:
        calls += 1
        for after in (False, True):
            await forget(client, name)
            try:
                said = await run(StopsAt(client, calls, after=after))
                finished = True
                assert "Filled from" in said
            except Gone:
                pass
            shown = await past_of(client, name, "")
            assert shown in ([], whole), "all of it or nothing"
            with_lock = await client.exists(f"{{{name}:past}}:run")
            if with_lock:
                with pytest.raises(BackfillRefused, match="another backfill is under way"):
                    await run(client)
                await client.delete(f"{{{name}:past}}:run")  # as time does
            said = await run(client)
            assert ("Filled already" if shown else "Filled from") in said
            assert await past_of(client, name, "") == whole
            assert await client.scard(f"{{{name}:past}}:staged") == 0
            assert len(await keys(client, name)) == len(whole[0][1]) + 2, "no key is left over"
    assert calls > 8
    await close(client)


async def test_what_was_filled_is_counted_again_where_it_is_to_be_replaced(
    one_redis: RedisServer, tmp_path: Path
) -> None:
    client = connect(one_redis.url)
    config = load(f'[redis]\nurl = "{one_redis.url}"\nnamespace = "replaced"\n', {}, "test")
    name, own = namespace(config), layout_of(config)
    await LayoutRegistry(client, name).use(own.digest, own.text)
    await Namespace(client, config.redis.namespace, name).register(1)
    path = await recorded(client, tmp_path)
    for replaces, words in ((False, "Filled from"), (False, "already"), (True, "Filled from")):
        files = FileHours(config, [path], Progress(), kcat=False, topic=None)
        asked = HoursToFill(None, None, replaces)
        found = await Backfill(config, client).run(asked, files, lambda share: None)
        assert words in "\n".join(lines(found))
    fillings = await PastStore(client, name).fillings()
    assert [filling.replaces for filling in fillings.values()] == [False, True]
    await close(client)


async def fresh(client: Any, name: str, run: Any) -> str:
    said: str = await run(client)
    assert "Filled from" in said and "hours that the lanes do not have: " in said, said
    return said


async def recorded(client: Any, tmp_path: Path) -> str:
    """Some hours that ended a while ago."""
    seconds, _ = await client.time()
    begin_ms = (seconds * 1000 // HOUR_MS - 6) * HOUR_MS + HOUR_MS // 3
    events = generate_events(Traffic(seed=3, rate=0.1), begin_ms)
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        for _, event in zip(range(1500), (event for _, event in events), strict=False):
            file.write(msgspec.json.encode(event) + b"\n")
    return str(path)


async def keys(client: Any, name: str) -> list[bytes]:
    return [key async for key in client.scan_iter(match=f"{{{name}:past}}:*")]


async def forget(client: Any, name: str) -> None:
    for key in await keys(client, name):
        await client.delete(key)


async def past_of(client: Any, name: str, _said: str) -> list[tuple[Any, Any]]:
    """What readers see, without the id of the run: its span, and all of its values."""
    store, found = PastStore(client, name), []
    for filling in (await store.fillings()).values():
        past = await store.load(filling)
        assert not past.lost
        values = {}
        for number, part in enumerate(past.parts):
            values[number, "names"] = repr(part.names)
            for start_ms, pages in part.hours.items():
                values |= {(number, start_ms, page): data for page, data in pages.items()}
        found.append(((filling.first_ms, filling.until_ms), values))
    return found
