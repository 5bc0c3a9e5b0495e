"""Scores by judgements on the page: shown as such, with how much is judged, and by what."""

from typing import Final

from relevanced.daemon.exporter import Reading
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import LaneFiles, LaneView
from tests.judged_lanes import NOON, JudgedHour, entry, judged_reading, lane, steady
from tests.lane_views import lane_view, reading_of
from tests.page.browser import Page
from tests.page.served import Daemon, api, text, three_states

OLD: Final = entry(NOON - 40 * 24 * HOUR_MS)
ONE_FILE: Final = LaneFiles(0, (OLD,))
SHOWN: Final = "!document.querySelector('#judged').hidden"
ROWS: Final = (
    "[...document.querySelectorAll('#judged tbody tr')].map(row => row.innerText.split('\\t'))"
)


def fallen(judged: float = 0.9) -> LaneView:
    """Three weeks, of which the last hour is worse."""
    last = {NOON - HOUR_MS: JudgedHour(1200, score=0.6, judged=judged)}
    return lane(steady(24 * 22) | last, ONE_FILE)


async def opened(page: Page, reading: Reading) -> Daemon:
    daemon = Daemon(reading)
    await daemon.start()
    await page.open(daemon.unfolded + "&window=1h&grouping=all&segment=all")
    return daemon


async def test_judged_scores_are_shown_as_such_beside_what_is_usual(page: Page) -> None:
    daemon = await opened(page, judged_reading(fallen()))
    await page.until(f"{SHOWN} && {ROWS}.length === 3")
    assert await text(page, "#judged-title") == "Everything by judgements 1h, without clicks"
    note = await text(page, "#judged-note")
    assert "Graded by a.csv" in note and "No clicks are in these scores" in note
    assert "Judged are 90\u202f% of the first 10 places of the 1,200 searches" in note
    metric, now, usual, _, change, call, judged = (await page.value(ROWS))[1]
    assert (metric, change, call) == ("P@5", "−25\u202f%", "▼ worse")
    assert now.startswith("0.6000") and usual.startswith("0.8000") and judged == "90\u202f%"
    assert "the same file, at the same time in 3 weeks" in await text(page, "#judged-key")
    assert await page.value("document.querySelector('#judged-chart path.line') !== null")
    assert not await page.value("document.querySelector('#judged .few, #judged-note b') !== null")
    await daemon.stop(page)


async def test_the_chart_is_of_the_metric_that_is_selected(page: Page) -> None:
    daemon = await opened(page, judged_reading(fallen()))
    await page.until(f"{SHOWN} && document.querySelector('#judged-chart path.line') !== null")
    assert "nDCG(ideal=pool)@10 by judgements" in await text(page, "#judged-chart h3")
    await page.value("document.querySelector('#judged [data-judged=\"P@5\"]').focus()")
    await page.press("Enter", text="\r")
    await page.until("document.querySelector('#judged-chart h3').innerText.startsWith('P@5 by')")
    found = await api(page, "judged/history?judged_metric=P@5&window=1h")
    last = found["panes"][-1]["mean"]
    label = await page.value(
        "document.querySelector('#judged-chart svg').getAttribute('aria-label')"
    )
    assert f"{last:.4f}" in str(label)
    await daemon.stop(page)


async def test_a_list_of_which_little_is_judged_is_said_to_be_a_lower_bound(page: Page) -> None:
    daemon = await opened(page, judged_reading(fallen(judged=0.43)))
    await page.until(f"{SHOWN} && {ROWS}.length === 3")
    assert "43\u202f% of the first 10 places" in await text(page, "#judged-note b")
    assert "lower bounds" in await text(page, "#judged-note b")
    assert await page.value("document.querySelectorAll('#judged .few').length") == 3
    await daemon.stop(page)


async def test_lanes_that_disagree_are_named_and_nothing_is_compared(page: Page) -> None:
    new = entry(NOON - 20 * HOUR_MS, "b")
    other = lane(steady(30), LaneFiles(0, (OLD,), (new,)), number=1)
    daemon = await opened(page, judged_reading(lane(steady(30), LaneFiles(0, (OLD, new))), other))
    await page.until(f"{SHOWN} && {ROWS}.length === 3")
    note = await text(page, "#judged-note")
    assert "Lanes grade by different files: a.csv, b.csv." in note
    assert "Some lanes refused b.csv" in note
    assert "not known yet" in (await page.value(ROWS))[0]
    await daemon.stop(page)


async def test_before_a_file_is_in_force_there_are_no_numbers(page: Page) -> None:
    daemon = await opened(page, judged_reading(lane(steady(3), LaneFiles(0))))
    await page.until(SHOWN)
    assert (await text(page, "#judged-note")).startswith("No file of judgements is in force")
    assert await page.value("document.querySelector('#judged-parts').hidden")
    await daemon.stop(page)


async def test_where_nothing_is_judged_the_page_asks_for_nothing(page: Page) -> None:
    daemon = await opened(page, reading_of([lane_view(three_states())]))
    await page.until("document.querySelectorAll('#movers tbody tr').length > 0")
    assert await page.value("document.querySelector('#judged').hidden")
    assert not [url for url in page.requests if "api/v1/judged" in url]
    await daemon.stop(page)
