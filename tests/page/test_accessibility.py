"""axe-core finds nothing, on any screen, in any state, whatever segments are called."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from relevanced.daemon.changes import Marker, Silence
from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.http import headline
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import WHOLE
from tests.daemon.exporter.test_open_changes import PER_MINUTE, reading
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site
from tests.page.axe import AxeUnavailable, script, violations
from tests.page.browser import Page
from tests.page.served import FOLDS, FULL, HOSTILE, Daemon
from tests.page.test_states import at

SCREENS: Final = {
    "desktop": (1360, "light"),
    "dark": (1360, "dark"),
    "phone": (390, "light"),
    "dark phone": (390, "dark"),
    "320 px": (320, "light"),
}
"""Screen → (width, colour scheme)."""


def named(first: str, second: str) -> Reading:
    """Ten minutes after a break of one of two segments of these names."""
    break_ms = NOW_MS - 10 * MINUTE_MS
    site = Site(break_ms - HOUR_MS, break_ms, 0.65, PER_MINUTE)
    site.names = (WHOLE, ("country", first), ("country", second))
    publisher = Publisher(PLAN)
    reading(site, NOW_MS - MINUTE_MS, publisher)
    return reading(site, NOW_MS, publisher)


def calm() -> Reading:
    """Nothing ever broke."""
    return reading(Site(NOW_MS - 4 * HOUR_MS, NOW_MS * 2, 0.65, PER_MINUTE), NOW_MS)


def acknowledged() -> Reading:
    """A change of which somebody says what is done."""
    read = at(40)
    said = Marker("a", NOW_MS, "acknowledged", HOSTILE, NOW_MS * 2, change=headline(read).change)
    return replace(read, acknowledged=(said,))


def silent() -> Reading:
    """Searches have stopped."""
    return replace(calm(), silences=(Silence("searches", NOW_MS - HOUR_MS, 3104.2),))


STATES: Final[dict[str, Callable[[], Reading]]] = {
    "calm": calm,
    "an open change": lambda: at(40),
    "acknowledged": acknowledged,
    "silence": silent,
    "recovered": lambda: at(75),
    "markup and a long name": lambda: named(HOSTILE, "long " * 50 + "x" * 200),
    "right to left and pictures": lambda: named("שלום עולם مرحبا", "🛒👩‍👩‍👧‍👦🇩🇪"),
    "no name": lambda: named("", " "),
}


@pytest.fixture(scope="session")
def axe() -> str:
    try:
        return script()
    except AxeUnavailable as error:
        pytest.skip(str(error))


async def none(page: Page, axe: str, url: str, ready: str) -> None:
    """Check that nothing is found on any screen."""
    found: dict[str, list[str]] = {}
    for screen, (width, scheme) in SCREENS.items():
        await page.prefer(scheme)
        await page.open(url.replace("/#", f"/?{width}{scheme}#"), width=width, height=900)
        await page.until(ready)
        if of_screen := await violations(page, axe):
            found[screen] = of_screen
        assert await page.value("document.documentElement.scrollWidth") <= width, screen
    assert not found, "\n".join(
        f"{screen}: {one}" for screen, all_ in found.items() for one in all_
    )


@pytest.mark.parametrize("state", STATES)
async def test_nobody_is_kept_from_the_page(page: Page, axe: str, state: str) -> None:
    daemon = Daemon(STATES[state]())
    await daemon.start()
    for folds in ("", FOLDS):
        await none(page, axe, f"{daemon.url}#rows=all&open={folds}", FULL)
        assert await page.value("acknowledged.hidden") is (state != "acknowledged")
    await daemon.stop(page)


@pytest.mark.parametrize("path", ["runbook", "runbook/RelevancedScoreDropped", "runbook/none"])
async def test_nobody_is_kept_from_the_runbook(page: Page, axe: str, path: str) -> None:
    daemon = Daemon()
    await daemon.start()
    await none(page, axe, daemon.url + path, "document.documentElement.dataset.theme")
    page.complaints.clear()  # the browser logs that there is no such section
    await daemon.stop(page)
