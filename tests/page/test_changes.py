"""What the page says of changes: headline, list, and marks in charts and tables."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

import pytest

from relevanced.daemon.exporter import Reading
from tests.lane_views import NOW_MS, lane_view, reading_of
from tests.page.browser import Page
from tests.page.first_screen import DESKTOP, PHONE, first_screen
from tests.page.served import FULL, HOSTILE, ROW, Daemon, api, text, three_states

CHANGES: Final = "*/api/v1/changes*"
TEXT: Final = "RR@10 of country DE fell from 0.55 to 0.19 at 11:34, not recovered."
ONSET: Final = {
    "at": "2026-11-20T11:34:00Z",
    "earliest": "2026-11-20T11:32:00Z",
    "latest": "2026-11-20T11:36:00Z",
    "from": "panes",
}
PARTS: Final = {
    "state": "open",
    "metric": "RR@10",
    "grouping": "country",
    "segments": ["DE"],
    "before": 0.5518,
    "now": 0.1903,
    "size": "much",
    "onset": ONSET,
    "better": None,
    "ended": None,
    "final": None,
    "traffic_share": 0.28,
    "pattern": {"name": "RANKING", "words": "clicks stand lower", "look_at": "ranker release"},
    "marker": {"text": "ranker v8", "before_seconds": 120},
    "noticed": [],
    "watching_since": None,
}
HEADLINE: Final = {
    "tone": "worse",
    "text": TEXT,
    "detail": "",
    "change": "c-1-country-DE",
    "parts": PARTS,
}
SAID_OF_DE: Final = "Search in DE got much worse at 11:34"
QUIET: Final = PARTS | {
    "state": "good",
    "metric": None,
    "grouping": "all",
    "segments": ["all"],
    "onset": None,
    "pattern": None,
    "marker": None,
    "noticed": [
        {
            "metric": "RR@10",
            "drop": 0.051,
            "began_before": "2026-11-19T11:29:00Z",
            "lane": "weeks",
        },
        {
            "metric": "RR@10",
            "drop": 0.13,
            "began_before": "2026-11-20T08:29:00Z",
            "lane": "hour",
        },
    ],
}
GOOD: Final = {"tone": "good", "text": "", "detail": "", "change": None, "parts": QUIET}
FAR: Final = {
    "metric": "zero_results_share",
    "grouping": "all",
    "segment": "all",
    "before": 0.01,
    "now": 0.4,
    "z": 20.0,
    "text": "Of all searches 40 % returned no results in the last settled hour; 1 % is usual.",
}
AS_GOOD: Final = "Up to 11:58 search was as good as in the last weeks"
OPEN: Final = {
    "id": "c-1-country-DE",
    "state": "open",
    "metric": "RR@10",
    "grouping": "country",
    "segment": "DE",
    "direction": "worse",
    "onset": ONSET,
    "level_before": {"mean": 0.5518, "stderr": 0.0024, "scored": 19800, "basis": "hour"},
    "level_now": {"mean": 0.1903, "stderr": 0.0018, "scored": 24310},
    "change_ratio": -0.655,
    "z": -118.2,
    "called_by": ["hour"],
    "called_at": "2026-11-20T11:37:10Z",
    "recovered": None,
    "explained_by": {
        "grouping": "country",
        "segments": ["DE"],
        "carried": 0.93,
        "words": "nearly all",
        "within": -0.1038,
        "mix": 0.0003,
        "whole": -0.1116,
    },
    "pattern": {"name": "RANKING", "words": "clicks stand lower", "look_at": "ranker release"},
    "also": [{"metric": "P@1", "grouping": "country", "segment": "DE", "change_ratio": -0.49}],
    "diluted": [{"grouping": "device", "segment": "ios", "change_ratio": -0.16}],
    "text": TEXT,
}
RISE: Final = OPEN | {
    "id": "c-2-all-all",
    "grouping": "all",
    "segment": "all",
    "direction": "better",
    "onset": {"at": None, "earliest": None, "latest": "2026-11-20T09:00:00Z", "from": "unknown"},
    "level_before": {"mean": None, "stderr": None, "scored": 0, "basis": "weeks"},
    "change_ratio": None,
    "explained_by": None,
    "pattern": None,
    "also": [],
    "diluted": [],
    "text": "RR@10 everywhere rose to 0.19 before 09:00.",
}
OVER: Final = OPEN | {
    "id": "c-3-country-FR",
    "state": "recovered",
    "segment": "FR",
    "recovered": "2026-11-20T09:42:00Z",
    "text": "RR@10 of country FR recovered at 09:42.",
}
GONE: Final = OVER | {"state": "unscored", "recovered": None, "unscored_since": OVER["recovered"]}
UNKNOWN_LEVEL: Final = {"mean": None, "stderr": None, "scored": 0, "basis": None}
UNKNOWN: Final = OVER | {"level_before": UNKNOWN_LEVEL, "level_now": UNKNOWN_LEVEL}
SAID: Final = (
    "[...document.querySelectorAll('#open li')].map("
    "one => [...one.querySelectorAll('button, p')].map(part => part.innerText))"
)
ENOUGH_CONTRAST: Final = 4.5
CONTRASTS: Final = """(() => {
  const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = (colour) => colour.slice(0, 3)
    .map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (node) => {
    const colour = rgb(getComputedStyle(node).backgroundColor);
    return colour[3] === 0 ? behind(node.parentElement) : colour;
  };
  return [...document.querySelectorAll('#verdict *, #open li *, #movers .call')]
    .filter((node) => node.innerText && !node.firstElementChild)
    .map((node) => {
      const both = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
      return [node.innerText, (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05)];
    });
})()"""
"""The texts of changes, and how well each can be read, as WCAG 2 measures it."""


async def serve(page: Page, **new: Any) -> None:
    """From now on the daemon says this of changes, beside its rows."""
    quiet = {"headline": GOOD, "open": [], "closed": [], "standing": [], "noticeable": []}
    await page.alter(CHANGES, lambda answer: answer | quiet | new)


async def test_the_headline_tells_the_parts_in_plain_words(page: Page, daemon: Daemon) -> None:
    await serve(page, headline=HEADLINE, open=[OPEN])
    await page.open(daemon.url + "#metric=P@1&grouping=country&segment=US&window=1m&view=live")
    await page.until(FULL)
    assert await text(page, "#headline") == SAID_OF_DE
    assert await text(page, "#second") == "26 min ago. RR@10 is 0.1903, was 0.5518 before."
    assert await text(page, "#cause") == (
        "Only DE, 28 % of all searches. Looks like the ranking: good results stand lower."
        " Began 2 min after “ranker v8”."
    )
    assert await page.value("document.querySelector('#verdict').className") == "worse"
    await page.value("document.querySelector('#act-todo').focus()")
    await page.press("Enter", text="\r")
    await page.until("document.querySelector('#fold-todo').open")
    assert "Look at: ranker release." in await text(page, "#look")
    address = await page.until("location.hash.includes('open=todo') && location.hash")
    assert "window=1m" in address and "view=live" in address


STATES: Final[dict[str, tuple[dict[str, Any], str, str, str]]] = {
    "wide": (
        {"onset": ONSET | {"earliest": "2026-11-20T11:20:00Z"}},
        "worse",
        "Search in DE got much worse between 11:20 and 11:36",
        "26 min ago. RR@10 is 0.1903, was 0.5518 before.",
    ),
    "slightly, of another day": (
        {"onset": ONSET | {"at": "2026-11-19T11:34:00Z"}, "size": "slightly"}
        | {"now": 0.52, "segments": ["DE", "FR"]},
        "worse",
        "Search in DE and FR got slightly worse at Nov 19, 11:34",
        "24 h ago. RR@10 is 0.5200, was 0.5518 before.",
    ),
    "clicks": (
        {"metric": "Success@10", "before": 0.734, "now": 0.43, "grouping": "all"},
        "worse",
        "Search got much worse at 11:34",
        "26 min ago. 43 of 100 searches find a click; 73 did before.",
    ),
    "partly": (
        {"state": "partly", "better": "2026-11-20T11:50:00Z"},
        "worse",
        "Search in DE is better since 11:50, not yet normal",
        "RR@10 is 0.1903, was 0.5518 before 11:34.",
    ),
    "planned": (
        {"state": "planned"},
        "wait",
        "Search in DE is much worse since 11:34, as planned",
        "RR@10 is 0.1903, was 0.5518 before.",
    ),
    "repaired": (
        {"state": "repaired", "ended": "2026-11-20T11:54:00Z", "final": "2026-11-20T12:24:00Z"},
        "good",
        "Search in DE is back to normal since 11:54",
        "It was much worse from 11:34 on, for 20 min.",
    ),
    "silent": (
        QUIET
        | {"state": "silent", "onset": ONSET, "stopped": "searches", "usual_per_hour": 3104.2},
        "worse",
        "No searches since 11:34",
        "26 min ago. Up to 3,100 an hour are usual.",
    ),
    "silent partitions": (
        QUIET
        | {"state": "silent", "onset": ONSET, "stopped": "searches", "usual_per_hour": 804.0}
        | {"partitions": [1, 3], "rejected": 2950},
        "worse",
        "No searches in partitions 1, 3 since 11:34",
        "26 min ago. Up to 800 an hour are usual.",
    ),
    "none joined": (
        QUIET | {"state": "silent", "onset": ONSET, "stopped": "feedback", "usual_per_hour": 0.0},
        "worse",
        "No feedback has joined a search so far",
        "Searches come since 11:34. Scores say nothing.",
    ),
    "good": (QUIET, "good", AS_GOOD, ""),
    "first": (
        QUIET | {"state": "first", "noticed": [], "watching_since": "2026-11-20T11:10:00Z"},
        "wait",
        "Watching since 11:10",
        "No change so far.",
    ),
}


@pytest.mark.parametrize("state", STATES)
async def test_each_state_has_its_sentence_and_tone(page: Page, daemon: Daemon, state: str) -> None:
    parts, tone, said, line = STATES[state]
    changed = HEADLINE | {"parts": PARTS | parts}
    settled = "2026-11-20T11:58:00Z"
    shown_as = [OPEN] if tone == "worse" else []
    await serve(page, headline=changed, open=shown_as, settled_until=settled)
    await page.open(daemon.url)
    await page.until(FULL)
    assert await text(page, "#headline") == said
    shown = await text(page, "#second")
    assert line in shown and await page.value("verdict.className") == tone
    if state == "silent partitions":
        assert (await text(page, "#cause")).startswith("2,950 records were rejected since then")
    if state == "good":
        assert await text(page, "#cause") == (
            "A fall of RR@10 by 6 % that began before Nov 19, 11:29, or by 13 % that began before"
            " 08:29, would have been noticed."
        )
    if state == "repaired":
        final = "By live traffic. Late clicks are counted until 12:24; soon after, this is final."
        assert await text(page, "#cause") == final
        assert shown == line, "the rows have the level since the onset until it is final"


async def test_an_instant_that_is_over_is_not_promised(page: Page, daemon: Daemon) -> None:
    ended = {"state": "repaired", "ended": "2026-11-20T11:40:00Z", "final": "2026-11-20T11:59:00Z"}
    await serve(page, headline=HEADLINE | {"parts": PARTS | ended})
    await page.open(daemon.url)
    await page.until(FULL)
    assert await text(page, "#cause") == "By live traffic. This is final soon."


@pytest.mark.parametrize(("ended", "level"), [("11:40", " RR@10 is 0.5000."), ("11:58", "")])
async def test_the_level_after_an_end_is_that_of_windows_that_begin_after_it(
    page: Page, daemon: Daemon, ended: str, level: str
) -> None:
    over = {"state": "repaired", "ended": f"2026-11-20T{ended}:00Z"}
    await serve(page, headline=HEADLINE | {"parts": PARTS | over, "change": None})
    await page.open(daemon.url)
    await page.until(FULL)
    assert (await text(page, "#second")).endswith(f" min.{level}")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_onset_and_end_can_be_read_however_close(
    page: Page, daemon: Daemon, size: tuple[int, int]
) -> None:
    ended = {"state": "repaired", "ended": "2026-11-20T11:40:00Z"}
    await serve(page, headline=HEADLINE | {"parts": PARTS | ended})
    await page.open(daemon.url, width=size[0], height=size[1])
    await page.until("document.querySelectorAll('#wide text.mark').length === 2")
    one, other = await page.value(
        "[...document.querySelectorAll('#wide text.mark')]"
        ".map(mark => mark.getBoundingClientRect())"
        ".map(({ left, right, top, bottom }) => ({ left, right, top, bottom }))"
    )
    beside = one["right"] <= other["left"] or other["right"] <= one["left"]
    below = one["bottom"] <= other["top"] + 1
    assert beside or below, (one, other)


async def test_two_changes_are_told_together(page: Page, daemon: Daemon) -> None:
    at = {"at": "2026-11-20T11:50:00Z"}
    other = OPEN | {"id": "c-5", "segment": "JP", "segments": ["JP"], "onset": ONSET | at}
    await serve(page, headline=HEADLINE, open=[OPEN, other])
    await page.open(daemon.url)
    await page.until(FULL)
    assert await text(page, "#headline") == f"{SAID_OF_DE}, and in JP at 11:50"
    await serve(page, headline=HEADLINE, open=[OPEN, other, other | {"id": "c-6"}])
    await page.until(
        f"document.querySelector('#headline').innerText === '{SAID_OF_DE}, and 2 more changes are"
        " open'"
    )


async def test_while_it_catches_up_nothing_is_judged(page: Page, daemon: Daemon) -> None:
    catching = {"behind_seconds": 97.0, "remaining_seconds": 840.0, "words": "27 h behind"}
    await page.alter("*/api/v1/health*", lambda answer: answer | {"catching_up": catching})
    await page.open(daemon.url)
    await page.until("document.querySelector('#headline').innerText.startsWith('Still reading')")
    assert await text(page, "#second") == "The picture is complete in about 14 min."
    assert await page.value("verdict.className") == "wait"


async def test_what_is_far_from_usual_goes_before_what_was_planned_where_it_is_known(
    page: Page, daemon: Daemon
) -> None:
    planned = HEADLINE | {"parts": PARTS | {"state": "planned", "far": FAR["metric"]}}
    told = {"headline": planned, "open": [OPEN | {"state": "planned"}], "traffic": [FAR]}
    catching: dict[str, Any] | None = None

    def altered(answer: dict[str, Any]) -> dict[str, Any]:
        if "headline" in answer:
            return answer | {"closed": [], "standing": []} | told
        return answer | {"catching_up": catching} if "catching_up" in answer else answer

    await page.alter("*/api/v1/*", altered)
    await page.open(daemon.url)
    await page.until(f"document.querySelector('#headline').innerText + '.' === {FAR['text']!r}")
    assert (await text(page, "#second")).startswith("Scores: Search in DE is much worse since ")
    assert await text(page, "#runbook a") == "RelevancedZeroResultsRising"
    for name in ("cause", "traffic", "acknowledged", "acknowledge"):
        assert await page.value(f"document.getElementById('{name}').hidden"), name
    catching = {"behind_seconds": 97.0, "remaining_seconds": 840.0, "words": "27 h behind"}
    await page.until("document.querySelector('#headline').innerText.endsWith(', as planned')")
    assert await text(page, "#runbook a") == "RelevancedScoreDropped"
    assert await page.value("document.querySelector('#traffic').hidden")
    assert not await page.value("document.querySelector('#acknowledge').hidden")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
async def test_an_open_change_is_understood_on_the_first_screen(
    page: Page, story: Reading, size: tuple[int, int]
) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.url, width=size[0], height=size[1])
    await page.until(FULL)
    await page.until("document.querySelectorAll('#movers tbody tr').length > 0")
    seen = await first_screen(page)
    assert seen.words <= 120 and seen.numbers <= 40 and seen.controls <= 12, seen
    assert seen.has_chart, seen
    onset = await page.value("document.querySelector('#wide .onset line') !== null")
    assert onset, "the onset is in view"
    await daemon.stop(page)


@pytest.mark.parametrize("width", [320, 390])
async def test_all_that_is_folded_fits_a_phone(page: Page, story: Reading, width: int) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.unfolded, width=width, height=700)
    await page.until(FULL)
    beyond = (
        "[...document.querySelectorAll('main *')].map(one => [one.id || one.className,"
        f" one.getBoundingClientRect().right]).filter(([, right]) => right > {width})"
    )
    assert await page.value(beyond) == []
    await daemon.stop(page)


async def test_where_nothing_is_called_what_is_selected_has_its_row(
    page: Page, story: Reading
) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.alter(CHANGES, _quietly)
    await page.open(daemon.url + "#grouping=country&segment=US")
    await page.until(FULL)
    await page.until("document.querySelector('#more').innerText.endsWith('steady')")
    assert [row.split()[0] for row in await page.value(ROW)] == ["everything", "US"]
    await daemon.stop(page)


def _quietly(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer while every row is steady and no change is open."""
    rows = [row | {"verdict": "level"} for row in answer["changes"]]
    return answer | {"headline": GOOD, "changes": rows, "open": [], "standing": []}


