"""Pictures of the page for people to look at: over a simulated site of which one country breaks and
is repaired, at the moments that matter, on a desktop, on a phone and in the dark, each with what is
on its first screen.

python -m tests.page.looks FOLDER          some two minutes
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.test_open_changes import Recovering, reading
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site
from tests.page.browser import Page, chromium, new_page
from tests.page.first_screen import first_screen
from tests.page.served import Daemon

BROKE_MS: Final = NOW_MS - 3 * HOUR_MS
REPAIRED_MIN: Final = 120
"""So long after the break."""
KNOWN_H: Final = 9 * 24
DAY: Final = 24 * 60
MOMENTS: Final = {
    "start": -5,
    "break": 2,
    "break-5min": 5,
    "break-20min": 20,
    "break-75min": 75,
    "repair": REPAIRED_MIN,
    "repair-5min": REPAIRED_MIN + 5,
    "repair-20min": REPAIRED_MIN + 20,
    "repair-75min": REPAIRED_MIN + 75,
}
"""Picture → minutes from the break to the end of what has settled."""
SCREENS: Final = {
    "desktop": (1360, 900, "light"),
    "phone": (390, 844, "light"),
    "dark": (1360, 900, "dark"),
}
"""Picture → (width, height, colour scheme)."""
DROP: Final = 0.65
PER_MINUTE: Final = 380
READY: Final = (
    "document.querySelectorAll('.chart path.line').length > 1"
    " && document.querySelector('#headline').innerText !== ''"
)


def readings() -> Iterator[tuple[str, Reading]]:
    """(picture, what is served then) by an exporter that has been there all the time; and of a
    fault that nobody repairs, a day later."""
    site, publisher = Recovering(
        BROKE_MS - KNOWN_H * HOUR_MS, BROKE_MS, BROKE_MS + REPAIRED_MIN * MINUTE_MS, DROP
    ), Publisher(PLAN)
    looks = sorted({*MOMENTS.values(), *range(-10, max(MOMENTS.values()), 5)})
    names = {minutes: name for name, minutes in MOMENTS.items()}
    for minutes in looks:
        found = reading(site, BROKE_MS + minutes * MINUTE_MS, publisher)
        if minutes in names:
            yield names[minutes], found
    broken = Site(NOW_MS - KNOWN_H * HOUR_MS, NOW_MS - DAY * MINUTE_MS, DROP, PER_MINUTE)
    publisher = Publisher(PLAN)
    for ago_min in (2, 0):
        found = reading(broken, NOW_MS - ago_min * MINUTE_MS, publisher)
    yield "break-day", found


async def take(page: Page, folder: Path) -> None:
    """All pictures."""
    for moment, found in await asyncio.to_thread(lambda: [*readings()]):
        daemon = Daemon(found)
        await daemon.start()
        for screen, (width, height, scheme) in SCREENS.items():
            await page.prefer(scheme)
            await page.open(f"{daemon.url}?{screen}", width=width, height=height)
            await page.until(READY)
            seen = await first_screen(page)
            file = folder / f"{moment}-{screen}.png"
            file.write_bytes(await page.picture(whole=True))
            counted = f"{seen.words} words, {seen.numbers} numbers, {seen.controls} controls"
            print(f"{file}: {counted}", *page.complaints, flush=True)
        await daemon.stop(page)


async def main(folder: Path) -> None:
    """Take them."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, chromium(Path(name)) as browser:
        async with new_page(browser) as page:
            await take(page, folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
