"""Pictures of the page for people to look at: over a simulated site of which one country breaks, at
the moments that matter, on a desktop, on a phone and in the dark.

python -m tests.page.looks FOLDER          less than a minute
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site
from tests.page.browser import Page, chromium, new_page
from tests.page.served import Daemon

AS_OF_MS: Final = NOW_MS + 17 * MINUTE_MS
BREAKS: Final = {
    "start": (1, -60),
    "break": (30, 2),
    "75min": (30, 75),
    "day": (9 * 24, 24 * 60),
}
"""Picture → (hours of traffic, minutes since the break; below 0 it is still to come)."""
SCREENS: Final = {
    "desktop": (1360, "light"),
    "phone": (390, "light"),
    "dark": (1360, "dark"),
}
"""Picture → (width, colour scheme)."""
DROP: Final = 0.65
PER_MINUTE: Final = 300
READY: Final = (
    "document.querySelectorAll('.chart path.line').length > 1"
    " && document.querySelector('#headline').innerText !== ''"
)


def reading(hours: int, minutes: int) -> Reading:
    """What is served so long after the break; the exporter has been there for two minutes."""
    site = Site(
        AS_OF_MS - hours * HOUR_MS, AS_OF_MS - minutes * MINUTE_MS, DROP, per_minute=PER_MINUTE
    )
    publisher = Publisher(PLAN)
    for as_of_ms in (AS_OF_MS - 2 * MINUTE_MS, AS_OF_MS):
        published = publisher.publish([site.lane(as_of_ms)], as_of_ms)
    assert published.reading is not None
    return published.reading


async def take(page: Page, folder: Path) -> None:
    """All pictures."""
    for moment, (hours, minutes) in BREAKS.items():
        daemon = Daemon(await asyncio.to_thread(reading, hours, minutes))
        await daemon.start()
        for screen, (width, scheme) in SCREENS.items():
            await page.prefer(scheme)
            await page.open(f"{daemon.url}?{screen}", width=width, height=1300)
            await page.until(READY)
            (folder / f"{moment}-{screen}.png").write_bytes(await page.picture(whole=True))
            print(folder / f"{moment}-{screen}.png", *page.complaints)
        await daemon.stop(page)


async def main(folder: Path) -> None:
    """Take them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium(Path(name)) as browser:
        async with new_page(browser) as page:
            await take(page, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