async def test_many_segments_can_be_filtered(page: Page, story: Reading) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.url)
    await page.until(FULL)
    rows = "document.querySelectorAll('#movers tbody tr').length"
    listed = len((await api(page, "changes?window=5m&metric=RR@10"))["changes"])
    few = await page.value(rows)
    assert few < listed and await page.value("sift.hidden") is (listed < 12)
    await page.value("document.querySelector('#more').click()")
    await page.until(f"{rows} === {listed}")
    assert "rows=all" in await page.value("location.hash")
    await page.value("filter.value = 'fr'; filter.dispatchEvent(new Event('input'))")
    await page.until(f"{rows} < {listed}")
    assert all("fr" in row.lower() for row in await page.value(ROW))
    await daemon.stop(page)


async def test_a_link_to_what_is_not_there_says_so(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.url + "#metric=RR@99&grouping=country&segment=XX")
    said = str(await page.until("document.querySelector('#absent').innerText"))
    assert said.startswith("The link asks for metric RR@99 and country XX: nothing is kept of that")
    await page.value(
        "location.hash = '#change=c-1-country-XX&view=deep&against=' + 'x'.repeat(9999)"
    )
    await page.until(
        "document.querySelector('#absent').innerText.includes('change c-1-country-XX')"
    )
    assert "asks for view deep and against xxx" in await text(page, "#absent")
    await page.value("location.hash = ''")
    await page.until("document.querySelector('#absent').hidden")


