"""What happens in each scenario. Each has an installation of its own beside all the others."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.trial.expected import SCORE
from tests.trial.installation import Installation, until
from tests.trial.registered import Registered
from tests.trial.sighting import Labels
from tests.trial.stage import Stage
from tests.trial.traffic import Fault

BROKEN_RANKING: Final = Fault(-45, ranking_of={"country": "DE"})


def whole(stage: Stage, fault: Fault | None = None, labels: Labels | None = None) -> Installation:
    """A worker and two exporters with weeks of history, caught up."""
    made = stage.installation(labels)
    stage.searched(made, fault)
    made.run(worker="worker", exporter="exporter", standby="exporter")
    made.catch_up()
    stage.is_set_up()
    return made


def single(stage: Stage, fault: Fault | None = None) -> Installation:
    """One process that does everything, with weeks of history, caught up."""
    made = stage.installation()
    stage.searched(made, fault)
    made.run(all="all")
    made.catch_up()
    stage.is_set_up()
    return made


def quiet(stage: Stage) -> None:
    whole(stage)
    stage.broken()


def ranking(stage: Stage) -> None:
    single(stage, BROKEN_RANKING)
    stage.broken()


def index_outage(stage: Stage) -> None:
    single(stage, Fault(-45, empty_share=0.4))
    stage.broken()


def clicks_lost(stage: Stage) -> None:
    """Long ago: with the design effect of 1.5 by which a new installation is judged, a fifth of the
    clicks of 75 minutes is too little to be sure of."""
    single(stage, Fault(-150, clicks_lost=0.2))
    stage.broken()


def tracker_lost(stage: Stage) -> None:
    """With the default attribution window, which decides what is seen first: that clicks stop, or
    that scores fall."""
    made = stage.installation()
    made.attribution = "30m"
    stage.searched(made, Fault(3, clicks_lost=1.0))
    ends_s = time.time() + 180
    made.run(all="all")
    made.catch_up()
    stage.is_set_up()
    time.sleep(max(0.0, ends_s - time.time()))
    stage.broken()


def fresh(stage: Stage) -> None:
    made = stage.installation()
    stage.searched(made, hours=3)
    made.run(all="all")
    made.catch_up()
    stage.broken()


def fresh_ranking(stage: Stage) -> None:
    made = stage.installation()
    stage.searched(made, Fault(-25, ranking_of={"country": "DE"}), hours=3)
    made.run(all="all")
    made.catch_up()
    stage.broken()


def kill_leader(made: Installation) -> None:
    """Kill the exporter that serves the scores, and wait until the other one does."""
    before = made.leader()
    assert before is not None
    made.kill(before)
    until(lambda: made.leader() not in (None, before), f"{made.name}: the standby serves")
    made.catch_up()


def exporter_killed(stage: Stage) -> None:
    """Beside the quiet one: the same cluster and namespace, another job."""
    made = whole(stage, labels={"namespace": "quiet", "job": "exporter-killed"})
    time.sleep(60)
    stage.broken()
    kill_leader(made)


def standby(stage: Stage) -> None:
    made = whole(stage, BROKEN_RANKING)
    until(lambda: stage.firing(SCORE), "an alert on scores fires", 900)
    stage.broken()
    kill_leader(made)


def worker_killed(stage: Stage) -> None:
    made = stage.installation()
    stage.searched(made)
    made.run(worker="worker", other="worker", exporter="exporter")
    made.catch_up()
    stage.is_set_up()
    time.sleep(60)
    stage.broken()
    made.kill("worker")


def no_workers(stage: Stage) -> None:
    """Beside the quiet one: the same namespace and job, another cluster."""
    made = whole(stage, labels={"cluster": "west", "namespace": "quiet"})
    time.sleep(60)
    stage.broken()
    made.kill("worker")


def dead(stage: Stage) -> None:
    """Beside the quiet one: the same cluster and job, another namespace."""
    made = whole(stage)
    time.sleep(60)
    stage.broken()
    for name in made.daemons:
        made.kill(name)


def redis_restart(stage: Stage) -> None:
    server = stage.own_redis()
    whole(stage)
    time.sleep(60)
    stage.broken()
    server.kill()
    time.sleep(60)
    server.start()


def redis_down(stage: Stage) -> None:
    server = stage.own_redis()
    whole(stage)
    time.sleep(60)
    stage.broken()
    server.kill()


def flushall(stage: Stage) -> None:
    server = stage.own_redis()
    made = whole(stage)
    time.sleep(60)
    stage.broken()
    server.flush()
    time.sleep(5)
    made.catch_up()


def kafka_restart(stage: Stage) -> None:
    server = stage.own_kafka()
    whole(stage)
    time.sleep(60)
    stage.broken()
    server.stop()
    time.sleep(20)
    server.start()


def kafka_down(stage: Stage) -> None:
    server = stage.own_kafka()
    whole(stage)
    time.sleep(60)
    stage.broken()
    server.kill()


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


def changed_configuration(stage: Stage) -> None:
    """A rolling update: the new processes come while the old ones still run."""
    made = whole(stage)
    time.sleep(60)
    stage.broken()
    made.groupings = '["country"], ["device"], ["country", "device"]'
    made.run(new_worker="worker", new_exporter="exporter")
    until(lambda: time.time() - made.as_of_s("new_exporter") < 20, "the new one has caught up")
    time.sleep(60)
    for name in ("worker", "exporter", "standby"):
        made.remove(name)


def prometheus_restart(stage: Stage) -> None:
    own = stage.own_monitoring()  # starts with its first target
    single(stage, BROKEN_RANKING)
    until(lambda: stage.firing(SCORE), "an alert on scores fires", 900)
    stage.broken()
    own.stop()
    time.sleep(150)
    own.start()


SCENARIOS: Final[Mapping[str, Callable[[Stage], None]]] = {
    "quiet": quiet,
    "ranking": ranking,
    "index-outage": index_outage,
    "clicks-lost-20": clicks_lost,
    "tracker-lost": tracker_lost,
    "fresh": fresh,
    "fresh-ranking": fresh_ranking,
    "exporter-killed": exporter_killed,
    "standby": standby,
    "worker-killed": worker_killed,
    "no-workers": no_workers,
    "dead": dead,
    "redis-restart": redis_restart,
    "redis-down": redis_down,
    "flushall": flushall,
    "kafka-restart": kafka_restart,
    "kafka-down": kafka_down,
    "empty-topic": empty_topic,
    "missing-topic": missing_topic,
    "topic-recreated": topic_recreated,
    "registry-away": registry_away,
    "changed-configuration": changed_configuration,
    "prometheus-restart": prometheus_restart,
}
