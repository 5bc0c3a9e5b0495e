"""Queries on the page: from the red segment to the query to the searches as they were shown, by
mouse and by keyboard; whatever the texts are."""

from dataclasses import replace
from typing import Any, Final

import pytest

from relevanced.daemon.tools.demonstration import BROKEN_QUERIES
from tests.daemon.http.test_queries import DAY, HOUR_MS, START_MS
from tests.lane_views import with_clicks
from tests.page.browser import Page
from tests.page.queries_site import BROKEN, DEMO_SETTINGS, broken_site, demo_lane, serving, stored
from tests.page.served import HOSTILE, api, text

LIST: Final = "*/api/v1/queries?*"
NAMES: Final = "[...document.querySelectorAll('#queries button.query')].map(one => one.innerText)"
LOST: Final = (
    "[...document.querySelectorAll('#queries tbody tr')]"
    ".filter(row => row.querySelector('.call.worse'))"
    ".map(row => row.querySelector('button').innerText).sort().join()"
)
RED: Final = "[...document.querySelectorAll('#movers tr:has(.call.worse) button')]"
NOTE: Final = "document.querySelector('#query-note').innerText"
LISTED_NOTE: Final = "document.querySelector('#queries-note').innerText"
TABBED: Final = "document.activeElement"
EXAMPLES: Final = (
    "[...document.querySelectorAll('#examples article')].map(one => ({"
    "id: one.querySelector('.id').innerText,"
    "heading: one.querySelector('h4').innerText,"
    "items: [...one.querySelectorAll('li')].map(item => item.querySelector('bdi').innerText),"
    "clicked: [...one.querySelectorAll('li')].map(item => item.className === 'clicked'),"
    "quiet: one.innerText.includes('Nothing was clicked.')}))"
)


async def examples_are_real(page: Page, query: str) -> None:
    """The page shows searches of the query in the hour in which it broke, as they were."""
    shown = await page.value(EXAMPLES)
    searched = {str(e["impression_id"]): e for e in broken_site().searches if e.get("query")}
    clicked = {e["impression_id"] for e in broken_site().searches if e.get("kind") == "click"}
    broke_ms = START_MS + (7 * DAY + 1) * HOUR_MS
    for number, one in enumerate(shown):
        search = searched[one["id"]]
        assert search["query"].lower() == query and one["heading"].endswith("country DE")
        assert one["items"] == ["a", "b"] and not one["clicked"][0], "these scored worst"
        assert one["clicked"][1] == (one["id"] in clicked) != one["quiet"]
        assert number >= 2 or search["timestamp"] >= broke_ms, "those of the hours listed first"


