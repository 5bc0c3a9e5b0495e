"""From a search to a webhook: what breaks is told, and nothing else is."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.scene import HOUR_MS, scene
from tests.deploy.watched import until
from tests.services.kafka_server import Broker
from tests.services.prometheus_server import required
from tests.services.redis_server import RedisServer, binaries

pytestmark = required("prometheus", "prometheus-alertmanager")

CLICKS_OF_A_DAY: Final = "relevanced:feedback_per_impression:rate1d"
SCORES: Final = (
    "RelevancedScoreDropped",
    "RelevancedScoreFarBelowUsual",
    "RelevancedScoreSinking",
)
TRUE_OF_BAD_RANKING: Final = (*SCORES, "RelevancedFeedbackShareDropped")
"""People also click less where they do not find what they search for."""


@pytest.fixture
def server(kafka: Broker, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty Redis; Kafka runs, too."""
    kafka.start()
    redis = RedisServer(str(binaries()["valkey"]), tmp_path / "redis")
    redis.start()
    yield redis.url
    redis.kill()


def test_a_broken_ranking_of_one_segment_is_told_and_nothing_else(
    kafka: Broker, server: str, tmp_path: Path
) -> None:
    with scene(kafka, server, tmp_path, break_ms=2 * HOUR_MS) as played:
        name, metric = "RelevancedScoreFarBelowUsual", "RR@10"
        until(lambda: played.firing(name, segment="BR", metric=metric), what="BR is found")
        heard = played.heard()
        assert set(heard) == {"/tickets"}, heard
        assert any((one["alertname"], one["metric"]) == (name, metric) for one in heard["/tickets"])
        for labels in heard["/tickets"]:
            assert labels["alertname"] in TRUE_OF_BAD_RANKING, labels
            assert (labels["grouping"], labels["segment"]) == ("country", "BR")
            assert (labels["kind"], labels["severity"]) == ("quality", "ticket")


def test_clicks_that_stop_are_told_as_that_and_not_as_bad_ranking(
    kafka: Broker, server: str, tmp_path: Path
) -> None:
    """In life the stop is known half an hour before scores settle without clicks. Here both are
    there at once, so the rules on scores come when the stop is known."""
    stopped_ms = int(time.time() * 1000) - HOUR_MS * 2 // 3

    def keeps(event: dict[str, Any], at_ms: int) -> bool:
        return event["type"] == "impression" or at_ms < stopped_ms

    with scene(kafka, server, tmp_path, keeps=keeps, withheld="quality.yml") as played:
        until(lambda: played.value(f"{CLICKS_OF_A_DAY} > 0.5"), what="clicks are seen")
        played.searchers.clicking = False
        until(lambda: played.firing("RelevancedFeedbackStopped"), what="the stop is found")
        # Alertmanager can hold others back once it knows of the stop itself.
        until(lambda: played.heard().get("/pages"), what="the stop is told")
        played.give_rules()
        until(lambda: played.firing(SCORES[0], segment="all"), what="the scores are seen to fall")
        heard = played.heard()
        assert set(heard) == {"/pages"}, heard
        assert {labels["alertname"] for labels in heard["/pages"]} == {"RelevancedFeedbackStopped"}
