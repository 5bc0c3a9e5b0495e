"""A headless Chromium, driven over its own protocol: one process, a clean tab for each test."""

import asyncio
import base64
import itertools
import json
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.services import processes

FLAGS: Final = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars "
    "--disable-default-apps --disable-extensions --remote-debugging-port=0"
).split()
PATIENCE_S: Final = 30.0
ADVICE: Final = (
    "chromium is not on PATH: the page is tested in it (Debian: apt-get install chromium)"
)


class Page:
    """One tab: what it shows, what it requested, and its errors."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str) -> None:
        self._socket = socket
        self._session = session
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._alter: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self._altering: set[asyncio.Task[None]] = set()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to the browser, and wait for its answer."""
        number = next(self._numbers)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(
            {"id": number, "sessionId": self._session, "method": method, "params": parameters}
        )
        answer = await asyncio.wait_for(answered, PATIENCE_S)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def take(self, message: dict[str, Any]) -> None:
        """Take a message of the browser: an answer, or an event."""
        if "id" in message:
            _answer(self._waiting.pop(message["id"]), message)
            return
        happened, event = message["method"], message["params"]
        if happened == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif happened == "Fetch.requestPaused":
            task = asyncio.create_task(self._answer(event["requestId"]))
            self._altering.add(task)
            task.add_done_callback(self._altering.discard)
        elif happened == "Runtime.exceptionThrown":
            self.complaints.append(str(event["exceptionDetails"]))
        elif happened == "Runtime.consoleAPICalled" and event["type"] in ("error", "warning"):
            self.complaints.append(str(event["args"]))
        elif happened == "Log.entryAdded" and event["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")

    async def alter(
        self, url_pattern: str, alter: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        """From now on the page gets the JSON of these addresses as `alter` returns it."""
        self._alter = alter
        await self.call("Network.setCacheDisabled", cacheDisabled=True)
        paused = [{"urlPattern": url_pattern, "requestStage": "Response"}]
        await self.call("Fetch.enable", patterns=paused)

    async def stop_altering(self) -> None:
        """Leave the requests alone that are paused, before the tab closes."""
        for task in self._altering:
            task.cancel()
        await asyncio.gather(*self._altering, return_exceptions=True)
        # Goes on with what is still paused: a context with a paused request is not disposed of.
        await self.call("Fetch.disable")

    async def _answer(self, request: str) -> None:
        """Continue a paused request; fails where the page has been left meanwhile."""
        with suppress(AssertionError):
            found = await self.call("Fetch.getResponseBody", requestId=request)
            body = found["body"]
            given = base64.b64decode(body) if found["base64Encoded"] else body
            altered = json.dumps(self._alter(json.loads(given))).encode()
            await self.call(
                "Fetch.fulfillRequest",
                requestId=request,
                responseCode=200,
                responseHeaders=[{"name": "Content-Type", "value": "application/json"}],
                body=base64.b64encode(altered).decode(),
            )

    async def open(self, url: str, *, width: int = 1600, height: int = 1000) -> None:
        """Go there with a window of this size."""
        await self.resize(width, height)
        await self.call("Page.navigate", url=url)

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def prefer(self, scheme: str) -> None:
        """The user's system is `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def until(self, expression: str, *, patience_s: float = PATIENCE_S) -> Any:
        """Wait until the expression is true, and its elements are there; its value."""
        end = asyncio.get_running_loop().time() + patience_s
        guarded = f"(() => {{ try {{ return {expression} }} catch {{ return null }} }})()"
        while not (found := await self.value(guarded)):
            shown = await self.value("document.body?.innerText ?? ''")
            assert asyncio.get_running_loop().time() < end, f"never: {expression}\n{shown}"
            await asyncio.sleep(0.05)
        return found

    async def press(self, key: str, *, text: str = "") -> None:
        """A key goes down and up."""
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Escape": 27, " ": 32}
        pressed = {"key": key, "code": key, "windowsVirtualKeyCode": code[key]}
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, **pressed, **extra)

    async def picture(self, *, whole: bool = False) -> bytes:
        """What is seen, as PNG; with `whole` down to the end of the page."""
        answer = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])


class Browser:
    """A running Chromium."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    async def read(self) -> None:
        """Pass the messages of the browser to their pages, until it ends."""
        async for frame in self._socket:
            message = frame.json()
            page = self._pages.get(message.get("sessionId", ""))
            if page is not None:
                page.take(message)
            elif message.get("id") in self._waiting:
                _answer(self._waiting.pop(message["id"]), message["result"])

    async def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        return await asyncio.wait_for(answered, PATIENCE_S)

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """A tab with a context of its own: no cache or storage is shared."""
        context = (await self._call("Target.createBrowserContext"))["browserContextId"]
        target = await self._call(
            "Target.createTarget", url="about:blank", browserContextId=context
        )
        attached = await self._call(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        page = self._pages[attached["sessionId"]] = Page(self._socket, attached["sessionId"])
        for domain in ("Page", "Runtime", "Network", "Log"):
            await page.call(f"{domain}.enable")
        await page.call("Emulation.setTimezoneOverride", timezoneId="UTC")
        yield page
        # Requests that are paused now are not answered any more.
        await page.stop_altering()
        await self._call("Target.disposeBrowserContext", browserContextId=context)


def _answer(waiting: "asyncio.Future[dict[str, Any]]", answer: dict[str, Any]) -> None:
    """Pass an answer on, unless nobody waits for it any more."""
    if not waiting.done():
        waiting.set_result(answer)


@contextmanager
def chromium(folder: Path) -> Iterator[str]:
    """A browser with a profile of its own in this folder, and where it listens; fails where there
    is none."""
    program = shutil.which("chromium")
    assert program, ADVICE
    profile, log = folder / "profile", folder / "chromium.log"
    process = processes.spawn([program, *FLAGS, f"--user-data-dir={profile}"], log=log)
    port_file = profile / "DevToolsActivePort"
    try:
        processes.wait_until(
            lambda: port_file.exists() and len(port_file.read_text().split()) == 2,
            alive=lambda: process.poll() is None,
            log=log.read_text,
            name="chromium",
            patience_s=PATIENCE_S,
        )
        port, path = port_file.read_text().split()
        yield f"ws://127.0.0.1:{port}{path}"
    finally:
        processes.end(process, signal.SIGTERM, patience_s=5)


@asynccontextmanager
async def new_page(address: str) -> AsyncIterator[Page]:
    """A tab of that browser."""
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(address, max_msg_size=0) as socket:
            browser = Browser(socket)
            reading = asyncio.create_task(browser.read())
            async with browser.page() as page:
                yield page
            reading.cancel()
