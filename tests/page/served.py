"""What tests of the page share: the HTTP side of a daemon, and how they read what is shown."""

import json
from typing import Any, Final

from relevanced.daemon.exporter import Condition, Reading
from relevanced.daemon.http import ROUTES, HttpServer
from relevanced.daemon.telemetry import Telemetry
from tests.lane_views import NOW_MS, Shown, published_of
from tests.page.browser import Page

HOSTILE: Final = "<img src=x onerror=\"document.title='taken'\">'\"&amp;\n\u202e</script>"
FULL: Final = "document.querySelectorAll('.chart path.line, .chart .hatch, .chart .gap').length > 0"
ROW: Final = "[...document.querySelectorAll('#movers tbody tr')].map(row => row.innerText)"
FOLDS: Final = "todo,changes,every,searches,judgements,compared,quality,basis"


class Daemon:
    """The HTTP side of a daemon, which can go away and come back."""

    def __init__(self, reading: Reading | None = None) -> None:
        now_ms = NOW_MS if reading is None else reading.snapshot.as_of_ms or NOW_MS
        self.now_s = now_ms / 1000 + 0.5
        self.server = HttpServer(Telemetry("1.2.3"), "all", clock=lambda: self.now_s, routes=ROUTES)
        self.port = 0
        if reading is not None:
            self.show(reading)

    def show(self, reading: Reading, *conditions: Condition) -> None:
        self.server.published = published_of(reading, *conditions)

    async def start(self) -> None:
        await self.server.start("127.0.0.1", self.port)
        self.port = self.server.port

    async def stop(self, page: Page) -> None:
        """Stop it when the page requests nothing any more."""
        await page.call("Page.navigate", url="about:blank")
        await self.server.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def unfolded(self) -> str:
        """The page with all that is folded below the first screen open, every segment included."""
        return f"{self.url}#rows=all&open={FOLDS}"


def three_states() -> list[Shown]:
    """US has P@1 = 0 and an undefined nDCG@10; DE no traffic in the last minute."""
    shown = [
        Shown(values=(0.0, 0.5, None), time_ms=NOW_MS - number * 500) for number in range(1, 120)
    ]
    return [*shown, *(Shown(country="DE", time_ms=NOW_MS - 300_000 - n) for n in range(40))]


async def api(page: Page, path: str) -> Any:
    """The answer of the API, requested by the page itself."""
    return await page.value(f"fetch({json.dumps('api/v1/' + path)}).then(a => a.json())")


async def text(page: Page, selector: str) -> str:
    return str(await page.value(f"document.querySelector({json.dumps(selector)}).innerText"))