async def test_a_link_to_a_change_shows_it(page: Page, daemon: Daemon) -> None:
    await serve(page, headline=HEADLINE, open=[OPEN], closed=[OVER | {"segment": "US"}])
    await page.open(daemon.url + f"#change={OVER['id']}")
    await page.until(f"{FULL} && document.querySelector('#subject').innerText === 'US'")
    assert await page.value("document.querySelector('#absent').hidden")


HOSTILE_LINKS: Final = (
    *(f"{name}={quote(HOSTILE)}" for name in ("metric", "window", "segment", "change", "query")),
    *(f"{name}={quote(HOSTILE)}" for name in ("view", "against", "range", "span", "open", "rows")),
    "grouping=%00&segment=%FF%FE",
    *(f"{name}={'x' * 9999}" for name in ("metric", "window", "segment", "change", "query")),
    f"since={quote(HOSTILE)}&queries=1e999",
)


@pytest.mark.parametrize("link", HOSTILE_LINKS)
async def test_any_text_in_the_address_is_text(page: Page, daemon: Daemon, link: str) -> None:
    await page.open(f"{daemon.url}#{link}")
    await page.until("document.querySelector('#link').innerText === 'up to date'")
    assert await page.value("document.querySelectorAll('img').length") == 0
    assert "relevanced" in await page.value("document.title")
    assert await page.value("document.querySelector('#lost').hidden"), await text(page, "#lost")


