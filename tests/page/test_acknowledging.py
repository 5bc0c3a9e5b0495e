"""A change is acknowledged in the page, and the headline stays as red as it is."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.page.browser import Page
from tests.page.first_screen import DESKTOP, PHONE, first_screen
from tests.page.served import FULL, HOSTILE, text
from tests.services.fixtures import RedisServer
from tests.services.redis_lanes import client_at
from tests.services.test_acknowledgements import Exporter, exporting

TEXT = HOSTILE.replace("\n", " ").replace("\u202e", "")
"""As hostile as a text may be that is accepted."""


@pytest.fixture
async def exporter(page: Page, one_redis: RedisServer) -> AsyncIterator[Exporter]:
    async with client_at(one_redis.url) as client, exporting(client) as made:
        yield made
        await page.call("Page.navigate", url="about:blank")


async def test_it_is_typed_said_and_withdrawn(page: Page, exporter: Exporter) -> None:
    for width, height in (DESKTOP, PHONE):
        await page.open(f"{exporter.url}?{width}", width=width, height=height)
        await page.until(FULL)
        headline = await text(page, "#headline")
        assert "Search in DE got much worse" in headline and await page.value("acknowledged.hidden")
        await page.value("document.querySelector('#act-todo').click()")
        await page.press("Tab")  # from the summary to the link of the runbook
        await page.press("Tab")
        assert await page.value("document.activeElement.id") == "ack-text"
        await page.call("Input.insertText", text=TEXT)
        await page.press("Enter", text="\r")
        await page.until(
            "document.querySelector('#ack-said').value.startsWith('Acknowledged until')"
        )
        assert await page.value("document.querySelector('#ack-text').value") == ""
        await exporter.look()
        await page.until("!acknowledged.hidden")
        assert await text(page, "#acknowledged") == f"Acknowledged until 13:01: {TEXT}."
        assert (await text(page, "#headline"), await page.value("verdict.className")) == (
            headline,
            "worse",
        )
        await page.value("document.querySelector('#fold-todo').open = false")
        await page.value("scrollTo(0, 0)")
        seen = await first_screen(page)
        assert seen.words <= 120 and seen.numbers <= 40 and seen.controls <= 12, seen
        await page.value("document.querySelector('#withdraw').click()")
        await page.until("document.querySelector('#ack-said').value.startsWith('Withdrawn')")
        await exporter.look()
        await page.until("acknowledged.hidden")


async def test_what_is_withdrawn_is_what_is_shown(page: Page, exporter: Exporter) -> None:
    await page.open(exporter.url)
    await page.until(FULL)
    await page.value("document.querySelector('#act-todo').click()")
    await page.value("document.querySelector('#ack-text').focus()")
    await page.call("Input.insertText", text="back to v7")
    await page.press("Enter", text="\r")
    await page.until("document.querySelector('#ack-said').value.startsWith('Acknowledged until')")
    await exporter.look()
    await page.until("!acknowledged.hidden")
    # As if another text had been begun while another change was in the headline.
    await page.value("document.querySelector('#acknowledge').dataset.change = 'c-1-country-FR'")
    await page.value("document.querySelector('#ack-text').value = 'of FR'")
    await page.value("document.querySelector('#withdraw').click()")
    await page.until("document.querySelector('#ack-said').value.startsWith('Withdrawn')")
    assert await page.value("document.querySelector('#ack-text').value") == "of FR"


async def test_a_refusal_is_said_and_what_was_typed_stays(page: Page, exporter: Exporter) -> None:
    await page.open(exporter.url)
    await page.until(FULL)
    await page.value("document.querySelector('#act-todo').click()")
    await page.value("document.querySelector('#ack-text').focus()")
    await page.call("Input.insertText", text="back to v7")
    await page.value("document.querySelector('#acknowledge').dataset.change = 'c-1-country-FR'")
    await page.value("document.querySelector('#acknowledge').requestSubmit()")
    await page.until("document.querySelector('#ack-said').value.includes('no such change is open')")
    assert await page.value("document.querySelector('#ack-text').value") == "back to v7"
    while not page.complaints:
        await asyncio.sleep(0.01)
    page.complaints.clear()  # the browser logs every answer that is an error
