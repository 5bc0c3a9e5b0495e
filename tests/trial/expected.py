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
    """Alerts that must not resolve while the scenario is watched."""


DE: Final = {"grouping": "country", "segment": "DE"}
ALL: Final = {"grouping": "all"}

EXPECTED: Final[Mapping[str, Expected]] = {
    "quiet": Expected(20),
    # Search got worse. What lies before the start of the live traffic is event time: the fault is
    # as old as its scenario says when Prometheus first sees it. Where one country is broken, the
    # whole may be told as well.
    "ranking": Expected(22, (Alert(SCORE, 9, labels=DE, says=(RANKING,)),), most=2),
    "index-outage": Expected(22, (Alert(SCORE, 9, "pages", ALL, (RETRIEVAL,)),)),
    "clicks-lost-20": Expected(
        22,
        (Alert(f"{SCORE}|RelevancedFeedbackShareDropped", 20, labels=ALL, says=(TRACKING,)),),
    ),
    # The rate over 15 minutes contains the history, which was read at once, for 15 minutes.
    "tracker-lost": Expected(
        31, (Alert("RelevancedFeedbackStopped", 29, "pages", {}, (TRACKING,)),)
    ),
    "fresh": Expected(15),
    "fresh-ranking": Expected(
        15,
        (Alert(SCORE, 12, labels=DE, says=JUST_BEFORE),),
        most=2,
    ),
    # Processes.
    "exporter-killed": Expected(
        9, (Alert("RelevancedProcessDown", 7, "tickets", {}, ("does not answer",)),)
    ),
    "standby": Expected(
        10,
        (
            Alert(SCORE, 1, labels=DE),
            Alert("RelevancedProcessDown", 7, "tickets"),
        ),
        most=3,
        stays=SCORE,
    ),
    "worker-killed": Expected(
        9, (Alert("RelevancedProcessDown", 7, "tickets", {}, ("does not answer",)),)
    ),
    "no-workers": Expected(
        18, (Alert("RelevancedNoWorkers", 3.5, "pages", {}, ("no events are read",)),)
    ),
    "dead": Expected(8, (Alert("RelevancedDown", 4, "pages", {}, ("last scraped a process",)),)),
    # Redis and Kafka.
    "redis-restart": Expected(9),
    "redis-down": Expected(18, (Alert("Relevanced.*", 15, "pages", {}, ("Redis",)),)),
    "flushall": Expected(
        9, (Alert("Relevanced(RedisLosesKeys|StateLost)", 4, "tickets|pages", {}, ("Redis",)),)
    ),
    "kafka-restart": Expected(9),
    "kafka-down": Expected(
        18, (Alert("RelevancedTopicLost", 6, "pages", {}, ("Kafka does not answer",)),)
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
    # Changes.
    "changed-configuration": Expected(12),
    # No alert on the gap. An alert that waits for less than 10 minutes begins to wait anew: that is
    # Prometheus' `--rules.alert.for-grace-period`.
    "prometheus-restart": Expected(10, (Alert(SCORE, 9, labels=DE),), most=2),
}