@pytest.mark.parametrize(
    ("minutes", "said"), [(-60, "60 min behind"), (60, "60 min ahead of"), (1, ""), (0, "")]
)
async def test_a_wrong_clock_of_the_browser_is_said(
    page: Page, daemon: Daemon, minutes: int, said: str
) -> None:
    off = f"{{ const now = Date.now; Date.now = () => now() + {minutes} * 60000; }}"
    await page.call("Page.addScriptToEvaluateOnNewDocument", source=off)
    await page.open(daemon.url)
    await page.until(FULL)
    assert await page.value("document.querySelector('#skew').hidden") is (not said)
    if said:
        shown = await text(page, "#skew")
        assert shown.startswith(f"This browser's clock is {said} the server's.")


async def test_the_metric_is_explained_where_it_stands(page: Page, daemon: Daemon) -> None:
    """In the list that it is chosen from, or below it."""
    await page.open(daemon.url + "#metric=P@1")
    await page.until(FULL)
    health = await api(page, "health")
    for metric in health["metrics"]:
        await page.value(f"location.hash = '#metric={quote(metric['metric'])}'")
        await page.until(f"metric.value === {json.dumps(metric['metric'])}")
        option = await page.value("metric.selectedOptions[0].innerText")
        below = f"{metric['metric']}: {metric['meaning']}"
        await page.until(f"means.innerText === {json.dumps('' if '(' in option else below)}")


