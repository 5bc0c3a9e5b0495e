"""Each sentence of the headline at the moment of which it speaks, over a site that breaks."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from relevanced.daemon.changes import TrafficChange
from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.http import headline as headline_of
from relevanced.daemon.lane import Rows
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.test_open_changes import Recovering, reading
from tests.daemon.exporter.test_traffic_changes import (
    MINUTES,
    Faulty,
    without_american_searches,
    without_results,
)
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN
from tests.page.browser import Page
from tests.page.first_screen import DESKTOP, PHONE, FirstScreen, first_screen
from tests.page.served import FULL, Daemon, text

BROKE_MS = NOW_MS - 4 * HOUR_MS
"""08:00 UTC; it is over an hour later."""
MOMENTS = {
    "while it lasts": (40, "worse", "Search in DE got much worse at 08:0", " find a click; "),
    "as live traffic shows its end": (
        60,
        "good",
        "Search in DE is back to normal since 08:5",
        "for 5",
    ),
    "as it ends": (75, "good", "Search in DE is back to normal since 09:0", "for 60 min. 7"),
    "an hour later": (120, "good", "Search in DE is back to normal since 09:0", "for 60 min. 7"),
}
"""(minutes since the break, tone, headline, part of the line of numbers)."""


def at(minutes: int) -> Reading:
    """What is published so long after the break, by one that has watched all of it."""
    site = Recovering(BROKE_MS - 4 * HOUR_MS, BROKE_MS, BROKE_MS + HOUR_MS, 0.65)
    publisher = Publisher(PLAN)
    for until in range(10, minutes, 10):
        reading(site, BROKE_MS + until * MINUTE_MS, publisher)
    return reading(site, BROKE_MS + minutes * MINUTE_MS, publisher)


@pytest.mark.parametrize(
    ("fault", "headline", "line", "link", "alert"),
    [
        (without_results, "Of all searches ", "", "#runbook a", "RelevancedZeroResultsRising"),
        (
            without_american_searches,
            "Up to ",
            "▼ Searches of country US have almost stopped: ",
            "#traffic a",
            "RelevancedSegmentSilent",
        ),
    ],
)
async def test_what_is_far_from_usual_is_shown_while_it_is(
    page: Page, fault: Callable[[Rows], None], headline: str, line: str, link: str, alert: str
) -> None:
    """No score fell: without it the page would say that all is well. With where the runbook says
    what to do."""
    site, publisher = Faulty(fault), Publisher(PLAN)
    daemon = Daemon(site.reading(publisher, -10))
    await daemon.start()
    await page.open(daemon.url, width=DESKTOP[0], height=DESKTOP[1])
    await page.until(FULL)
    for minute, lasts in ((-10, False), (65, True), (MINUTES + 75, False), (MINUTES + 120, False)):
        read = site.reading(publisher, minute)
        daemon.show(read)
        begin, tone = (headline, headline_of(read).tone) if lasts else ("Up to ", "good")
        hidden = json.dumps(not (lasts and line))
        await page.until(f"document.querySelector('#traffic').hidden === {hidden}")
        await page.until(f"document.querySelector('#headline').innerText.startsWith('{begin}')")
        told = await page.value("document.querySelector('#traffic').innerText")
        assert told.startswith(line) if lasts else told == ""
        assert await page.value("verdict.className") == tone
        is_said = bool(lasts and not line)
        assert await page.value("document.querySelector('#act-todo').hidden") is not is_said
        if lasts:
            section = f"fetch(document.querySelector('{link}').href).then(answer => answer.text())"
            assert await page.value(f"document.querySelector('{link}').innerText") == alert
            assert alert in await page.value(section)
    await daemon.stop(page)


async def test_what_is_back_to_normal_does_not_hide_what_is_far_from_usual(page: Page) -> None:
    far = TrafficChange(("all", "all"), "zero_results_share", 0.01, 0.4, 20.0)
    read = replace(at(120), traffic=(far,))
    daemon = Daemon(read)
    await daemon.start()
    await page.open(daemon.url, width=DESKTOP[0], height=DESKTOP[1])
    await page.until(FULL)
    said = headline_of(read)
    assert said.parts and (said.tone, said.parts.state) == ("worse", "repaired")
    assert (await text(page, "#headline")) + "." == said.text
    assert (await text(page, "#second")).startswith("Scores: Search in DE is back to normal since ")
    assert await page.value("verdict.className") == "worse"
    assert await text(page, "#runbook a") == "RelevancedZeroResultsRising"
    assert not await text(page, "#traffic")
    assert await page.value("document.querySelector('#cause').hidden"), "it would be of the share"
    await daemon.stop(page)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_break_from_its_onset_to_its_end(page: Page, moment: str) -> None:
    minutes, tone, headline, numbers = MOMENTS[moment]
    read = at(minutes)
    assert headline_of(read).tone == tone, "page and API say the same"
    daemon = Daemon(read)
    await daemon.start()
    for width, height in (DESKTOP, PHONE):
        await page.open(f"{daemon.url}?{width}", width=width, height=height)
        await page.until(FULL)
        assert (await text(page, "#headline")).startswith(headline)
        assert numbers in await text(page, "#second")
        assert await page.value("verdict.className") == tone
        assert await page.value("document.querySelector('#wide .onset') !== null")
        bands = "[...document.querySelectorAll('#wide .usual')].map(one => one.getBBox().y)"
        line = "document.querySelector('#wide path.line').getBBox()"
        middle = await page.value(f"{line}.y + {line}.height / 2")
        assert max(await page.value(bands)) < middle, "usual is what was before, not the fall"
        ended = await page.value("document.querySelector('#wide .ended') !== null")
        assert ended is (tone == "good")
        red = await page.value("document.querySelectorAll('.interval.worse').length")
        assert (red > 0) is (tone == "worse"), "nothing is red behind the end"
        hidden = await page.value("document.querySelector('#acknowledge').hidden")
        assert hidden is (not read.clicks.changes.open), "only what is open is acknowledged"
        seen: FirstScreen = await first_screen(page)
        assert seen.words <= 120 and seen.numbers <= 40 and seen.controls <= 12, seen
        assert seen.has_chart and await text(page, "#subject") == "DE"
    await daemon.stop(page)
