"""Of the namespaces that read the same topics one serves the scores, whoever comes and goes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relevanced.daemon.commands.layout import in_place_refusal
from relevanced.daemon.config import load
from relevanced.daemon.storage import RETIRED_MS, SILENT_MS, Namespace, Term, namespace
from tests.services.daemons import Daemon
from tests.services.fixtures import AnyRedis, MakeTopic
from tests.services.kafka_server import Broker
from tests.services.redis_lanes import client_at
from tests.services.redis_server import RedisServer
from tests.services.test_exporters import EVENTS, comes, ready
from tests.services.test_verify import command
from tests.services.whole_path import PARTITIONS, Stage

SERVES = Term(True)
OTHER_JOIN = '[attribution]\nwindow = "120s"'


def serves_series(daemon: Daemon) -> bool:
    """Of all the traffic: the events are days old, and no window has any."""
    return "\nrelevanced_events_total{" in daemon.get("/metrics").decode()


class Clock:
    """Stands for the server's clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000


class Deployed:
    """A namespace with workers and an exporter, whose clock is that of the test."""

    def __init__(self, client: Any, name: str, clock: Clock, topics: tuple[str, ...]) -> None:
        self.namespace = Namespace(client, "relevanced", f"relevanced-{name}", topics)
        self.clock = clock
        self.namespace._succession._clock = self._now_ms

    async def _now_ms(self) -> int:
        return self.clock.now_ms

    async def works(self) -> None:
        """What a worker does every ten seconds."""
        await self.namespace.register(4)
        await self.namespace.return_after_silence(self.clock.now_ms)
        await self.namespace.sign_of_life(self.clock.now_ms)

    async def catches_up(self) -> list[str]:
        """What an exporter does where it may, once all lanes are complete."""
        term = await self.namespace.term()
        if term.serves or term.successor is not None:
            return []
        return await self.namespace.take_over()

    async def term(self) -> Term:
        return await self.namespace.term()


@pytest.fixture
async def deploy(any_redis: AnyRedis) -> AsyncIterator[Any]:
    clock = Clock()
    async with client_at(any_redis.url) as client:

        def make(name: str, *topics: str) -> Deployed:
            return Deployed(client, name, clock, topics or ("events",))

        yield make


async def test_a_namespace_that_caught_up_takes_over(deploy: Any) -> None:
    blue, green = deploy("blue"), deploy("green")
    await blue.works()
    assert await blue.term() == Term(False)
    assert await blue.catches_up() == [] and await blue.term() == SERVES
    await green.works()
    waits = Term(False, predecessor="relevanced-blue")
    assert (await blue.term(), await green.term()) == (SERVES, waits)
    assert await green.catches_up() == ["relevanced-blue"]
    assert await green.term() == SERVES
    assert await blue.term() == Term(False, "relevanced-green")
    assert await blue.catches_up() == [] and await green.term() == SERVES


async def test_one_that_has_not_begun_would_follow_the_one_that_serves(deploy: Any) -> None:
    blue, green, other = deploy("blue"), deploy("green"), deploy("other", "queries")
    await blue.works()
    waits = Term(False, predecessor="relevanced-blue")
    assert await green.term() == waits and await other.term() == Term(False)
    await blue.catches_up()
    assert await green.term() == waits and await other.term() == Term(False)
    blue.clock.now_ms += SILENT_MS + 1
    assert await green.term() == Term(False), "nobody serves"