async def test_a_live_fall_comes_first_only_while_no_change_is_open(
    page: Page, daemon: Daemon
) -> None:
    def fallen(answer: dict[str, Any]) -> dict[str, Any]:
        if answer["view"] == "live":
            for row in answer["changes"]:
                if row["segment"] == "US":
                    row |= {"verdict": "worse", "difference": -0.2, "noise": 0.01}
                    row |= {"since": answer["as_of"]}
                    row["before"] |= {"mean": 0.5}
        told = HEADLINE if open_now else GOOD | {"parts": QUIET | {"far": FAR["metric"]}}
        answer |= {"settled_until": answer["as_of"], "closed": [], "standing": [], "traffic": [FAR]}
        return answer | {"headline": told, "open": open_now}

    open_now: list[dict[str, Any]] = []
    await page.alter(CHANGES, fallen)
    await page.open(daemon.unfolded + "&metric=RR@10")
    said = str(await page.until("document.querySelector('#verdict.worse #headline')?.innerText"))
    assert said.startswith("US: RR@10 down 40") and said.endswith("(live, still gathering)")
    assert "this may pass" in await text(page, "#cause")
    assert (await text(page, "#traffic")).startswith(f"▼ {FAR['text']}"), "it is not told first"
    assert await page.value("document.querySelector('#act-todo').hidden")
    live = "document.querySelector('#view input:checked').value === 'live'"
    assert await page.until(live), "the table is that of the headline"
    open_now.append(OPEN)
    await page.until(f"document.querySelector('#headline').innerText === {SAID_OF_DE!r}")


