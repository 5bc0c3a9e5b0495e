"""What the page says of changes: headline, list, and marks in charts and tables."""

import json

from relevanced.daemon.exporter.pane_reader import Reading
from tests.lane_views import lane_view, reading_of
from tests.page.browser import Page
from tests.page.served import FULL, Daemon, api, text, three_states


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
