"""What happens in each scenario. Each has an installation of its own beside all the others. Here
stand those in which search gets worse, and the list of all."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.trial import outages, planned
from tests.trial.expected import SCORE
from tests.trial.installation import until
from tests.trial.outages import kill_leader
from tests.trial.stage import Stage, single, wait_until, whole
from tests.trial.traffic import Fault, events

BROKEN_RANKING: Final = Fault(-45, ranking_of={"country": "DE"})


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


def repaired_ranking(stage: Stage) -> None:
    """Its alert goes on for half an hour after the change has closed."""
    single(stage, Fault(-45, 50, ranking_of={"country": "DE"}))
    stage.broken()
    stage.repaired_s = stage.searched_s + 5 * 60


def clicks_stop(stage: Stage) -> None:
    """And come back: nothing says then that scores fell."""
    single(stage, Fault(5, 12, clicks_lost=1.0))
    wait_until(stage.searched_s + 5 * 60)
    stage.broken()
    stage.repaired_s = stage.searched_s + 17 * 60


def searches_stop(stage: Stage) -> None:
    """And come back."""
    made = single(stage)
    time.sleep(60)
    made.stop_searching()
    stage.broken()
    time.sleep(8 * 60)
    made.search(events(int(time.time() * 1000), 0.0))
    stage.repaired()


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
    wait_until(ends_s)
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


def standby(stage: Stage) -> None:
    made = whole(stage, BROKEN_RANKING)
    until(lambda: stage.firing(SCORE), "an alert on scores fires", 900)
    stage.broken()
    kill_leader(made)


def prometheus_restart(stage: Stage) -> None:
    own = stage.own_monitoring()  # starts with its first target
    single(stage, BROKEN_RANKING)
    until(lambda: stage.firing(SCORE), "an alert on scores fires", 900)
    stage.broken()
    own.stop()
    time.sleep(90)
    own.start()


SCENARIOS: Final[Mapping[str, Callable[[Stage], None]]] = {
    "quiet": quiet,
    "ranking": ranking,
    "index-outage": index_outage,
    "clicks-lost-20": clicks_lost,
    "ranking-repaired": repaired_ranking,
    "clicks-stop": clicks_stop,
    "searches-stop": searches_stop,
    "tracker-lost": tracker_lost,
    "fresh": fresh,
    "fresh-ranking": fresh_ranking,
    "exporter-killed": outages.exporter_killed,
    "standby": standby,
    "worker-killed": outages.worker_killed,
    "no-workers": outages.no_workers,
    "exporters-killed": outages.exporters_killed,
    "crash-loop": outages.crash_loop,
    "flapping-scrape": outages.flapping_scrape,
    "other-redis": outages.other_redis,
    "wrong-password": outages.wrong_password,
    "dead": outages.dead,
    "redis-restart": outages.redis_restart,
    "redis-away": outages.redis_away,
    "redis-full": outages.redis_full,
    "flushall": outages.flushall,
    "key-deleted": outages.key_deleted,
    "kafka-restart": outages.kafka_restart,
    "kafka-away": outages.kafka_away,
    "right-taken": outages.right_taken,
    "user-lost": outages.user_lost,
    "empty-topic": outages.empty_topic,
    "missing-topic": outages.missing_topic,
    "topic-recreated": outages.topic_recreated,
    "registry-away": outages.registry_away,
    "changed-configuration": planned.changed_configuration,
    "rolling-restart": planned.rolling_restart,
    "roll-without-pause": planned.roll_without_pause,
    "drain": planned.drain,
    "rollback": planned.rollback,
    "one-three-one": planned.one_three_one,
    "replaced": planned.replaced,
    "gone-back": planned.gone_back,
    "retired": planned.retired,
    "prometheus-restart": prometheus_restart,
}
