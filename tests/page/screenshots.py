"""The README's pictures, taken of the running demo: all is well, and a country's ranking broke.

python -m tests.page.screenshots          some six minutes, as the demo is in real time
"""

import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.page.browser import Page, chromium, new_page
from tests.services import processes

FOLDER: Final = Path(__file__).parents[2] / "deploy" / "screenshots"
WIDTH, HEIGHT = 1360, 1000
BREAKS_AFTER: Final = "90s"
PATIENCE_S: Final = 600.0
PICTURES: Final = {
    "overview.png": "document.querySelector('#link').innerText === 'up to date'"
    " && document.querySelector('#headline').innerText.includes(' as good as ')"
    " && document.querySelectorAll('#charts path.band').length === 3",
    "regression.png": "document.querySelector('#headline').innerText.startsWith('Search in ')"
    " && document.querySelector('.chart .onset') !== null"
    " && document.querySelector('#movers tbody td.worse') !== null",
}
"""File → when it is taken."""


async def take(page: Page, url: str, folder: Path) -> None:
    """All pictures, each as soon as the page shows what it is for."""
    await page.prefer("light")
    await page.open(url, width=WIDTH, height=HEIGHT)
    for name, ready in PICTURES.items():
        await page.until(ready, patience_s=PATIENCE_S)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(await page.picture())
        print(folder / name)


async def main() -> None:
    """Run the demo, look at it, end it."""
    port = processes.free_port()
    command = [sys.executable, "-m", "relevanced.daemon", "demo", "--port", str(port)]
    with tempfile.TemporaryDirectory() as name:
        log = Path(name) / "demo.log"
        broken = ["--regression-after", BREAKS_AFTER, "--repair-after", "0s"]
        demo = processes.spawn([*command, *broken], log=log)
        try:
            while not log.exists() or b"http://" not in log.read_bytes():
                assert demo.poll() is None, log.read_text()
                await asyncio.sleep(0.1)
            with chromium(Path(name)) as browser:
                async with new_page(browser) as page:
                    await take(page, f"http://127.0.0.1:{port}/", FOLDER)
        finally:
            await asyncio.to_thread(processes.end, demo, signal.SIGINT, patience_s=20)


if __name__ == "__main__":
    asyncio.run(main())
