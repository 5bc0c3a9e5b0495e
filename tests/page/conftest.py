"""Fixtures of the tests of the page: the browser, a tab, daemons."""

import shutil
from collections.abc import AsyncIterator, Iterator
from typing import Final

import msgspec
import pytest
from rich.progress import Progress

from relevanced.daemon.config import loading as config
from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.recompute.buckets import view_of
from relevanced.daemon.recompute.over_time_output import SCORES
from relevanced.daemon.recompute.replay_files import keeping_queries, read_lane
from relevanced.daemon.tools.demonstration import SETTINGS
from relevanced.daemon.tools.traffic import Regression, Traffic, generate_events
from tests.lane_views import NOW_MS, lane_view, reading_of
from tests.page.browser import Page, chromium, new_page
from tests.page.served import Daemon, three_states

SETTINGS_OF_THE_DEMO: Final = keeping_queries(config.load(SETTINGS, {}, "demo"), SCORES)
"""Without queries: this story is of scores alone, and has no store to read them from."""
STORY_MINUTES: Final = 75
BROKEN_FOR_MINUTES: Final = 10


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("chromium") is None:
        pytest.skip("no chromium: apt-get install chromium")
    with chromium(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture
async def page(browser: str) -> AsyncIterator[Page]:
    """A tab. Fails a test that requests anything of another host, or logs an error."""
    async with new_page(browser) as one:
        yield one
        strangers = [url for url in one.requests if not url.startswith("http://127.0.0.1:")]
        assert not strangers
        assert not one.complaints


@pytest.fixture
async def daemon(page: Page) -> AsyncIterator[Daemon]:
    made = Daemon(reading_of([lane_view(three_states())]))
    await made.start()
    yield made
    await made.stop(page)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    """The demo's traffic, ten minutes after the ranking of DE broke."""
    broken = Regression(after_s=(STORY_MINUTES - BROKEN_FOR_MINUTES) * 60)
    traffic = Traffic(seed=1, rate=15, regression=broken)
    start_ms = NOW_MS - STORY_MINUTES * 60_000
    path = tmp_path_factory.mktemp("story") / "events.jsonl"
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for time_ms, event in generate_events(traffic, start_ms):
            if time_ms >= NOW_MS:
                break
            file.write(encoder.encode(event) + b"\n")
    with Progress(disable=True) as bars:
        lane = read_lane([str(path)], SETTINGS_OF_THE_DEMO, bars, as_is=True)
    reading = Publisher(lane.plan).publish([view_of(lane)], NOW_MS).reading
    assert reading is not None
    return reading