async def test_a_roll_out_in_place_is_refused_where_it_would_end_what_serves(
    one_redis: RedisServer, tmp_path: Path
) -> None:
    path, redis = tmp_path / "next.toml", f'[redis]\nurl = "{one_redis.url}"\n'
    running = load(redis, {}, "test")
    name = namespace(running)

    async def checked(text: str) -> tuple[int, str]:
        path.write_text(redis + text)
        return await command("check-config", "--in-place", str(path))

    assert (await checked(OTHER_JOIN))[0] == 0, "nobody serves"
    async with client_at(one_redis.url) as client:
        own = Namespace(client, "relevanced", name, running.kafka.topics)
        await own.register(4)
        await own.sign_of_life(await own.now_ms())
        await own.take_over()
    code, said = await checked('[metrics]\nnames = ["AP@7"]')
    assert code == 0 and "it may be rolled out in place" in said
    assert (await checked(OTHER_JOIN))[0] == 1
    said = await asyncio.to_thread(in_place_refusal, load(redis + OTHER_JOIN, {}, "test"))
    assert f"the workers of {name} serve" in said and "Install it beside" in said
    path.write_text('[redis]\nurl = "redis://127.0.0.1:1"\n')
    assert (await command("check-config", "--in-place", str(path)))[0] == 1, "nobody knows"


async def test_while_none_has_caught_up_the_first_serves(deploy: Any) -> None:
    green, blue = deploy("green"), deploy("blue")
    for one in (green, blue):
        await one.works()
        one.clock.now_ms += 1
    waits = Term(False, predecessor="relevanced-green")
    assert (await green.term(), await blue.term()) == (Term(False), waits)
    green.clock.now_ms += SILENT_MS
    await blue.works()
    assert await blue.term() == Term(False), "green has no workers"


async def test_a_former_namespace_that_goes_on_takes_nothing_back(deploy: Any) -> None:
    blue, green = deploy("blue"), deploy("green")
    for one in (blue, green):
        await one.works()
        await one.catches_up()
    for _ in range(30):
        blue.clock.now_ms += SILENT_MS // 2
        for one in (blue, green):
            await one.works()
            await one.catches_up()
    assert (await blue.term(), await green.term()) == (Term(False, "relevanced-green"), SERVES)


async def test_a_former_namespace_serves_again_where_its_successor_is_gone(deploy: Any) -> None:
    blue, green = deploy("blue"), deploy("green")
    for one in (blue, green):
        await one.works()
        await one.catches_up()
    blue.clock.now_ms += SILENT_MS + 1
    await blue.works()
    assert await blue.term() == Term(False)
    assert await blue.catches_up() == ["relevanced-green"] and await blue.term() == SERVES


async def test_a_namespace_that_is_deployed_again_catches_up_anew_and_takes_over(
    deploy: Any,
) -> None:
    """From blue to green, back, and forth again."""
    blue, green = deploy("blue"), deploy("green")
    for one in (blue, green):
        await one.works()
        await one.catches_up()
    green.clock.now_ms += SILENT_MS + 1  # blue is stopped, green goes on
    await green.works()
    assert await blue.term() == Term(False, "relevanced-green")
    for back, former in ((blue, green), (green, blue)):
        await back.works()
        waits = Term(False, predecessor=former.namespace.name)
        await former.works()
        assert await back.term() == waits, "with numbers of an hour ago"
        await former.works()
        assert await former.term() == SERVES, "it serves until the other one has caught up"
        assert await back.catches_up() == [former.namespace.name]
        assert await back.term() == SERVES
        back.clock.now_ms += SILENT_MS + 1  # the former is stopped
        await back.works()


async def test_a_lost_sign_of_life_changes_nothing(deploy: Any) -> None:
    blue, green = deploy("blue"), deploy("green")
    for one in (blue, green):
        await one.works()
        await one.catches_up()
    await green.namespace._client.unlink("relevanced:namespaces")
    await blue.works()
    assert await blue.catches_up() == [] and await green.term() == SERVES
    assert await blue.term() == Term(False, "relevanced-green")
    await green.namespace._client.unlink(f"{green.namespace.name}:meta")
    assert await blue.catches_up() == [] and await blue.term() == SERVES, "green is removed"