async def test_the_list_says_since_when_how_much_and_who_carries_it(
    page: Page, daemon: Daemon
) -> None:
    standing = OPEN | {"id": "c-4-all-all", "state": "standing", "text": "P@1 is 3 % lower."}
    told = HEADLINE | {"change": "c-9"}
    over = [OVER, GONE, UNKNOWN]
    await serve(page, headline=told, open=[OPEN, RISE], standing=[standing], closed=over)
    await page.open(daemon.unfolded)
    await page.until(FULL)
    fall, rise, stands, recovered, gone, unknown = await page.value(SAID)
    assert fall == [
        TEXT,
        "Since 11:34 (11:32 to 11:36): 0.1903\u202f±\u202f0.0018, was 0.5518\u202f±\u202f0.0024"
        " (−66\u202f%). Carries nearly all of the fall of the whole.",
        "Looks like RANKING: clicks stand lower. Look at: ranker release.",
        "Also worse: P@1 −49\u202f%.",
        "Only worse because they share traffic with DE: ios −16\u202f%.",
    ]
    assert rise[1:] == ["Since before 09:00: 0.1903\u202f±\u202f0.0018, was unknown."]
    assert len(stands) == 5 and recovered == [
        "RR@10 of country FR recovered at 09:42; it had gone from 0.55 to 0.19 at 11:34."
    ]
    assert gone == [
        "RR@10 of country FR fell from 0.55 to 0.19 at 11:34; ended at 09:42: nothing"
        " comparable is scored since, so whether it recovered is not known."
    ]
    assert unknown == ["RR@10 of country FR recovered at 09:42."]
    size = "parseInt(getComputedStyle(document.querySelector('#open li{}')).fontSize)"
    sizes = [await page.value(size.format(state)) for state in (".open", ".recovered")]
    assert sizes[1] < sizes[0]
    edge = "getComputedStyle(document.querySelector('#open li.rise')).borderLeftColor"
    assert await page.value(edge) != await page.value(edge.replace(".rise", ""))


