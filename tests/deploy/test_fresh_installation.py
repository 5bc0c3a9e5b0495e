"""A fresh installation in a real Prometheus: from lanes and the exporter's text to the alert."""

from collections.abc import Iterator

import pytest

from relevanced.daemon.exporter import Publisher
from tests.daemon.exporter.two_countries import NOW_MS, PLAN, Site
from tests.deploy.alert_proof import PANE_S, START_S, Bench, Series, load
from tests.services.prometheus_server import required

pytestmark = required("prometheus", "promtool")

INSTANTS = 25
BROKEN = 13
"""Of the instants, 5 min apart, that at which the scores fell."""
FAMILIES = (
    "relevanced_change",
    "relevanced_noticeable",
    "relevanced_history_begin",
    "relevanced_baseline",
)
RECORDED = ("relevanced:change:onset_timestamp_seconds", "relevanced:score:baseline")


def scraped(site: Site) -> Iterator[str]:
    """What Prometheus scrapes of the exporter in these two hours, at the times of the bench."""
    publisher = Publisher(PLAN)
    for instant in range(INSTANTS):
        as_of_ms = NOW_MS - (INSTANTS - 1 - instant) * PANE_S * 1000
        text = b"".join(publisher.publish([site.lane(as_of_ms)], as_of_ms).text.plain).decode()
        lines = [line for line in text.splitlines() if line.startswith(FAMILIES)]
        yield from (f"{line} {START_S + instant * PANE_S}\n" for line in lines)


def firing(bench: Bench, alert: str) -> list[Series]:
    """The series for which the expression of an alert of the first hours holds."""
    (rule,) = (rule for rule in load("fresh.yml") if rule.get("alert") == alert)
    return bench.result(rule["expr"])


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A site that knows one hour before it falls by 14.5 %, with 28,800 searches an hour."""
    begin_ms = NOW_MS - INSTANTS * PANE_S * 1000
    break_ms = NOW_MS - (INSTANTS - 1 - BROKEN) * PANE_S * 1000
    site = Site(begin_ms, break_ms, 0.145, 480, ("DE", "US"))
    made = Bench(tmp_path_factory.mktemp("fresh") / "bench", INSTANTS)
    made.feed_lines(sorted(scraped(site), key=lambda line: line.partition("{")[0]))
    recording = [rule for rule in load("changes.yml") if rule["record"] in RECORDED]
    made.record(recording + [rule for rule in load("fresh.yml") if "record" in rule])
    yield made
    made.close()


def test_a_fall_of_14_percent_fires_within_the_first_hours(bench: Bench) -> None:
    """One metric speaks for the whole at each instant. (Here the one with the largest z: the rule
    that keeps it cannot see its own past results in the bench.)"""
    whole = [one for one in firing(bench, "RelevancedScoreFell") if one.metric["segment"] == "all"]
    values = sorted((time_s, float(value)) for one in whole for time_s, value in one.values)
    instants = [int(time_s - START_S) // PANE_S for time_s, _ in values]
    assert BROKEN < instants[0] <= BROKEN + 6, "within half an hour"
    assert instants == list(range(instants[0], INSTANTS)), "and it stays"
    assert whole[0].metric["metric"] in ("Success@10", "RR@10", "Abandonment")
    (z,) = bench.result('relevanced:change:z{metric="Success@10",segment="all"}')
    assert float(z.values[-1][1]) < -10


def test_the_text_tells_when_it_began(bench: Bench) -> None:
    began = NOW_MS / 1000 - (INSTANTS - 1 - BROKEN) * PANE_S
    query = 'relevanced:change:onset_timestamp_seconds{metric="Success@10",segment="all"}'
    bounds = {each.metric["bound"]: float(each.values[-1][1]) for each in bench.result(query)}
    assert bounds["earliest"] <= began <= bounds["latest"] <= bounds["earliest"] + 20 * 60


def test_it_says_from_the_beginning_that_no_baseline_is_known(bench: Bench) -> None:
    [missing] = firing(bench, "RelevancedBaselineMissing")
    assert len(missing.values) >= INSTANTS - 1
    (least,) = bench.result(
        'relevanced:noticeable_drop:ratio{metric="Success@10",segment="all",against="hour"}'
    )
    before = [float(value) for time_s, value in least.values if time_s < START_S + BROKEN * PANE_S]
    assert before[-1] < 0.145 < before[0], "more and more is noticed"
