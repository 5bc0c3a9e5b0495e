"""A demo in which nothing is broken: no tile of a dashboard warns, and no alert is on its way."""

import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import pytest

from tests.deploy.dashboard_rules import panels
from tests.deploy.scraped import Prometheus, until
from tests.deploy.shown import choices, colour, fill
from tests.deploy.test_dashboards import DASHBOARDS
from tests.services import processes

CALM: Final = {"green", "blue", "text"}
BY_DESIGN: Final = {"RelevancedWatchdog"}
"""What fires always."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a demo which has read its history, and has not broken anything."""
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no prometheus: apt-get install prometheus")
    directory = tmp_path_factory.mktemp("demo")
    port = processes.free_port()
    command = [sys.executable, "-m", "relevanced.daemon", "demo", "--port", str(port)]
    demo = processes.spawn([*command, "--regression-after=1h"], log=directory / "demo.log")
    server = Prometheus(binary, directory, port, more_rules="groups: []")
    try:
        until(lambda: "breaks in" in (directory / "demo.log").read_text(), what="history is read")
        until(
            lambda: server.now("count_over_time(up[20s]) > 10"), what="it was scraped for a while"
        )
        yield server
    finally:
        server.close()
        processes.end(demo, signal.SIGINT, patience_s=30)


def colours(prometheus: Prometheus, name: str) -> Mapping[str, frozenset[str]]:
    """Title of each tile of a dashboard → the colours that it shows now."""
    dashboard = DASHBOARDS[name]
    selected = choices(prometheus, dashboard)
    tiles = [panel for panel in panels(dashboard) if panel["type"] == "stat"]
    return {
        tile["title"]: frozenset(
            colour(tile, value)
            for _, value in prometheus.now(fill(tile["targets"][0]["expr"], selected))
        )
        for tile in tiles
    }


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_tile_of_a_healthy_demo_warns(prometheus: Prometheus, name: str) -> None:
    def warning() -> Mapping[str, frozenset[str]]:
        return {title: of for title, of in colours(prometheus, name).items() if of - CALM}

    # On a machine that does other work the newest data may be late for a while.
    with suppress(AssertionError):
        until(lambda: not warning(), what="no tile warns")
    assert warning() == {}
    assert any(colours(prometheus, name).values()), "the dashboard has values"


def test_no_alert_of_a_healthy_demo_is_on_its_way(prometheus: Prometheus) -> None:
    def pending() -> set[str]:
        found = prometheus.get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in found} - BY_DESIGN

    until(lambda: not pending(), what=f"none but {BY_DESIGN}")