async def test_a_third_follows_whichever_serves(deploy: Any) -> None:
    names = [deploy(name) for name in ("blue", "green", "red")]
    for one in names:
        await one.works()
        await one.catches_up()
    assert [(await one.term()).serves for one in names] == [False, False, True]


async def test_of_two_that_catch_up_at_once_one_serves(deploy: Any) -> None:
    for number in range(20):
        both = [deploy(f"{name}{number}", f"topic{number}") for name in ("blue", "green")]
        await asyncio.gather(*(one.works() for one in both))
        await asyncio.gather(*(one.catches_up() for one in both))
        assert [(await one.term()).serves for one in both].count(True) == 1


async def test_other_topics_have_a_succession_of_their_own(deploy: Any) -> None:
    blue, other = deploy("blue"), deploy("other", "events", "clicks")
    for one in (blue, other):
        await one.works()
        assert await one.catches_up() == []
    assert (await blue.term(), await other.term()) == (SERVES, SERVES)


async def test_a_namespace_is_retired_for_an_hour_whether_it_serves_or_not(deploy: Any) -> None:
    blue, green, never = deploy("blue"), deploy("green"), deploy("never", "queries")
    for one in (blue, green):
        await one.works()
        await one.catches_up()
    until_ms = blue.clock.now_ms + RETIRED_MS
    assert {await blue.namespace.retire(), await green.namespace.retire()} == {until_ms}
    assert await green.term() == Term(True, retired=True)
    assert await blue.term() == Term(False, "relevanced-green", retired=True)
    blue.clock.now_ms = until_ms
    for one in (blue, green):
        await one.works()
    assert (await green.term(), (await blue.term()).retired) == (SERVES, False)
    assert await never.namespace.retire() is None


async def test_exporters_of_a_retired_namespace_let_the_alert_rules_forget_it(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Any
) -> None:
    stage = Stage(kafka, one_redis.url, await make_topic(partitions=PARTITIONS), tmp_path)
    (tmp_path / "one.toml").write_text(stage.toml("one"))
    retire = ("retire", "--config", str(tmp_path / "one.toml"))
    try:
        code, said = await command(*retire)
        assert code == 1 and "has never had a worker" in said
        await stage.produce(EVENTS)
        daemon = stage.daemon("one", "all")
        await comes(lambda: ready(daemon) and serves_series(daemon), daemon)
        assert daemon.series("relevanced_superseded") == 0
        code, said = await command(*retire)
        assert code == 0 and "is retired until " in said
        await comes(lambda: daemon.series("relevanced_superseded") == 1, daemon)
        assert ready(daemon) and serves_series(daemon), "it goes on until it is removed"
    finally:
        stage.close()


async def test_an_emptied_server_forgets_terms_and_nobody_is_in_the_way(deploy: Any) -> None:
    blue = deploy("blue")
    await blue.works()
    await blue.catches_up()
    await blue.namespace._client.flushall()
    assert await blue.term() == Term(False)
    await blue.works()
    assert await blue.catches_up() == [] and await blue.term() == SERVES


async def test_daemons_of_another_join_take_over_when_they_have_caught_up(
    kafka: Broker, one_redis: RedisServer, make_topic: MakeTopic, tmp_path: Any
) -> None:
    topic = await make_topic(partitions=PARTITIONS)
    stage = Stage(kafka, one_redis.url, topic, tmp_path)
    try:
        await stage.produce(EVENTS)
        blue = stage.daemon("one", "all")
        await comes(lambda: ready(blue) and serves_series(blue), blue)
        other_join = stage.toml("one").replace('[attribution]\nwindow = "60s"', OTHER_JOIN)
        green = Daemon(tmp_path, other_join, "all")
        stage.daemons.append(green)
        await comes(lambda: ready(green) and serves_series(green), green)
        await comes(lambda: not ready(blue) and not serves_series(blue), blue)
        assert "serves the scores now" in blue.readiness()
        assert green.terminate() == 0, green.log()
    finally:
        stage.close()
