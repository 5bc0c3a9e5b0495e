"""What the alerts say of broken searches in a real Prometheus: from lanes to their texts."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from relevanced.daemon.tools.traffic import Breakage
from tests.deploy.broken_search import page
from tests.deploy.scraped import until
from tests.deploy.static_targets import Watched, watched
from tests.services.prometheus_server import required

pytestmark = required("prometheus")

DE: Final = (("country", "DE"),)
BROKEN: Final[dict[str, tuple[Breakage, tuple[tuple[str, str], ...], str]]] = {
    "ranking": ("ranking", DE, "RANKING"),
    "index": ("index", (), "RETRIEVAL"),
    "tracking": ("tracking", (), "TRACKING"),
    "mix": ("mix", DE, "MIX"),
}
"""Job → (what broke, for which segment, what is said)."""


def firing(running: Watched, job: str) -> list[dict[str, Any]]:
    return [alert for alert in running.firing() if alert["labels"]["job"] == job]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    pages = {job: page(what, segment) for job, (what, segment, _) in BROKEN.items()}
    with watched(tmp_path_factory.mktemp("patterns"), pages) as running:
        until(
            lambda: all(firing(running, job) for job in BROKEN),
            what="every fault raises an alert",
        )
        yield running


@pytest.mark.parametrize("job", BROKEN)
def test_every_alert_on_a_broken_search_names_what_broke(prometheus: Watched, job: str) -> None:
    what, segment, name = BROKEN[job]
    alerts = firing(prometheus, job)
    for alert in alerts:
        text = alert["annotations"]["description"]
        assert f"Looks like {name}: " in text, text
        assert "Look at " in text and " worse than just before, z = -" in text, text
    named = {(alert["labels"]["grouping"], alert["labels"]["segment"]) for alert in alerts}
    wanted = ("country", "DE") if segment and what != "mix" else ("all", "all")
    assert named == {wanted}
    assert [alert["labels"]["severity"] for alert in alerts] == ["page"]
