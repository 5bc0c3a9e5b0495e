"""What each scenario must raise, within how long, and what it must not: one table.

An alert that fires and is neither listed nor held back is a fault, and so are two alerts on one
segment. Names, labels and texts are
regular expressions, so that an entry may allow for one of several alerts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SCORE: Final = "RelevancedScoreDropped"
RANKING: Final = "Looks like RANKING"
RETRIEVAL: Final = r"Looks like RETRIEVAL"
TRACKING: Final = r"Looks like TRACKING"
JUST_BEFORE: Final = ("worse than just before", RANKING)


@dataclass(frozen=True)
class Alert:
    """One alert that must come."""

    name: str
    within_minutes: float
    """From the instant at which the scenario is broken to the state `firing`."""
    where: str = "pages|tickets"
    """Its receiver."""
    labels: Mapping[str, str] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    """Found in its summary or description."""


@dataclass(frozen=True)
class Expected:
    """The outcome of one scenario."""

    minutes: float
    """How long it is watched once it is broken."""
    alerts: tuple[Alert, ...] = ()
    most: int | None = None
    """How many alerts may reach somebody; as many as must come, unless it is said."""
    stays: str = ""
    """Alerts of which nobody may be told that they are over."""
    fault: str = ""
    """What stands in the table of the guide; empty where the scenario has no row there."""
    ends_minutes: float = 0
    """From the repair to the end of all alerts; 0: it is not waited for."""


DE: Final = {"grouping": "country", "segment": "DE"}
ALL: Final = {"grouping": "all"}
DOWN: Final = "RelevancedProcessDown"
UNANSWERED: Final = Alert(DOWN, 7, "tickets", {}, ("does not answer",))
REDIS_FAILS: Final = "RelevancedNoSnapshot"
KEPT_OUT: Final = "RelevancedProcessKeptOut"
TOPIC_LOST: Final = "RelevancedTopicLost"

EXPECTED: Final[Mapping[str, Expected]] = {
    "quiet": Expected(20),
    # Search got worse. What lies before the start of the live traffic is event time: the fault is
    # as old as its scenario says when Prometheus first sees it. Where one country is broken, the
    # whole may be told as well.
    "ranking": Expected(22, (Alert(SCORE, 9, labels=DE, says=(RANKING,)),), most=2),
    "ranking-repaired": Expected(
        26,
        (Alert(SCORE, 9, "tickets", DE, (RANKING,)),),
        stays=SCORE,
        fault="ranking of one country, broken for 45 min before",
    ),
    "index-outage": Expected(22, (Alert(SCORE, 9, "pages", ALL, (RETRIEVAL,)),)),
    "clicks-lost-20": Expected(
        22,
        (Alert(f"{SCORE}|RelevancedFeedbackShareDropped", 20, labels=ALL, says=(TRACKING,)),),
    ),
    "clicks-stop": Expected(
        30,
        (Alert("RelevancedFeedbackStopped", 7, "pages", {}, (TRACKING,)),),
        fault="no clicks for 12 min",
        ends_minutes=4,
    ),
    "searches-stop": Expected(
        25,
        (Alert("RelevancedNoData", 7, "pages", {}, ("No searches since",)),),
        fault="no searches for 8 min",
        ends_minutes=4,
    ),
    # With an attribution window in which scores fall later.
    "tracker-lost": Expected(
        15, (Alert("RelevancedFeedbackStopped", 7, "pages", {}, (TRACKING,)),)
    ),
    "fresh": Expected(15),
    "fresh-ranking": Expected(
        15,
        (Alert(SCORE, 12, labels=DE, says=JUST_BEFORE),),
        most=2,
    ),
    # Processes.
    "exporter-killed": Expected(10, (UNANSWERED,), fault="leading exporter killed", ends_minutes=2),
    "exporters-killed": Expected(
        12,
        (Alert(REDIS_FAILS, 6.5, "pages"),),
        fault="all exporters killed",
        ends_minutes=2,
    ),
    "standby": Expected(
        10,
        (
            Alert(SCORE, 1, labels=DE),
            Alert(DOWN, 7, "tickets"),
        ),
        most=3,
        stays=SCORE,
    ),
    "worker-killed": Expected(10, (UNANSWERED,), fault="one of two workers killed", ends_minutes=2),
    "no-workers": Expected(
        8,
        (Alert("RelevancedNoWorkers", 3.5, "pages", {}, ("no events are read",)),),
        fault="all workers killed",
        ends_minutes=2,
    ),
    "dead": Expected(
        8,
        (Alert("RelevancedDown", 4, "pages", {}, ("last scraped a process",)),),
        fault="all processes killed",
        ends_minutes=2,
    ),
    "crash-loop": Expected(
        9,
        (Alert("RelevancedRestarts", 8, "tickets", {}, ("ends soon after it starts",)),),
        fault="a worker ends soon after each start",
    ),
    "flapping-scrape": Expected(
        32,
        (Alert("RelevancedScrapesFail", 31, "tickets", {}, ("now and then",)),),
        fault="every other scrape fails",
    ),
    "other-redis": Expected(
        9,
        (Alert(KEPT_OUT, 3, "tickets", {}, ("another Redis",)),),
        fault="stray worker with another Redis",
        ends_minutes=2,
    ),
    "wrong-password": Expected(
        9,
        (Alert(KEPT_OUT, 3, "tickets", {}, ("login",)),),
        fault="worker with a wrong password of Redis",
        ends_minutes=2,
    ),
    # Redis and Kafka.
    "redis-restart": Expected(9, fault="Redis away for 1 min"),
    "redis-away": Expected(
        11,
        (Alert(REDIS_FAILS, 4, "pages", {}, ("connection",)),),
        fault="Redis away for 6 min",
        ends_minutes=3,
    ),
    "redis-full": Expected(
        11,
        (Alert(REDIS_FAILS, 4, "pages", {}, ("full",)),),
        fault="Redis full for 6 min",
        ends_minutes=3,
    ),
    "flushall": Expected(
        33,
        (Alert("Relevanced(RedisLosesKeys|StateLost)", 4, "tickets|pages", {}, ("Redis",)),),
        fault="`FLUSHALL`",
        ends_minutes=32,
    ),
    "key-deleted": Expected(
        6,
        (Alert("RelevancedRedisLosesKeys", 3, "tickets"),),
        fault="one key of a lane deleted",
    ),
    "kafka-restart": Expected(9, fault="Kafka away for 20 s"),
    "kafka-away": Expected(
        14,
        (Alert(TOPIC_LOST, 6.5, "pages", {}, ("Kafka does not answer",)),),
        fault="Kafka away for 8 min",
        ends_minutes=3,
    ),
    "right-taken": Expected(
        11,
        (Alert(TOPIC_LOST, 4.25, "pages", {}, ("this user may not",)),),
        fault="right to read the topic taken",
        ends_minutes=3,
    ),
    "user-lost": Expected(
        14,
        (Alert(TOPIC_LOST, 6.5, "pages"),),
        fault="Kafka back without the workers' user",
        ends_minutes=3,
    ),
    # Topics.
    "empty-topic": Expected(
        18, (Alert("RelevancedNothingArrives", 12, "tickets", {}, ("it is empty",)),)
    ),
    "missing-topic": Expected(
        18, (Alert("RelevancedNothingArrives", 12, "tickets", {}, ("does not exist",)),)
    ),
    "topic-recreated": Expected(
        18, (Alert("RelevancedLaneStopped", 3, "pages", {}, ("created again",)),), most=2
    ),
    "registry-away": Expected(
        15,
        (Alert("RelevancedRegistryFails", 8, "pages", {}, ("gets no schemas",)),),
    ),
    # Planned work, which nobody is told of.
    "changed-configuration": Expected(9, fault="layout changed"),
    "rolling-restart": Expected(9, fault="rolling restart"),
    "roll-without-pause": Expected(9, fault="all restarted at once"),
    "drain": Expected(9, fault="node drained"),
    "rollback": Expected(12, fault="roll-out in place, and back"),
    "one-three-one": Expected(9, fault="1 → 3 → 1 workers"),
    "replaced": Expected(13, fault="replaced and removed"),
    "gone-back": Expected(13, fault="retired and removed, the former one serves again"),
    "retired": Expected(10, fault="retired without a successor"),
    # No alert on the gap. An alert that waits for less than 10 minutes begins to wait anew: that is
    # Prometheus' `--rules.alert.for-grace-period`. Nobody is told that it is over, or told twice.
    "prometheus-restart": Expected(
        10,
        (Alert(SCORE, 9, labels=DE),),
        most=2,
        stays=SCORE,
        fault="Prometheus away for 90 s, an alert on",
    ),
}
