"""Judged falls on the page: a line among the changes, which leads to the judged chart."""

from typing import Any, Final

import pytest

from relevanced.daemon.exporter import Publisher
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.views import LaneFiles
from tests.daemon.exporter.judged_site import MINUTE_MS, ONE_FILE, PLAN, JudgedSite, reading
from tests.judged_lanes import NOON, entry
from tests.page.browser import Page
from tests.page.served import ROW, Daemon, text

BROKEN: Final = NOON - 40 * MINUTE_MS
NEW: Final = entry(NOON + 26 * HOUR_MS, "b")
FILES: Final = LaneFiles(0, (*ONE_FILE.entries, NEW))
FELL: Final = "Judged nDCG(ideal=pool)@10 of country DE fell from 0."
LINES: Final = (
    "[...document.querySelectorAll('#open li')].map(one => [one.className,"
    " ...[...one.querySelectorAll('button, p')].map(part => part.innerText)])"
)
WIDE: Final = "document.querySelector('#wide svg')"
CHARTED: Final = "nDCG(ideal=pool)@10 by judgements"
CLICKED: Final = "P@1 of country DE fell from 0.79 to 0.59 at 11:20, not recovered."


class Days:
    """A site whose judged scores of DE fell, and what is said of it as time goes by."""

    def __init__(self, site: JudgedSite) -> None:
        self.site, self.publisher = site, Publisher(PLAN)

    async def show(self, page: Page, daemon: Daemon, until_ms: int) -> list[list[str]]:
        """The lines of the list when judged rows are final until then."""
        found = reading(self.site, until_ms, self.publisher, FILES)
        daemon.show(found)
        daemon.now_s = until_ms / 1000 + PLAN.timing.lateness_ms / 1000
        await page.open("about:blank")  # the same address alone would not be loaded anew
        await page.open(daemon.unfolded + "&window=1h")
        await page.until("document.querySelectorAll('#open li').length > 0")
        lines: list[list[str]] = await page.value(LINES)
        return lines


@pytest.fixture(scope="module")
def site() -> JudgedSite:
    return JudgedSite(
        lambda at_ms, country: 0.6 if country == "DE" and at_ms >= BROKEN else 0.8,
        NOON - 20 * HOUR_MS,
        NOON + 27 * HOUR_MS,
        judged=0.43,
        per_hour=6000,
    )


@pytest.fixture
def days(site: JudgedSite) -> Days:
    return Days(site)


async def test_a_judged_fall_is_told_at_once_an_hour_later_a_day_later_and_until_its_file_ends(
    page: Page, days: Days
) -> None:
    daemon = Daemon()
    await daemon.start()
    for later_ms, when in (
        (15 * MINUTE_MS, "at 11:20, not recovered."),
        (HOUR_MS, "at 11:20, not recovered."),
        (24 * HOUR_MS, "at Nov 20, 11:20, not recovered."),
    ):
        ((state, said, since, graded, also),) = await days.show(page, daemon, BROKEN + later_ms)
        assert state == "open" and said.startswith(FELL) and said.endswith(when)
        assert since.startswith("Since ") and "Carries nearly all of the fall of the" in since
        assert graded.startswith("Graded by a.csv. No clicks are in it. Only 43 % of the first")
        assert also.startswith("Also worse: P@5 ")
        day = "Nov 20, " if later_ms > HOUR_MS else ""
        assert await text(page, "#headline") == f"Search in DE got worse at {day}11:20"
        assert "By judgements: nDCG(ideal=pool)@10 is 0.5" in await text(page, "#second")
        assert "RelevancedJudgedScoreDropped" in await text(page, "#runbook")
        await page.until(f"{WIDE}?.ariaLabel.startsWith('nDCG(ideal=pool)@10 by judgements of DE')")
        assert "Open change since" in await page.value(f"{WIDE}.ariaLabel")
        assert await page.value(f"{WIDE}.querySelector('.onset') !== null")
        bands = "[...document.querySelectorAll('#wide .usual')].map(one => one.getBBox())"
        line = await page.value("document.querySelector('#wide path.line').getBBox().height")
        assert line > 40, "the fall is seen"
        assert await page.value(f"{bands}.length") > 0
        assert await page.value("metric.selectedOptions[0].textContent") == CHARTED
        rows = await page.value(ROW)
        assert [row.split()[0] for row in rows] == ["DE", "everything", "US"]
        assert "▼ worse" in rows[0] and "shares traffic" in rows[1] and "steady" in rows[2]
    ((state, said, *more),) = await days.show(page, daemon, NEW.start_ms + 10 * MINUTE_MS)
    assert state == "superseded" and not more
    assert "; ended at 14:00: other judgements (b.csv) are in force since, so whether" in said
    await daemon.stop(page)


async def test_up_to_when_clicks_show_nothing_of_a_judged_fall_is_said(
    page: Page, days: Days
) -> None:
    daemon = Daemon()
    await daemon.start()
    settled = {"settled_until": "2026-11-20T11:05:00Z"}
    await page.alter("*/api/v1/changes*", lambda answer: answer | settled)
    await days.show(page, daemon, NOON)
    said = await text(page, "#cause")
    assert said.endswith("searches. Clicks show no such fall so far; they are known up to 11:05.")
    await daemon.stop(page)


async def test_a_judged_fall_leads_to_its_chart_where_its_onset_is_marked(
    page: Page, days: Days
) -> None:
    daemon = Daemon()
    await daemon.start()
    await days.show(page, daemon, NOON)
    await page.value(
        "location.hash = 'open=judgements,changes&window=1h&grouping=country&segment=US'"
    )
    await page.until("document.querySelector('#judged-title').innerText.startsWith('US by')")
    assert await page.value("document.querySelector('#judged-chart .onset') === null")
    await page.value("document.querySelector('#open button').focus()")
    await page.press("Enter", text="\r")
    await page.until("document.querySelector('#judged-chart .onset') !== null")
    assert (await text(page, "#judged-title")).startswith("DE by judgements")
    await page.until("document.activeElement.id === 'judged-title'")
    assert (await text(page, "#judged-chart h3")).startswith("nDCG(ideal=pool)@10 by judgements")
    assert (await text(page, "#judged-key")).startswith("What fell at 11:20 is shown since then")
    label = "document.querySelector('#judged-chart svg').ariaLabel"
    assert "Open change since 11:20" in await page.value(label)
    await daemon.stop(page)


async def test_a_fault_that_clicks_show_too_is_one_entry_with_both_lines(
    page: Page, days: Days
) -> None:
    def joined(answer: dict[str, Any]) -> dict[str, Any]:
        (judged,) = answer["open"]
        clicked = judged | {"metric": "P@1", "judged": False, "graded": None}
        clicked |= {"beside": judged, "also": [], "called_by": ["hour"]}
        return answer | {"open": [clicked], "settled_until": "2026-11-20T11:30:00Z"}

    daemon = Daemon()
    await daemon.start()
    await page.alter("*/api/v1/changes*", joined)
    ((state, clicked, judged, _, doubts),) = await days.show(page, daemon, NOON)
    assert state == "open" and clicked == CLICKED and judged.startswith(FELL)
    assert doubts.startswith("Only 43 % of the first places are judged")
    assert "RelevancedScoreDropped" in await text(page, "#runbook")
    assert "Clicks show no such fall" not in await text(page, "#cause")
    await page.value("document.querySelectorAll('#open button')[1].click()")
    await page.until("document.querySelector('#judged-chart .onset') !== null")
    await page.until("document.activeElement.id === 'judged-title'")
    await daemon.stop(page)