async def test_a_hostile_name_in_a_change_is_text(page: Page, daemon: Daemon) -> None:
    moved = {"metric": "RR@10", "grouping": "country", "segment": "US", "change_ratio": -0.1}
    diluted = [moved, moved | {"segment": HOSTILE}]
    name = {"segment": HOSTILE, "text": HOSTILE, "also": diluted, "diluted": diluted}
    pattern = {"name": HOSTILE, "words": HOSTILE, "look_at": HOSTILE}
    new = {
        "headline": HEADLINE
        | {
            "parts": PARTS
            | {"segments": [HOSTILE], "marker": {"text": HOSTILE, "before_seconds": 9}}
        },
        "open": [OPEN | name | {"pattern": pattern}],
        "closed": [OVER | name],
        "standing": [],
    }

    def hostile(answer: dict[str, Any]) -> dict[str, Any]:
        for row in answer["changes"]:
            if row["segment"] == "US":
                row["verdict"] = "diluted"
        return answer | new

    await page.alter(CHANGES, hostile)
    await page.open(daemon.unfolded + "&metric=RR@10", width=390)
    await page.until("document.querySelectorAll('#open li').length === 2")
    assert (await text(page, "#headline")).startswith("Search in <img src=x")
    assert "after “<img src=x" in await text(page, "#cause")
    said = await text(page, "#movers td.diluted")
    assert " ".join(said.split()).startswith("because of <img src=x")
    assert await page.value("document.querySelectorAll('img, #second b').length") == 0
    assert await page.value("document.title") != "taken"
    assert await page.value("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_what_is_said_of_changes_can_be_read(page: Page, daemon: Daemon, scheme: str) -> None:
    standing = OPEN | {"id": "c-4", "state": "standing"}
    await page.prefer(scheme)
    await serve(page, headline=HEADLINE, open=[OPEN, RISE], standing=[standing], closed=[OVER])
    await page.open(daemon.unfolded, width=390)
    await page.until(FULL)
    contrasts = await page.value(CONTRASTS)
    assert len(contrasts) > 15
    assert {said: ratio for said, ratio in contrasts if ratio < ENOUGH_CONTRAST} == {}
    assert await page.value("document.documentElement.scrollWidth") <= 390


async def test_all_times_are_of_the_readers_zone_which_is_named_once(
    page: Page, daemon: Daemon
) -> None:
    await serve(page, headline=HEADLINE, open=[OPEN])
    await page.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    await page.open(daemon.unfolded)
    await page.until("document.querySelector('#open li p').innerText.startsWith('Since 20:34')")
    assert await text(page, "#headline") == "Search in DE got much worse at 20:34"
    listed = await text(page, "#open button")
    assert listed == TEXT.replace("11:34", "20:34"), "so has the list of changes"
    assert await text(page, "#fresh") == "21:00:00, Asia/Tokyo"
    said = await page.value("document.body.innerText")
    assert said.count("Asia/Tokyo") == 1 and "UTC" not in said


async def test_an_open_change_leads_to_its_chart_where_its_onset_is_marked(
    page: Page, story: Reading
) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.unfolded + "&metric=P@5&grouping=country&segment=FR")
    await page.until(FULL)
    assert await page.value("document.querySelector('#charts .chart .onset') === null")
    await page.value("document.querySelector('#open button').click()")
    await page.until("document.querySelector('#charts .chart .onset') !== null")
    assert (await text(page, "#lines-title")).startswith("RR@10 of DE")
    label = await page.value("document.querySelector('#charts .chart').ariaLabel")
    assert re.search(r"Open change since 11:5\d( \(11:\d\d to 11:\d\d\))?\. ", label)
    assert label.count("Open change") == 1
    mark = "document.querySelector('#charts .chart .onset')"
    assert f"{await page.value(mark + '.firstChild.textContent')}." in label
    box = "(b => [b.x, b.x + b.width])(" + mark + ".querySelector('{}').getBBox())"
    band, line = [await page.value(box.format(name)) for name in ("rect", "line")]
    assert band[0] <= line[0] <= band[1] + 0.1
    await page.value("history.back()")
    await page.until("document.querySelector('#lines-title').innerText.startsWith('P@5 of FR')")
    await daemon.stop(page)


async def test_what_still_gathers_is_dashed_and_no_value_of_it_is_printed(
    page: Page, story: Reading
) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.unfolded + "&window=5m&view=live")
    await page.until(FULL)
    assert await page.value("document.querySelectorAll('#charts .chart .gathering').length") > 0
    settled = (await api(page, "changes?window=5m"))["settled_until"]
    shown = await page.value("new Date(" + json.dumps(settled) + ").toTimeString().slice(0, 5)")
    assert (await text(page, "#charts output")).endswith(f" at {shown}")
    label = await page.value("document.querySelector('#charts .chart').ariaLabel")
    assert f" at {shown}." in label
    edge = await page.value("document.querySelector('#charts .chart .unripe').getBBox().x")
    for line in ("line", "whole"):
        parts = f"[...document.querySelectorAll('#charts figure:first-child .{line}')].map(one => "
        settled, gathering = await page.value(
            parts + "[one.getBBox().x, one.getBBox().x + one.getBBox().width,"
            " getComputedStyle(one).strokeDasharray,"
            " parseFloat(getComputedStyle(one).strokeWidth)])"
        )
        assert settled[1] <= edge + 0.1 and settled[2] == "none"
        assert gathering[0] == pytest.approx(settled[1], abs=0.1) and gathering[2] != "none"
        assert gathering[3] < settled[3]
    await page.value("document.querySelector('#charts .chart').focus()")
    await page.press("ArrowLeft")
    pointed = await text(page, "#charts output")
    assert pointed.endswith(", still gathering") and "±" not in pointed
    await daemon.stop(page)


