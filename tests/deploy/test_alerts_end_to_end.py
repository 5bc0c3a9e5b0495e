"""From searches to webhooks: a fault raises its alert, and no other alert."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.scene import HOUR_MS, scene
from tests.deploy.scraped import until
from tests.services.kafka_server import Broker
from tests.services.prometheus_server import required
from tests.services.redis_server import RedisServer, binaries

pytestmark = required("prometheus", "prometheus-alertmanager")

SCORES: Final = ("RelevancedScoreDropped", "RelevancedScoreBelowFloor")
GAP_KNOWN: Final = "count_over_time(relevanced_feedback_gap_end_timestamp_seconds[40s:1s]) > 30"
"""Three times as long as the alerts on scores wait in this scene."""
ALERTS_ON_BAD_RANKING: Final = (*SCORES, "RelevancedFeedbackShareDropped")
"""People also click less when they do not find what they search for."""


@pytest.fixture
def server(kafka: Broker, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty Redis, while Kafka is running as well."""
    kafka.start()
    redis = RedisServer(str(binaries()["valkey"]), tmp_path / "redis")
    redis.start()
    yield redis.url
    redis.kill()


def test_a_broken_ranking_of_one_segment_raises_alerts_on_that_segment_only(
    kafka: Broker, server: str, tmp_path: Path
) -> None:
    with scene(kafka, server, tmp_path, break_ms=2 * HOUR_MS) as played:
        name = "RelevancedScoreDropped"
        until(lambda: played.firing(name, segment="BR"), what="the alert on BR fires")
        (said,) = played.descriptions(name, segment="BR")
        # or RETRIEVAL: of 250 searches an hour, the ranks of the clicks are too few to say in some
        assert "Looks like RANKING" in said
        received = played.received()
        assert set(received) == {"/tickets"}, received
        assert [labels["alertname"] for labels in received["/tickets"]].count(name) == 1
        for labels in received["/tickets"]:
            assert labels["alertname"] in ALERTS_ON_BAD_RANKING, labels
            assert (labels["grouping"], labels["segment"]) == ("country", "BR")
            assert (labels["kind"], labels["severity"]) == ("quality", "ticket")


def test_clicks_that_stop_raise_feedback_stopped_and_no_alert_on_scores(
    kafka: Broker, server: str, tmp_path: Path
) -> None:
    """40 minutes ago, of which most have settled: no score falls by them."""
    stopped_ms = int(time.time() * 1000) - HOUR_MS * 2 // 3

    def keeps(event: dict[str, Any], at_ms: int) -> bool:
        return event["type"] == "impression" or at_ms < stopped_ms

    with scene(kafka, server, tmp_path, keeps=keeps, clicking=False) as played:
        until(
            lambda: played.firing("RelevancedFeedbackStopped"), what="the alert on the stop fires"
        )
        until(lambda: played.received().get("/pages"), what="the stop is notified")
        until(lambda: played.value(GAP_KNOWN), what="the time without clicks is known for long")
        assert played.value("count(relevanced_change_open)") is None
        found = [alert["alertname"] for alert in played.alerts("pending") + played.alerts("firing")]
        assert not set(SCORES) & set(found)
        received = played.received()
        assert set(received) == {"/pages"}, received
        assert {labels["alertname"] for labels in received["/pages"]} == {
            "RelevancedFeedbackStopped"
        }
