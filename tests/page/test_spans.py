"""What is compared, and how far back: earlier days and weeks, and the hours that are kept."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from relevanced.daemon.events import timestamp_ms, timestamp_text
from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.panes import HOUR_MS
from tests.daemon.exporter.two_countries import MINUTE_MS, NOW_MS, PLAN, Site
from tests.daemon.views.test_coverage import since
from tests.page.browser import Page
from tests.page.served import FULL, HOSTILE, Daemon, api, text

DAY_MS = 24 * HOUR_MS
AS_OF_MS = NOW_MS + 17 * MINUTE_MS
HOURLY = "#hours figure"


def reading(days: float, broken_minutes: float) -> Reading:
    site = Site(AS_OF_MS - round(days * DAY_MS), AS_OF_MS - round(broken_minutes * MINUTE_MS), 0.65)
    publisher = Publisher(PLAN)
    for until_ms in (AS_OF_MS - 2 * MINUTE_MS, AS_OF_MS):
        found = publisher.publish([site.lane(until_ms)], until_ms).reading
    assert found is not None
    return found


@pytest.fixture(scope="module")
def since_yesterday() -> Reading:
    return reading(10, 1500)


@pytest.fixture
async def broken(page: Page, since_yesterday: Reading) -> AsyncIterator[Daemon]:
    made = Daemon(since_yesterday)
    await made.start()
    yield made
    await made.stop(page)


async def choose(page: Page, against: str) -> None:
    await page.value(
        f"(() => {{ const one = document.querySelector('#against'); one.value = '{against}';"
        " one.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )


async def words_of_rows(page: Page) -> dict[str, str]:
    rows = await page.value(
        "[...document.querySelectorAll('#movers tbody tr')].map("
        "row => [row.querySelector('button').innerText, row.querySelector('.call').innerText])"
    )
    return {name: words for name, words in rows}


async def test_a_day_later_the_page_still_says_so_whatever_is_compared(
    page: Page, broken: Daemon
) -> None:
    for against in ("worst", "hour", "day", "weeks"):
        for window in ("5m", "24h"):
            await page.open(f"{broken.unfolded}&against={against}&window={window}")
            await page.until(FULL)
            assert (await text(page, "#headline")).startswith("Search in DE got much worse ")
            rows = await words_of_rows(page)
            assert rows["US"] == "steady" and "worse" not in rows["everything"], (against, rows)
    await page.open(f"{broken.unfolded}&against=weeks&window=1h")
    # The table may still be that of the window before: another hash loads no other page.
    await page.until(
        "[...document.querySelectorAll('#movers tbody tr')].some(row =>"
        " row.querySelector('button').innerText === 'DE'"
        " && row.querySelector('.call').innerText === '▼ worse')"
    )


async def test_weeks_are_chosen_kept_in_the_address_and_say_which(
    page: Page, broken: Daemon
) -> None:
    await page.open(broken.unfolded + "&window=1h&view=live")
    await page.until(FULL)
    await choose(page, "weeks")
    await page.until("document.querySelector('#basis').innerText.includes('the same hours of')")
    assert "against=weeks" in await page.value("location.hash")
    found = await api(page, "changes?window=1h&against=weeks&metric=RR@10")
    assert len(found["periods"]) == 1
    assert "against the same hours of Nov 13." in await text(page, "#basis")
    assert await page.value("document.querySelector('#view').disabled"), "whole hours are settled"
    await page.value("history.back()")
    await page.until("!document.querySelector('#view').disabled")
    assert await page.value("document.querySelector('#view input[value=live]').checked")


async def test_what_is_not_known_yet_is_said_with_when_it_is(page: Page) -> None:
    daemon = Daemon(reading(2, 0))
    await daemon.start()
    await page.open(daemon.unfolded + "&against=weeks")
    await page.until(FULL)
    assert "there is something to compare with by" in await text(page, "#basis")
    assert await page.value("document.querySelectorAll('#movers tbody tr').length") == 0
    await daemon.stop(page)


async def test_hours_reach_beyond_the_onset_unless_a_span_is_chosen(
    page: Page, broken: Daemon
) -> None:
    """It broke 25 hours ago: a day of hours does not contain that."""
    await page.open(broken.unfolded)
    await page.until(f"document.querySelector('{HOURLY} .onset line') !== null")
    checked = "document.querySelector('#span input:checked').value"
    assert await page.value(checked) == "7d"
    await page.value("document.querySelector('#span input[value=\"1d\"]').click()")
    await page.until(f"{checked} === '1d' && !document.querySelector('{HOURLY} .onset line')")
    assert "span=1d" in await page.value("location.hash")
    await page.value("history.back()")
    await page.until(
        f"{checked} === '7d' && document.querySelector('{HOURLY} .onset line') !== null"
    )


async def test_the_hours_are_those_of_the_api(page: Page, broken: Daemon) -> None:
    await page.open(broken.unfolded + "&span=7d&grouping=country&segment=DE&metric=RR@10")
    await page.until(f"document.querySelector('{HOURLY} path.line') !== null")
    found = await api(page, "hours?metric=RR@10&grouping=country&segment=DE")
    last = found["rows"][-1]
    said = await text(page, f"{HOURLY} output")
    assert f"{last['mean']:.4f}" in said and f"{last['scored']:,} scored" in said
    bars = await page.value(f"document.querySelectorAll('{HOURLY} .traffic').length")
    assert bars == 7 * 24 + 1, "the first and the last are parts of an hour"


async def test_a_lost_hour_is_hatched_and_called_lost(page: Page, broken: Daemon) -> None:
    def without(answer: dict[str, Any]) -> dict[str, Any]:
        lost = answer["rows"][-5]["start"]
        kept = [row for row in answer["rows"] if row["start"] != lost]
        return answer | {"rows": kept, "lost": [lost]}

    await page.alter("*/api/v1/hours*", without)
    await page.open(broken.unfolded + "&span=1d")
    await page.until(f"document.querySelector('{HOURLY} .hatch') !== null")
    await page.value(f"document.querySelector('{HOURLY} svg').focus()")
    for _ in range(4):
        await page.press("ArrowLeft")
    assert "lost from the store" in await text(page, f"{HOURLY} output")


async def test_days_below_the_hours_are_local_dates_also_where_clocks_change(
    page: Page, broken: Daemon
) -> None:
    """Berlin, on the Tuesday after its clocks went forward."""
    earlier_ms = 234 * DAY_MS

    def moved(text: str) -> str:
        return timestamp_text(timestamp_ms(text) - earlier_ms)

    def in_spring(answer: dict[str, Any]) -> dict[str, Any]:
        rows = [row | {"start": moved(row["start"])} for row in answer["rows"]]
        ends = {name: moved(answer[name]) for name in ("as_of", "settled_until")}
        return answer | ends | {"rows": rows, "lost": []}

    await page.alter("*/api/v1/hours*", in_spring)
    await page.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    await page.open(broken.unfolded + "&span=7d")
    named = f"[...document.querySelectorAll('{HOURLY} text')].map(one => one.textContent)"
    await page.until(f"{named}.some(one => one.startsWith('Mar '))")
    days = [int(name[4:]) for name in await page.value(named) if name.startswith("Mar ")]
    assert days in ([*range(25, 32)], [*range(25, 32, 2)], [*range(26, 32, 2)]), days


@pytest.mark.parametrize("runbook", ["https://wiki.example.com/runbook", None])
async def test_the_headline_leads_to_the_section_of_the_runbook(
    page: Page, broken: Daemon, runbook: str | None
) -> None:
    await page.alter("*/api/v1/health*", lambda answer: answer | {"runbook": runbook})
    await page.open(broken.unfolded)
    await page.until(FULL)
    assert "RelevancedScoreDropped" in await text(page, "#runbook")
    href = await page.value("document.querySelector('#runbook a')?.href ?? null")
    if runbook is not None:
        assert href == f"{runbook}#relevancedscoredropped"
        return
    await page.value("document.querySelector('#runbook a').click()")
    await page.until("location.pathname === '/runbook/RelevancedScoreDropped'")
    assert (await text(page, "h1")) == "RelevancedScoreDropped"
    await page.until("document.documentElement.dataset.theme === 'auto'")


async def test_outcomes_say_what_they_mean_and_which_are_not_usual(
    page: Page, daemon: Daemon
) -> None:
    def counted(answer: dict[str, Any]) -> dict[str, Any]:
        feedback = {"joined": 949, "unjoined": 50, "late": 1}
        events = answer["events"] | {"feedback": 1000, "feedback_outcomes": feedback}
        return answer | {"events": events}

    await page.alter("*/api/v1/health*", counted)
    await page.open(daemon.unfolded)
    await page.until("document.querySelector('#outcomes tbody td.worse') !== null")
    rows = await page.value(
        "[...document.querySelectorAll('#outcomes tbody tr')].map("
        "row => [row.cells[0].innerText, row.cells[2].className, row.cells[3].innerText])"
    )
    of = {name: (kind, words) for name, kind, words in rows}
    assert of["feedback joined"] == ("number quiet", "counted")
    assert of["feedback late"][0] == "number quiet"
    kind, words = of["feedback unjoined"]
    assert kind == "number worse" and words.startswith("no open list has its id")
    assert words.endswith("more than 2.0\u202f% is not usual")
    assert "commits" in await text(page, "#operators")
    assert "commits" not in await text(page, "#tiles")


async def test_releases_are_marked_in_the_charts_that_contain_them(
    page: Page, broken: Daemon
) -> None:
    """Ten hours ago: within a day of hours, and not within the last minutes."""
    at = timestamp_text(AS_OF_MS - 10 * HOUR_MS)
    scope = {"metric": None, "grouping": None, "segment": None}
    release = {"id": "r8", "at": at, "until": None, "kind": "release", "text": HOSTILE}
    await page.alter("*/api/v1/markers*", lambda _: {"markers": [release | {"scope": scope}]})
    await page.open(broken.unfolded + "&span=1d")
    await page.until(f"document.querySelector('{HOURLY} .marker line') !== null")
    title = await page.value(f"document.querySelector('{HOURLY} .marker title').textContent")
    assert title.startswith("release: <img src=x") and "\\u202e" in title
    assert await page.value("document.title") != "taken"
    first = "document.querySelector('#charts figure:first-child .marker') === null"
    assert await page.value(first), "the shortest window does not reach so far"
    assert "releases and plans" in await text(page, "#lines-key")


@pytest.mark.parametrize("recording", ["a.jsonl ends at 2026-11-20T12:00:00Z", None])
async def test_a_short_recording_begins_with_the_live_view(
    page: Page, daemon: Daemon, recording: str | None
) -> None:
    """Nothing of it will ever settle."""
    await page.alter("*/api/v1/health*", lambda answer: answer | {"recording": recording})
    await page.open(daemon.unfolded)
    await page.until(FULL)
    checked = "document.querySelector('#view input:checked').value"
    assert await page.value(checked) == ("live" if recording else "settled")
    if recording is None:
        return
    assert recording in await text(page, "#fresh")
    assert await text(page, "#link") == "recorded"
    await page.value("document.querySelector('#view input[value=settled]').click()")
    await page.until(f"location.hash.includes('view=settled') && {checked} === 'settled'")


async def test_a_metric_that_counts_for_a_while_only_says_since_when(page: Page) -> None:
    """In the table of metrics and beside each segment; those that always counted have means."""
    site, begins_ms = Site(AS_OF_MS - DAY_MS, AS_OF_MS, 0.0), AS_OF_MS - 20 * MINUTE_MS
    columns = {**dict.fromkeys(PLAN.column_ids), PLAN.column_ids[0]: begins_ms}
    lane = since(site.lane(AS_OF_MS), PLAN, columns=columns)
    reading = Publisher(PLAN).publish([lane], AS_OF_MS).reading
    assert reading is not None
    daemon = Daemon(reading)
    await daemon.start()
    await page.open(f"{daemon.unfolded}&metric=Success@10&window=1h")
    await page.until(FULL)
    begun = "document.querySelector('#movers td.undefined')?.innerText.startsWith('Nov 20, ')"
    await page.until(begun.replace("startsWith", "replace('from ', '').startsWith"))
    shown = await page.value("document.querySelector('#movers td.undefined').innerText")
    minutes = timestamp_text(begins_ms)[14:16]
    assert shown.startswith("from ") and shown.endswith(f":{minutes}")
    answer = await api(page, "changes?window=1h&view=settled")
    (row,) = (r for r in answer["changes"] if is_it(r))
    assert row["counts_from"] == timestamp_text(begins_ms) and row["now"]["mean"] is None
    assert (row["now"]["scored"], row["verdict"]) == (None, "undefined"), "which is not 0"
    others = await page.value("[...document.querySelectorAll('#metrics tr')].map(r => r.innerText)")
    assert any("RR@10" in line and "from " not in line for line in others)
    await daemon.stop(page)


def is_it(row: dict[str, Any]) -> bool:
    return (row["metric"], row["grouping"]) == ("Success@10", "all")


async def test_an_hour_of_few_searches_says_little_of_what_is_usual(
    page: Page, broken: Daemon
) -> None:
    await page.open(broken.url)
    await page.until(FULL)
    width = """(async (scored) => {
      const { usualOf } = await import(new URL('page/steps.js', location.href));
      const hour = (start, of) =>
        ({ start, end: start + 3600000, mean: 0.5, stderr: 0.5 / Math.sqrt(of), scored: of });
      const now = Date.UTC(2026, 10, 20, 12);
      const text = (time) => new Date(time).toISOString();
      const panes = [hour(now - 24 * 3600000, scored), hour(now - 3600000, 4000)].map(
        (one) => ({ ...one, start: text(one.start), end: text(one.end) }));
      const [[low, high]] = usualOf([hour(now, 4000)], { panes }, null, null);
      return high - low;
    })"""
    of_few, of_many = await page.value(f"{width}(25)"), await page.value(f"{width}(4000)")
    assert of_few > 6 * of_many
