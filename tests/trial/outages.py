"""What happens in the scenarios in which processes, Redis, Kafka or the registry fail."""

import time
from typing import Final

from tests.chaos.redis_pair import ENOUGH_MEMORY, LITTLE_MEMORY
from tests.services.redis_server import RedisServer, one_binary
from tests.trial.flapping import FlappingDoor
from tests.trial.installation import Installation, until
from tests.trial.registered import Registered
from tests.trial.secured import LOGIN, SecuredKafka
from tests.trial.stage import ALL_ROLES, Stage, small, wait_until, whole

AWAY_S: Final = 6 * 60
SCRAPED_S: Final = 20.0
"""Within it every process is scraped."""


def kill_leader(made: Installation) -> str:
    """Kill the exporter that serves the scores, and wait until the other one does; returns which
    that was."""
    before = made.leader()
    assert before is not None
    made.kill(before)
    until(lambda: made.leader() not in (None, before), f"{made.name}: the standby serves")
    made.catch_up()
    return before


def exporter_killed(stage: Stage) -> None:
    """Beside the quiet one: the same cluster and namespace, another job."""
    made = small(stage, {"namespace": "quiet", "job": "exporter-killed"})
    stage.broken()
    killed = kill_leader(made)
    wait_until(stage.broken_s + 7 * 60)
    made.restart(killed, "exporter")
    stage.repaired()


def exporters_killed(stage: Stage) -> None:
    made = small(stage)
    stage.broken()
    made.kill("exporter")
    made.kill("standby")
    wait_until(stage.broken_s + 7 * 60)
    made.run(exporter="exporter", standby="exporter")
    stage.repaired()


def worker_killed(stage: Stage) -> None:
    made = small(stage)
    stage.broken()
    made.kill("worker")
    wait_until(stage.broken_s + 7 * 60)
    made.restart("worker", "worker")
    stage.repaired()


def no_workers(stage: Stage) -> None:
    """Beside the quiet one: the same namespace and job, another cluster."""
    made = small(stage, {"cluster": "west", "namespace": "quiet"})
    stage.broken()
    for name in ("worker", "other"):
        made.kill(name)
    wait_until(stage.broken_s + 5 * 60)
    for name in ("worker", "other"):
        made.restart(name, "worker")
    stage.repaired()


def dead(stage: Stage) -> None:
    """Beside the quiet one: the same cluster and job, another namespace."""
    made = small(stage)
    stage.broken()
    for name in made.daemons:
        made.kill(name)
    wait_until(stage.broken_s + 5 * 60)
    for name, role in ALL_ROLES.items():
        made.restart(name, role)
    stage.repaired()


def redis_restart(stage: Stage) -> None:
    server = stage.own_redis()
    small(stage)
    stage.broken()
    server.kill()
    time.sleep(60)
    server.start()


def redis_away(stage: Stage) -> None:
    server = stage.own_redis()
    small(stage)
    stage.broken()
    server.kill()
    wait_until(stage.broken_s + AWAY_S)
    server.start()
    stage.repaired()


def redis_full(stage: Stage) -> None:
    server = stage.own_redis()
    small(stage)
    stage.broken()
    server.call(LITTLE_MEMORY)
    wait_until(stage.broken_s + AWAY_S)
    server.call(ENOUGH_MEMORY)
    stage.repaired()


def key_deleted(stage: Stage) -> None:
    """Of a lane that a worker has in memory."""
    server = stage.own_redis()
    made = small(stage)
    stage.broken()
    server.run_command(f"DEL {made.key_of_lane(0, 'names')}")


def flushall(stage: Stage) -> None:
    server = stage.own_redis()
    made = small(stage)
    stage.broken()
    server.flush()
    time.sleep(5)
    made.catch_up()
    stage.repaired()


def kafka_restart(stage: Stage) -> None:
    server = stage.own_kafka()
    small(stage)
    stage.broken()
    server.stop()
    time.sleep(20)
    server.start()


def kafka_away(stage: Stage) -> None:
    server = stage.own_kafka()
    small(stage)
    stage.broken()
    server.kill()
    wait_until(stage.broken_s + 8 * 60)
    server.start()
    stage.repaired()


def logged_in(stage: Stage) -> SecuredKafka:
    """Processes that log in to Kafka, caught up."""
    server = stage.secured_kafka()
    made = stage.installation()
    made.kafka_address, made.login = server.address("LOGIN"), LOGIN
    stage.searched(made, hours=1)
    server.give_rights()
    made.run(worker="worker", other="worker", exporter="exporter")
    made.catch_up()
    stage.is_set_up()
    time.sleep(60)
    return server


def right_taken(stage: Stage) -> None:
    server = logged_in(stage)
    server.take_reading()
    stage.broken()
    wait_until(stage.broken_s + AWAY_S)
    server.give_rights()
    stage.repaired()


def user_lost(stage: Stage) -> None:
    """Kafka comes back and does not know the user any more."""
    server = logged_in(stage)
    stage.broken()
    server.comes_back_with("nobody")
    wait_until(stage.broken_s + 8 * 60)
    server.comes_back_with("relevanced")
    stage.repaired()


def stray(stage: Stage, redis: str) -> None:
    """A worker of the same group that cannot serve, until it is removed."""
    made = small(stage)
    stage.broken()
    made.stray(redis)
    wait_until(stage.broken_s + AWAY_S)
    made.remove("stray")
    stage.repaired()


def other_redis(stage: Stage) -> None:
    server = RedisServer(one_binary(), stage.directory / "other-redis")
    server.start()
    stage.ends.callback(server.kill)
    stray(stage, server.url)


def wrong_password(stage: Stage) -> None:
    server = stage.own_redis()
    stray(stage, server.url.replace("redis://", "redis://relevanced:wrong@"))


def crash_loop(stage: Stage) -> None:
    """One of two workers ends soon after each start, which comes later and later."""
    made = small(stage)
    stage.broken()
    for down_s in (20, 40, 60, 80):
        made.daemons["other"].close()
        time.sleep(down_s)
        made.restart("other", "worker")
        until(made.daemons["other"].readiness, "the worker answers")
        time.sleep(SCRAPED_S)


def flapping_scrape(stage: Stage) -> None:
    """Every other scrape of an exporter fails."""
    made = small(stage)
    door = FlappingDoor(made.daemons["standby"].port)
    stage.ends.callback(door.close)
    made.doors["standby"] = door.port
    made.scraped()
    stage.broken()


def empty_topic(stage: Stage) -> None:
    made = stage.installation()
    made.make_topic()
    stage.broken()
    made.run(worker="worker", exporter="exporter")


def missing_topic(stage: Stage) -> None:
    stage.broken()
    stage.installation().run(worker="worker", exporter="exporter")


def topic_recreated(stage: Stage) -> None:
    made = whole(stage)
    time.sleep(60)
    made.stop_searching()
    stage.broken()
    made.delete_topic()
    time.sleep(5)
    stage.searched(made, hours=1)


def registry_away(stage: Stage) -> None:
    """Producers begin to write by a new version of their schema while the registry is away."""
    made = stage.installation()
    made.registered = Registered()
    stage.ends.callback(made.registered.stop)
    stage.searched(made, hours=1)
    made.run(worker="worker", exporter="exporter")
    made.catch_up()
    stage.broken()
    made.registered.stop()
    made.registered.version = 1