async def address(page: Page) -> dict[str, str]:
    found = await page.value("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
    return {name: str(value) for name, value in found.items()}


async def test_two_clicks_lead_from_the_red_segment_to_the_example(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        await page.open(daemon.unfolded + "&grouping=all&segment=all")
        await page.until(f"{RED}.some(one => one.dataset.segment === 'DE')")
        await page.value(f"{RED}.find(one => one.dataset.segment === 'DE').click()")
        await page.until("document.querySelector('#queries-title').innerText.endsWith('of DE')")
        await page.until(f"{LOST} === '{','.join(['nothing there', *BROKEN])}'")
        first = await page.value(f"{NAMES}[0]")
        assert first in BROKEN
        await page.value("document.querySelector('#queries button.query').click()")
        await page.until("document.querySelectorAll('#examples article').length === 4")
        await examples_are_real(page, first)
        assert await page.value("document.querySelector('#query-chart path.line') !== null")
        assert (await text(page, "#query-title")).startswith(first)
        selected = await address(page)
        assert (selected["segment"], selected["query"]) == ("DE", first)


async def test_keyboard_leads_there_and_back(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        await page.open(daemon.unfolded + "&grouping=all&segment=all")
        await page.until(f"{RED}.some(one => one.dataset.segment === 'DE')")
        await page.value("document.querySelector('#movers-title').focus()")
        await tab_to(page, f"{TABBED}.dataset.segment === 'DE'")
        await page.press("Enter", text="\r")
        await page.until("document.querySelector('#queries-title').innerText.endsWith('of DE')")
        await page.until(f"{NAMES}[0]?.startsWith('query')")
        await tab_to(page, f"{TABBED}.className === 'query'")
        await page.press("Enter", text="\r")
        await page.until("document.querySelectorAll('#examples article').length === 4")
        await examples_are_real(page, (await address(page))["query"])
        assert await page.value(f"{TABBED}.id") == "query-title"
        await page.press("Escape")
        await page.until("document.querySelector('#query').hidden")
        assert await page.value(f"{TABBED}.className") == "query"
        assert "query" not in await address(page)


async def tab_to(page: Page, reached: str) -> None:
    for _ in range(60):
        await page.press("Tab")
        if await page.value(reached):
            return
    raise AssertionError(f"never: {reached}")


async def test_numbers_are_those_of_the_api(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        await page.open(daemon.unfolded + "&metric=P@1&queries=1h&grouping=country&segment=DE")
        await page.until(f"{NAMES}.length > 3")
        found = await api(page, "queries?window=1h&order=lost&metric=P@1&segment=DE&limit=50")
        rows = await page.value(
            "[...document.querySelectorAll('#queries tbody tr')].map(row => row.innerText)"
        )
        for shown, row in zip(rows, found["rows"], strict=False):
            assert shown.startswith(row["query"]) and f"{row['mean']:.4f}" in shown
            assert ("▼" in shown) == (row["lost_at_least"] > 0)
        note = await text(page, "#queries-note")
        assert "From 13:00 to 14:00." in note and "same hours of 7 days before" in note
        assert "% of what was lost" in note
        empty = await text(page, "#empty tbody")
        assert empty.split() == ["nothing", "there", "6", "6"]


async def test_texts_of_too_few_users_are_counted_and_not_shown(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        await page.open(daemon.unfolded + "&queries=1h&grouping=all&segment=all")
        await page.until("document.querySelector('#queries-left').innerText !== ''")
        left = await text(page, "#queries-left")
        assert "Queries of fewer than 3 users, whose texts are not shown: 1 search." in left
        assert "Without a query: 6 searches." in left
        await page.value(
            "(f => { f.elements['find-text'].value = \"one person's own question\";"
            " f.requestSubmit() })(document.querySelector('#find'))"
        )
        await page.until(f"{NOTE}.startsWith('Nothing is')")
        assert "fewer than 3 users" in await text(page, "#query-note")
        assert "own question" not in await text(page, "#queries")


async def test_searches_that_name_no_user_are_said(page: Page) -> None:
    def unnamed(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {"rows": [], "listed": 0, "rare": answer["whole"], "next": None}

    async with serving(stored(), page) as daemon:
        await page.alter(LIST, unnamed)
        await page.open(daemon.unfolded + "&queries=1h&grouping=all&segment=all")
        await page.until("document.querySelector('#queries-left').innerText !== ''")
        left = await text(page, "#queries-left")
        assert "a search that names no user (queries.user) counts no one" in left


async def test_search_box_finds_a_query_however_it_is_spelled(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        await page.open(daemon.unfolded + "&queries=1h&grouping=all&segment=all")
        await page.until(f"{NAMES}.length > 3")
        await page.value("document.querySelector('#find-text').focus()")
        await page.call("Input.insertText", text="  QUERY   3 ")
        await page.press("Enter", text="\r")
        await page.until(f"{NOTE}.startsWith('336 searches')")
        assert (await address(page))["query"] == "QUERY   3"


async def test_window_is_selected_kept_in_the_address_and_restored_by_back(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        await page.open(daemon.unfolded + "&queries=1h&grouping=all&segment=all")
        await page.until(f"{NAMES}.includes('query 1')")
        await page.value("document.querySelector('#queries-window [value=now]').click()")
        await page.until(f"{NAMES}.sort().join() === 'new 0,new 1'")
        assert "as far as it has settled" in await text(page, "#queries-note")
        assert (await address(page))["queries"] == "now"
        await page.value("history.back()")
        await page.until(f"{NAMES}.includes('query 1')")
        await page.value("document.querySelector('#queries-window [value=\"7d\"]').click()")
        await page.until("document.querySelector('#queries-title').innerText.startsWith('Worst')")
        assert "set queries.days to 14 or more" in await text(page, "#queries-note")


async def test_link_of_an_alert_opens_the_hours_since_it_began(page: Page) -> None:
    at_s = 1_795_176_000 + (7 * 24 + 1) * 3600 + 700
    async with serving(stored(), page) as daemon:
        link = f"#metric=RR@10&grouping=country&segment=DE&since={at_s}"
        await page.open(daemon.url + link)
        await page.until(f"{LOST}.includes('query 5')")
        assert "From 13:00 to 14:00." in await text(page, "#queries-note")
        assert not await page.value(
            "[...document.querySelectorAll('#queries-window input')].some(one => one.checked)"
        )
        await page.value("document.querySelector('#queries-window [value=\"24h\"]').click()")
        await page.until("document.querySelector('#queries-note').innerText.includes('to 14:00')")
        assert "since" not in await address(page)


async def test_hostile_texts_are_text(page: Page) -> None:
    piled = "e\u0301\u0300\u0302" * 30
    names = (HOSTILE, "\u202eDE \x1b[2J\x00 x", "w" * 400, piled, "שלום 12 עולם")
    async with serving(stored(names), page) as daemon:
        for width in (390, 1360):
            selected = "#grouping=country&segment=DE&queries=1h"
            await page.open(f"{daemon.url}?{width}{selected}", width=width)
            await page.until(f"{NAMES}.length >= 8")
            shown = await page.value(NAMES)
            assert any(name.startswith("<img src=x onerror=") for name in shown)
            assert any("\\u202ede \\u001b[2j\\u0000 x" in name for name in shown)
            await page.value(
                "[...document.querySelectorAll('#queries button.query')]"
                ".find(one => one.innerText[0] === '<').click()"
            )
            await page.until("document.querySelector('#examples li') !== null")
            shown_items = await text(page, "#examples")
            assert shown_items.count("<img") >= 4 and "\\u202e" in shown_items
            assert await page.value("document.querySelectorAll('img').length") == 0
            assert await page.value("document.title") != "taken"
            assert "\u202e" not in await page.value("document.body.innerText")
            assert await page.value("document.documentElement.scrollWidth") <= width


async def test_queries_that_are_off_say_how_to_switch_them_on(page: Page) -> None:
    async with serving(stored(), page, is_on=False) as daemon:
        await page.open(daemon.unfolded)
        await page.until("document.querySelector('#queries pre') !== null")
        note = await text(page, "#queries-note")
        assert "Queries are not kept" in note and 'text = "plain"' in note
        assert await page.value("document.querySelector('#find').hidden && empty.hidden")
        assert not [url for url in page.requests if "/api/v1/queries" in url]


async def test_segment_without_tables_of_its_own_is_said(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        await page.open(daemon.unfolded + "&queries=1h&grouping=device&segment=(none)")
        await page.until(f"{NAMES}.length > 3")
        assert "queries of everything: they are kept only of everything and by country" in (
            await text(page, "#queries-note")
        )


async def test_what_is_missing_is_said(page: Page) -> None:
    def lossy(answer: dict[str, Any]) -> dict[str, Any]:
        rows = [row | {"missing_at_most": 7} for row in answer["rows"]]
        return answer | {"rows": rows, "lost_hours": 2, "unlisted_at_most": 7}

    async with serving(stored(), page) as daemon:
        await page.alter(LIST, lossy)
        await page.open(daemon.unfolded + "&queries=1h&grouping=country&segment=DE")
        await page.until(f"{NAMES}.length > 3")
        assert "+\u202f7 at most" in await text(page, "#queries tbody")
        left = await text(page, "#queries-left")
        assert "A part of 2 hours is missing: " in left and "at most 7 searches" in left


async def test_what_the_tail_lost_and_what_redis_lost_of_examples_is_said(page: Page) -> None:
    figures = {"stderr": 0.01, "usual_scored": 700, "usual_mean": 0.75, "lost": 135.0}
    figures |= {"lost_stderr": 8.25, "lost_at_least": 113.9, "gained_at_least": -156, "sure": True}

    def lossy(answer: dict[str, Any]) -> dict[str, Any]:
        if "hours" in answer and "rows" not in answer:
            return answer | {"lost_examples": 3}
        sums = {**answer["none"], "impressions": 180, "mean": 0.25}
        return answer | {"other": sums | figures}

    async with serving(stored(), page) as daemon:
        await page.alter("*/api/v1/queries*", lossy)
        await page.open(daemon.unfolded + "&queries=1h&grouping=all&segment=all&query=query 3")
        await page.until("document.querySelector('#queries-left').innerText.includes('Together')")
        left = (await text(page, "#queries-left")).replace("\u202f", " ")
        assert "that the tables do not list: 180 searches" in left
        assert "lost 135 ± 8.3 searches' worth, for sure: 0.2500, usually 0.7500." in left
        await page.until(f"{NOTE}.includes('of 6 hours as they were shown are missing')")


async def test_nothing_usual_yet_lists_the_worst(page: Page) -> None:
    site = broken_site()
    last = max(event["timestamp"] for event in site.searches)
    site.searches = [one for one in site.searches if one["timestamp"] > last - 4 * 3_600_000]
    async with serving(site.store()[0], page) as daemon:
        await page.open(daemon.unfolded + "&queries=1h&grouping=country&segment=DE")
        await page.until("document.querySelector('#queries-title').innerText.startsWith('Worst')")
        names = await page.value(NAMES)
        assert {*names[:3]} <= {*BROKEN, "nothing there"}
        assert "Nothing is usual yet" in await text(page, "#queries-note")


async def test_new_numbers_come_without_reloading(page: Page) -> None:
    seen = []

    def counted(answer: dict[str, Any]) -> dict[str, Any]:
        seen.append(answer["order"])
        rows = [row | {"impressions": 1000 + len(seen)} for row in answer["rows"]]
        return answer | {"rows": rows}

    async with serving(stored(), page) as daemon:
        await page.alter(LIST, counted)
        await page.open(daemon.unfolded + "&queries=now&grouping=all&segment=all")
        await page.until(f"{NAMES}.length === 2")
        requested = len(seen)
        reading = daemon.server.published.reading
        assert reading is not None
        snapshot = replace(reading.snapshot, as_of_ms=(reading.snapshot.as_of_ms or 0) + 60_000)
        daemon.show(with_clicks(reading, snapshot=snapshot))
        await page.until(
            f"document.querySelector('#queries td.count').innerText > '1,00{requested}'"
        )
        assert len(seen) > requested


async def test_failure_to_read_queries_leaves_the_rest_of_the_page(page: Page) -> None:
    async with serving(stored(), page) as daemon:
        store = daemon.server.queries
        daemon.server.queries = None
        await page.open(daemon.unfolded)
        await page.until(f"{LISTED_NOTE}.includes('not be read')")
        assert "no store to read queries from" in await text(page, "#queries-note")
        assert await page.value("document.querySelectorAll('#movers tbody tr').length") > 2
        daemon.server.queries = store
        await page.until(f"{NAMES}.length > 3")
        page.complaints = [one for one in page.complaints if "503" not in one]


@pytest.mark.parametrize(("segment", "least"), [("all&segment=all", 5), ("country&segment=DE", 4)])
async def test_page_names_the_queries_that_the_demo_breaks(
    page: Page, segment: str, least: int
) -> None:
    """In DE most of them, although the ranking of all of its queries broke."""
    async with serving(demo_lane(), page, plan=DEMO_SETTINGS.plan) as daemon:
        await page.open(f"{daemon.unfolded}&grouping={segment}")
        await page.until(f"{NAMES}.length >= {len(BROKEN_QUERIES)}")
        named = await page.value(f"{NAMES}.slice(0, {len(BROKEN_QUERIES)})")
        assert len({*named} & {*BROKEN_QUERIES}) >= least
        note = await text(page, "#queries-note")
        assert "The hour since " in note and "So the worst queries are listed" in note


async def test_no_mark_of_the_demos_data_quality_is_red(page: Page) -> None:
    """Its feedback joins as it does where the attribution window is longer."""
    async with serving(demo_lane(), page, plan=DEMO_SETTINGS.plan) as daemon:
        await page.open(daemon.unfolded)
        await page.until("document.querySelectorAll('#outcomes tbody tr').length > 2")
        red = "document.querySelectorAll('#fold-quality :is(.worse, .ill)')"
        assert await page.value(f"[...{red}].map(one => one.innerText)") == []
        listed = await text(page, "#outcomes")
        assert "feedback unjoined" in listed and "accepted" in listed
