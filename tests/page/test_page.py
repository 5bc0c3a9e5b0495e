"""The web page, in a real browser: it shows what the API returns, whatever that contains."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from rich.progress import Progress

from relevanced.daemon.commands.demo.run import SETTINGS
from relevanced.daemon.commands.replay import read_lane, view_of
from relevanced.daemon.commands.simulate.traffic import Regression, Traffic, generate_events
from relevanced.daemon.config import loading as config
from relevanced.daemon.exporter import catching_up
from relevanced.daemon.exporter.pane_reader import Reading
from relevanced.daemon.exporter.published import Condition
from relevanced.daemon.exporter.publisher import Publisher
from relevanced.daemon.http.api.routes import ROUTES
from relevanced.daemon.http.server import HttpServer
from relevanced.daemon.telemetry.process import Telemetry
from tests.arms import arm, dealt_arms, found_of, partly_defined, with_interleaved
from tests.lane_views import NOW_MS, PLAN, Shown, lane_view, published_of, reading_of
from tests.page.browser import Page, chromium, new_page

HOSTILE: Final = "<img src=x onerror=\"document.title='taken'\">'\"&amp;\n\u202e</script>"
SETTINGS_OF_THE_DEMO: Final = config.load(SETTINGS, {}, "demo")
STORY_MINUTES: Final = 75
BROKEN_FOR_MINUTES: Final = 10
FULL: Final = "document.querySelectorAll('.chart path.line, .chart .hatch, .chart .gap').length > 0"
ROW: Final = "[...document.querySelectorAll('#movers tbody tr')].map(row => row.innerText)"


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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
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


def three_states() -> list[Shown]:
    """US has P@1 = 0 and an undefined nDCG@10; DE no traffic in the last minute."""
    shown = [
        Shown(values=(0.0, 0.5, None), time_ms=NOW_MS - number * 500) for number in range(1, 120)
    ]
    return [*shown, *(Shown(country="DE", time_ms=NOW_MS - 300_000 - n) for n in range(40))]


@pytest.fixture(scope="module")
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


async def api(page: Page, path: str) -> Any:
    """The answer of the API, requested by the page itself."""
    return await page.value(f"fetch({json.dumps('api/v1/' + path)}).then(a => a.json())")


async def text(page: Page, selector: str) -> str:
    return str(await page.value(f"document.querySelector({json.dumps(selector)}).innerText"))


async def test_the_page_shows_the_regression_of_the_demo(page: Page, story: Reading) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.url)
    await page.until(FULL)
    headline = await text(page, "#headline")
    assert headline.startswith("RR@10 of country DE fell from 0.") and " at 11:" in headline
    assert "It carries " in await text(page, "#second")
    assert await page.value("document.querySelectorAll('#open li.open').length") == 1
    assert (await text(page, "#metrics-title")).startswith("Every metric of DE")
    rows = await page.value(ROW)
    assert "everything" in rows[0] and "▼ worse" in rows[0]
    assert "DE" in rows[1] and "▼ worse" in rows[1]
    assert {"control", "treatment"} <= set((await text(page, "#experiments thead")).split())
    await daemon.stop(page)


async def test_an_open_change_leads_to_its_chart_where_its_onset_is_marked(
    page: Page, story: Reading
) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.url + "#metric=P@5&grouping=country&segment=FR")
    await page.until(FULL)
    assert await page.value("document.querySelector('.chart .onset') === null")
    await page.value("document.querySelector('#open button').click()")
    await page.until("document.querySelector('.chart .onset') !== null")
    assert (await text(page, "#lines-title")).startswith("RR@10 of DE")
    label = await page.value("document.querySelector('.chart').ariaLabel")
    assert "The open change began at 11:" in label
    await page.value("history.back()")
    await page.until("document.querySelector('#lines-title').innerText.startsWith('P@5 of FR')")
    await daemon.stop(page)


async def test_what_still_gathers_is_dashed_and_no_value_of_it_is_printed(
    page: Page, story: Reading
) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.url + "#window=5m&view=live")
    await page.until(FULL)
    assert await page.value("document.querySelectorAll('.chart .gathering').length") > 0
    settled = (await api(page, "changes?window=5m"))["settled_until"]
    shown = await page.value("new Date(" + json.dumps(settled) + ").toTimeString().slice(0, 5)")
    assert (await text(page, "#charts output")).endswith(f" at {shown}")
    await daemon.stop(page)


async def test_what_is_only_diluted_is_not_red(page: Page, story: Reading) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.url)
    await page.until(FULL)
    changes = (await api(page, "changes?window=5m&metric=RR@10"))["changes"]
    diluted = {one["segment"] for one in changes if one["verdict"] == "diluted"}
    assert {"ios", "web"} <= diluted
    red = await page.value(
        "[...document.querySelectorAll('#movers td.call.worse')].map("
        "cell => cell.parentElement.querySelector('button').innerText)"
    )
    assert set(red) == {"everything", "DE"}
    await daemon.stop(page)


async def test_before_anything_has_settled_nothing_is_claimed(page: Page) -> None:
    daemon = Daemon(reading_of([lane_view(three_states())]))
    await daemon.start()
    await page.open(daemon.url)
    await page.until(FULL)
    assert "Nothing has settled yet" in await text(page, "#headline")
    assert await page.value("document.querySelector('#open').hidden")
    await daemon.stop(page)


async def test_numbers_are_those_of_the_api(page: Page, story: Reading) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.url + "#metric=P@5&window=1h&view=live&grouping=country&segment=FR")
    await page.until(FULL)
    query = "metric=P@5&window=1h&view=live&grouping=country"
    shown = await page.value(ROW)
    changes = {one["segment"]: one for one in (await api(page, f"changes?{query}"))["changes"]}
    for score in (await api(page, f"scores?{query}"))["scores"]:
        now = changes[score["segment"]]["now"]
        assert score["segment"] == "DE" or now["mean"] == score["mean"], "DE is an open change"
        (row,) = (row for row in shown if row.startswith(score["segment"] + " country"))
        assert f"{now['mean']:.4f}" in row and f"{now['impressions']:,}" in row
    settled = query.replace("view=live", "view=settled")
    (own,) = (await api(page, f"scores?{settled}&segment=FR"))["scores"]
    last = await text(page, "#charts figure:nth-child(3) output")
    assert last.startswith(f"{own['mean']:.4f}") and f"{own['stderr']:.4f}" in last
    health = await api(page, "health")
    assert f"{health['events']['impressions']:,}" in await text(page, "#tiles")
    await daemon.stop(page)


async def test_no_traffic_undefined_and_0_look_different(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.url + "#metric=P@1&window=1m&view=live")
    await page.until(FULL)
    rows = {row.split()[0]: row for row in await page.value(ROW)}
    assert "0.0000" in rows["US"]
    assert "no traffic" in rows["DE"] and "0.0000" not in rows["DE"]
    await page.value("location.hash = 'metric=nDCG@10&window=1m&view=live'")
    await page.until("document.querySelector('#movers td.undefined')?.innerText === 'undefined'")
    await page.until("document.querySelector('.chart .gap') !== null")
    await page.value("location.hash = 'metric=P@1&window=1m&view=live&grouping=country&segment=DE'")
    await page.until("document.querySelector('.chart .hatch') !== null")


async def test_a_hostile_name_is_text(page: Page) -> None:
    daemon = Daemon(reading_of([lane_view([Shown(country=HOSTILE), Shown(country="US")])]))
    await daemon.start()
    await page.open(daemon.url)
    await page.until("document.querySelector('#movers button')?.innerText")
    names = await page.value(
        "[...document.querySelectorAll('#movers button')].map(b => b.innerText)"
    )
    shown = next(name for name in names if name.startswith("<img"))
    assert shown.startswith("<img src=x onerror=") and "\\u000a\\u202e</script>" in shown
    await page.value(
        "[...document.querySelectorAll('#movers button')].find(b => b.innerText[0] === '<').click()"
    )
    await page.until("document.querySelector('#metrics-title').innerText.includes('<img')")
    await page.until(FULL)
    assert await page.value("document.querySelectorAll('img').length") == 0
    assert await page.value("document.title") != "taken"
    await daemon.stop(page)


async def test_variants_carry_the_verdicts_of_experiments(page: Page, story: Reading) -> None:
    both = {"treatment": arm((0.7, 0.4, 0.3), 2, range(270, 570))}  # some users are in two arms
    found = found_of(dealt_arms() | both)
    [experiment] = found.experiments
    [finding] = [
        metric
        for variant in experiment.variants
        for metric in variant.metrics
        if metric.metric == "RR@10" and metric.verdict == "better"
    ]
    assert finding.relative_difference is not None and experiment.warnings
    daemon = Daemon(replace(story, experiments=found))
    await daemon.start()
    await page.open(daemon.url)
    cell = "document.querySelector('#experiments td.better')"
    assert await page.until(f"{cell}.innerText") == f"+{finding.relative_difference:.0%}".replace(
        "%", "\u202f%"
    )
    assert await page.value(f"{cell}.title") == finding.words
    row = await page.value(f"{cell}.closest('tr').innerText")
    assert finding.control_mean is not None and finding.mean is not None
    assert f"{finding.control_mean:.4f}" in row and f"{finding.mean:.4f}" in row
    shown_text = await text(page, "#experiments")
    assert (
        experiment.warnings[0] in shown_text
        and f"all {experiment.impressions:,} settled impressions" in shown_text
    )
    await daemon.stop(page)


async def test_what_is_rare_or_undefined_or_interleaved_is_said(page: Page, story: Reading) -> None:
    found = found_of(with_interleaved(partly_defined(0.6, 0.75)))
    rare = found_of(
        {
            "control": arm((0.001, 0.4, 0.3), 1, range(300)),
            "treatment": arm((0.002, 0.4, 0.3), 2, range(300, 600)),
        }
    )
    daemon = Daemon(replace(story, experiments=found))
    await daemon.start()
    await page.open(daemon.url)
    await page.until("!!document.querySelector('#experiments p.quiet')")
    shown = await text(page, "#experiments")
    assert "nDCG@10 over defined lists alone: " in shown
    assert "no verdict: the shares differ" in shown and "counts as its worst value" in shown
    assert "Interleaved lists: won 640, tied 1,728, lost 192; preference 0.0875" in shown
    daemon.show(replace(story, experiments=rare))
    cell = "document.querySelector('#experiments td[title*=\"too near 0\"]')"
    assert str(await page.until(f"{cell}.innerText")).lstrip("+-").startswith("0.0")
    await daemon.stop(page)


async def test_the_page_outlives_its_daemon(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.url + "#window=1m&view=live")
    await page.until(FULL)
    assert not await page.value("document.body.classList.contains('away')")
    await daemon.server.stop()
    shown_text = str(await page.until("!lost.hidden && document.querySelector('#lost').innerText"))
    assert "No answer from the daemon since " in shown_text and "no connection" in shown_text
    assert await page.value("document.querySelectorAll('#movers tbody tr').length") > 1
    lost, page.complaints = page.complaints, []
    assert lost and all("ERR_CONNECTION_REFUSED" in one for one in lost)
    more = [*three_states(), *(Shown(country="JP") for _ in range(50))]
    daemon.show(reading_of([lane_view(more)], replace(PLAN, max_segments=9)))
    await daemon.start()
    await page.until("document.querySelector('#lost').hidden && !document.body.className")
    await page.until(f"{ROW}.some(row => row.startsWith('JP'))")
    page.complaints = [one for one in page.complaints if "ERR_CONNECTION_REFUSED" not in one]


async def test_new_numbers_come_without_reloading(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.url + "#window=1m&view=live")
    await page.until(f"{ROW}.some(row => row.startsWith('US'))")
    await page.value("window.stays = true")
    wrong = Condition("lanes", False, "lane 3 has not moved for 20 s")
    daemon.show(reading_of([lane_view([*three_states(), *[Shown()] * 1000])]), wrong)
    await page.until(f"{ROW}.some(row => / 1,1\\d\\d/.test(row.replace(/\\s/g, ' ')))")
    assert "lanes: lane 3 has not moved for 20 s" in await text(page, "#conditions")
    assert await text(page, "#link") == "not ready"
    daemon.show(reading_of([lane_view(three_states())]))
    daemon.now_s += 600
    await page.until("document.querySelector('#link').innerText === '10 min late'")
    assert await page.value("window.stays")


async def test_everything_is_reached_by_keyboard(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.url)
    await page.until(FULL)
    reached = []
    for _ in range(40):
        await page.press("Tab")
        reached.append(
            await page.value(
                "(a => { const s = getComputedStyle(a), n = a.nextElementSibling; "
                "const t = s.outlineStyle !== 'none' ? s : n && getComputedStyle(n); "
                "return [a.tagName.toLowerCase(), a.id || a.name || a.dataset.segment || '', "
                "t ? t.outlineStyle : 'none'] })(document.activeElement)"
            )
        )
        if reached[-1][0] == "body":  # around, past the last one
            del reached[-1]
            break
    assert {"theme", "metric", "window", "view", "US", "DE"} <= {name for _, name, _ in reached}
    assert [kind for kind, *_ in reached].count("svg") == len(PLAN.timing.windows)
    assert not [one for one in reached if one[2] != "solid"]


async def test_a_segment_is_selected_and_a_chart_read_by_keyboard(
    page: Page, daemon: Daemon
) -> None:
    await page.open(daemon.url)
    await page.until(FULL)
    await page.value("document.querySelector('[data-segment=DE]').focus()")
    await page.press("Enter", text="\r")
    await page.until("document.querySelector('#lines-title').innerText.includes('of DE')")
    assert "segment=DE" in await page.value("location.hash")
    assert await page.value("document.activeElement.dataset.segment") == "DE"
    await page.value("document.querySelector('.chart').focus()")
    before = await text(page, "#charts output")
    await page.press("ArrowLeft")
    await page.until("document.querySelector('.chart .pointer') !== null")
    assert " at " in before and " at " not in await text(page, "#charts output")
    await page.press("Escape")
    assert await text(page, "#charts output") == before


async def test_tables_have_headings_and_charts_have_words(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.url)
    await page.until(FULL)
    assert await page.value("[...document.querySelectorAll('th')].every(th => th.scope)")
    unnamed = "[...document.querySelectorAll('svg[role=img]')].filter(s => !s.ariaLabel).length"
    assert await page.value(unnamed) == 0
    assert await page.value("document.querySelectorAll('h1').length") == 1


@pytest.mark.parametrize("width", [390, 1600])
async def test_light_dark_and_the_users_choice(page: Page, daemon: Daemon, width: int) -> None:
    seen = {}
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    for scheme in ("light", "dark"):
        await page.prefer(scheme)
        await page.open(daemon.url, width=width)
        await page.until(FULL)
        seen[scheme] = await page.value(colour)
        assert await page.value("document.documentElement.scrollWidth") <= width
    assert len(set(seen.values())) == 2
    await page.value("document.querySelector('#theme').click()")
    assert (await text(page, "#theme"), await page.value(colour)) == ("Theme: light", seen["light"])
    await page.open(daemon.url, width=width)
    await page.until(FULL)
    assert await page.value(colour) == seen["light"]


async def test_without_scores_the_page_says_why(page: Page) -> None:
    daemon = Daemon()
    await daemon.start()
    daemon.server.published = replace(
        daemon.server.published, conditions=(Condition("snapshot", False, "Redis: away"),)
    )
    await page.open(daemon.url)
    await page.until("document.querySelector('#headline').innerText === 'No scores yet'")
    assert "Redis: away" in await text(page, "#basis")
    daemon.show(reading_of([]))
    await page.until("document.querySelector('#fresh').innerText === 'no events yet'")
    await daemon.stop(page)


async def test_numbers_that_are_not_of_now_are_called_old_with_the_reason(
    page: Page, daemon: Daemon
) -> None:
    """As while no worker runs, and while a fresh namespace catches up."""
    await page.open(daemon.url)
    await page.until("document.querySelector('#stale').hidden")
    reading = reading_of([lane_view(three_states())])
    daemon.show(reading, Condition("lanes", True, "lane 3 has not moved for 5 h"))
    daemon.now_s += 5 * 3600
    await page.until(
        "document.querySelector('#stale').innerText.startsWith('These numbers are old')"
    )
    said = await text(page, "#stale")
    assert "5 h ago. lane 3 has not moved for 5 h" in said
    assert "lanes: lane 3 has not moved for 5 h" in await text(page, "#conditions")
    daemon.server.published = replace(
        daemon.server.published, catching_up=catching_up.Progress(97_000_000, 240_000)
    )
    await page.until("document.querySelector('#stale').innerText.startsWith('Catching up')")
    assert "27 h behind, done in about 4 min" in await text(page, "#stale")