@pytest.mark.parametrize("known", [(), ("at",), ("latest",), ("at", "latest"), ("at", "earliest")])
async def test_an_onset_is_marked_as_far_as_it_is_known(
    page: Page, daemon: Daemon, known: tuple[str, ...]
) -> None:
    now = datetime.fromtimestamp(NOW_MS / 1000, UTC)
    minutes = {"at": 1, "earliest": 1.5, "latest": 0.5}
    onset = {
        name: (now - timedelta(minutes=ago)).isoformat() if name in known else None
        for name, ago in minutes.items()
    }
    change = OPEN | {"onset": onset | {"from": "unknown"}, "also": []}
    await serve(page, headline=HEADLINE, open=[change])
    await page.open(daemon.unfolded + "&metric=RR@10&window=1m&grouping=country&segment=DE")
    await page.until(FULL)
    marks = await page.value("document.querySelectorAll('#charts .chart .onset').length")
    assert bool(marks) is ("at" in known)
    label = await page.value("document.querySelector('#charts .chart').ariaLabel")
    said = {(): "a time that is not known", ("latest",): "before 11:59"}.get(known, "11:59")
    assert f"Open change since {said}" in label
    await page.value(
        "location.hash = 'open=basis&metric=P@1&window=1m&grouping=country&segment=DE'"
    )
    await page.until("document.querySelector('#lines-title').innerText.startsWith('P@1 of DE')")
    assert await page.value("document.querySelector('#charts .chart .onset') === null")


async def test_what_is_only_diluted_is_not_red(page: Page, story: Reading) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.unfolded)
    await page.until(FULL)
    changes = (await api(page, "changes?window=5m&metric=RR@10"))["changes"]
    diluted = {one["segment"] for one in changes if one["verdict"] == "diluted"}
    assert {"ios", "web"} <= diluted
    red = await page.value(
        "[...document.querySelectorAll('#movers td.call.worse')].map("
        "cell => cell.parentElement.querySelector('button').innerText)"
    )
    assert red == ["DE"], "the fall of everything is that of DE"
    calls = await page.value(
        "[...document.querySelectorAll('#movers td.call.diluted')].map("
        "cell => [cell.innerText, getComputedStyle(cell).color, getComputedStyle(cell).fontWeight])"
    )
    ink = await page.value("getComputedStyle(document.body).color")
    assert calls == [["because of DE", ink, "400"]] * len(diluted)
    await daemon.stop(page)


async def test_what_live_traffic_shows_to_be_back_is_told_until_when_it_was_low(
    page: Page, story: Reading
) -> None:
    """Headline, list and rows agree from the minutes behind a repair on, long before it settles."""
    back = {"since": "2026-11-20T11:56:00Z", "mean": 0.49, "known_until": "2026-11-20T11:29:00Z"}

    def is_back(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {"open": [one | {"back_live": back} for one in answer["open"]]}

    await page.alter(CHANGES, is_back)
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.unfolded)
    await page.until(FULL)
    said = (await page.value(SAID))[0][0]
    assert said.endswith(", not recovered by 11:29; live it is back at 0.49 since 11:56.")
    colour = "getComputedStyle(document.querySelector('#open li')).borderLeftColor"
    calm = await page.value(colour)
    assert await page.value("document.querySelectorAll('#movers td.worse').length") == 0
    assert "▼ until 11:56" in (await page.value(ROW))[0]
    await page.value("document.querySelector('#open li').className = 'open'")
    assert await page.value(colour) != calm
    await daemon.stop(page)


async def test_before_anything_has_settled_nothing_is_claimed(page: Page) -> None:
    daemon = Daemon(reading_of([lane_view(three_states())]))
    await daemon.start()
    await page.open(daemon.unfolded)
    await page.until(FULL)
    assert "Nothing has settled yet" in await text(page, "#headline")
    assert await page.value("document.querySelector('#open').hidden")
    await daemon.stop(page)


async def test_the_metric_of_the_headline_is_shown_until_another_is_selected(
    page: Page, daemon: Daemon
) -> None:
    change = OPEN | {"id": "c-9", "metric": "nDCG@10", "segment": "US"}
    parts = PARTS | {"metric": "nDCG@10", "segments": ["US"]}
    headline = HEADLINE | {"change": "c-9", "parts": parts}
    await page.alter(CHANGES, lambda answer: answer | {"headline": headline, "open": [change]})
    await page.open(daemon.url)
    subject = "[subject.innerText, metric.value]"
    await page.until(f"{subject}.join() === 'US,nDCG@10'")
    assert await page.value("location.hash") == "", "it is no selection of the user's"
    await page.value("location.hash = 'metric=P@1'")
    await page.until(f"{subject}.join() === 'US,P@1'")
