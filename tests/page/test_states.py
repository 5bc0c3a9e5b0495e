"""Each sentence of the headline at the moment of which it speaks, over a site that breaks."""

import pytest

from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.http import headline as headline_of
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.test_open_changes import Recovering, reading
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
