"""The web page, in a real browser: it shows what the API returns, whatever that contains."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from relevanced.daemon.experiments import Arm, Findings, SharePeriod, Tracking, effects_by_day
from relevanced.daemon.exporter import TAKEN_OVER, CatchUpProgress, Condition, Reading
from relevanced.daemon.worker import silence_text
from tests.arms import arm, dealt_arms, found_of, partly_defined, with_interleaved
from tests.daemon.experiments.test_busiest import with_bot
from tests.daemon.experiments.test_by_day import DAYS, ONE_METRIC, random_days, tallies_of
from tests.lane_views import PLAN, Shown, lane_view, reading_of, with_clicks
from tests.page.browser import Page
from tests.page.served import FULL, HOSTILE, ROW, Daemon, api, text, three_states


async def test_the_page_shows_the_regression_of_the_demo(page: Page, story: Reading) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.unfolded)
    await page.until(FULL)
    headline = await text(page, "#headline")
    assert headline.startswith("Search in DE got much worse at 11:")
    assert " of 100 searches find a click; " in await text(page, "#second")
    assert "Looks like the ranking: " in await text(page, "#cause")
    assert await page.value("document.querySelectorAll('#open li.open').length") == 1
    assert (await text(page, "#metrics-title")).startswith("Every metric of DE")
    rows = await page.value(ROW)
    assert "DE" in rows[0] and "▼ worse" in rows[0]
    assert "everything" in rows[1] and "because of DE" in rows[1]
    assert {"control", "treatment"} <= set((await text(page, "#experiments thead")).split())
    await daemon.stop(page)


async def test_numbers_are_those_of_the_api(page: Page, story: Reading) -> None:
    daemon = Daemon(story)
    await daemon.start()
    await page.open(daemon.unfolded + "&metric=P@5&window=1h&view=live&grouping=country&segment=FR")
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
    await page.open(daemon.unfolded + "&metric=P@1&window=1m&view=live")
    await page.until(FULL)
    rows = {row.split()[0]: row for row in await page.value(ROW)}
    assert "0.0000" in rows["US"]
    assert "no traffic" in rows["DE"] and "0.0000" not in rows["DE"]
    await page.value(
        "location.hash = 'rows=all&open=basis,every&metric=nDCG@10&window=1m&view=live'"
    )
    await page.until("document.querySelector('#movers td.undefined')?.innerText === 'undefined'")
    await page.until("document.querySelector('.chart .gap') !== null")
    await page.value(
        "location.hash = 'open=basis&metric=P@1&window=1m&view=live&grouping=country&segment=DE'"
    )
    await page.until("document.querySelector('.chart .hatch') !== null")


async def test_a_hostile_name_is_text(page: Page) -> None:
    daemon = Daemon(reading_of([lane_view([Shown(country=HOSTILE), Shown(country="US")])]))
    await daemon.start()
    await page.open(daemon.unfolded)
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


def both() -> dict[str, Arm]:
    """Two arms with some users in both."""
    return dealt_arms() | {"treatment": arm((0.7, 0.4, 0.3), 2, range(270, 570))}


async def test_variants_carry_the_verdicts_of_experiments(page: Page, story: Reading) -> None:
    found = found_of(both())
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
    await page.open(daemon.unfolded)
    cell = "document.querySelector('#experiments td.better')"
    ends = (finding.relative_difference, finding.relative_lower, finding.relative_upper)
    change, lower, upper = (f"+{end:.0%}".replace("%", "\u202f%") for end in ends if end)
    said = await page.until(f"{cell}.innerText")
    assert said.split("\n") == [change, f"{lower} to {upper}: {finding.words}"]
    row = await page.value(f"{cell}.closest('tr').innerText")
    assert finding.control_mean is not None and finding.mean is not None
    assert f"{finding.control_mean:.4f}" in row and f"{finding.mean:.4f}" in row
    shown_text = await text(page, "#experiments")
    assert (
        experiment.warnings[0] in shown_text
        and f"all {experiment.impressions:,} settled impressions" in shown_text
    )
    await daemon.stop(page)


async def test_an_experiment_without_a_grouping_of_its_own_is_shown(
    page: Page, story: Reading
) -> None:
    def ungrouped(answer: dict[str, Any]) -> dict[str, Any]:
        kept = [one for one in answer["groupings"] if not one["grouping"].startswith("experiment:")]
        return answer | {"groupings": kept}

    await page.alter("*/api/v1/segments*", ungrouped)
    found = found_of(both())
    daemon = Daemon(replace(story, experiments=found))
    await daemon.start()
    await page.open(daemon.unfolded)
    await page.until("!!document.querySelector('#experiments td.better')")
    shown = f"all {found.experiments[0].impressions:,} settled impressions"
    assert shown in await text(page, "#experiments")
    await daemon.stop(page)


async def test_effects_by_day_open_on_request_and_stay_open(page: Page, story: Reading) -> None:
    lane = tallies_of(ONE_METRIC, random_days(4))
    first, *others = story.views
    first = replace(first, experiments={"ranker-v2": lane})
    plan = replace(story.plan, tracking=Tracking({"ranker-v2": ONE_METRIC}, 0, ONE_METRIC))
    found = found_of(dealt_arms())
    tracked = with_clicks(story, plan=plan, views=[first, *others])
    daemon = Daemon(replace(tracked, experiments=found))
    await daemon.start()
    await page.open(daemon.unfolded)
    await page.until("!!document.querySelector('details.days summary')")
    assert not await page.value("document.querySelector('details.days').open")
    await page.value("document.querySelector('details.days summary').click()")
    rows = "[...document.querySelectorAll('details.days tbody tr')].map(row => row.innerText)"
    await page.until(f"{rows}.length === {DAYS}")
    expected = effects_by_day(ONE_METRIC, [lane], story.plan.metrics)
    for row, shown in zip(expected, await page.value(rows), strict=True):
        assert shown.startswith(row.day) and f"{row.impressions:,}" in shown
        assert row.difference is not None and f"{abs(row.difference):.4f}"[1:] in shown
    assert "Decide by what is so far" in await text(page, "details.days caption")
    daemon.show(replace(tracked, experiments=found_of(both())))
    await page.until("!!document.querySelector('#experiments p.worse')")
    assert await page.value("document.querySelector('details.days').open")
    assert len(await page.value(rows)) == DAYS
    await daemon.stop(page)


async def test_periods_and_busy_units_stand_in_a_line_each_and_open(
    page: Page, story: Reading
) -> None:
    """And whatever variants are called."""
    arms = dealt_arms()
    found = found_of(arms | {"treatment": with_bot(arms["treatment"], 300)})
    [experiment] = found.experiments
    assert experiment.busiest
    period = SharePeriod("2026-11-20", "2026-11-21", {"control": 0.75, HOSTILE: 0.25})
    control, treatment = experiment.variants
    treatment = msgspec.structs.replace(treatment, periods=(period,), mixed_days=("2026-11-22",))
    changed = msgspec.structs.replace(experiment, variants=(control, treatment))
    daemon = Daemon(replace(story, experiments=Findings(found.as_of, (changed,))))
    await daemon.start()
    await page.open(daemon.unfolded)
    for kind in ("periods", "busiest"):
        summary = f"document.querySelector('details.{kind} summary')"
        await page.until(f"!!{summary}")
        assert not await page.value(f"{summary}.parentElement.open")
        await page.value(f"{summary}.click()")
    periods, busiest = [await text(page, f"details.{kind}") for kind in ("periods", "busiest")]
    assert "2026-11-20 to 2026-11-21: control 75.0\u202f%" in periods
    assert "shares changed within them: 2026-11-22" in periods
    assert experiment.busiest[0].unit in busiest and "1 unit has more than 1" in busiest
    assert "without the 64ths of users" in busiest and "; with all: " in busiest
    assert (
        await page.value("document.querySelectorAll('#experiments script, #experiments b').length")
        == 0
    )
    daemon.show(replace(story, experiments=Findings(found.as_of, (experiment,))))
    await page.until("!document.querySelector('details.periods')")
    assert await page.value("document.querySelector('details.busiest').open")
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
    await page.open(daemon.unfolded)
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
    await page.open(daemon.unfolded + "&window=1m&view=live")
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


OF_A_LATER_VERSION = """(() => {
  const before = window.fetch;
  window.fetch = async (path, ...more) => {
    const answer = await before(path, ...more);
    if (!path.startsWith("api/v1/changes")) return answer;
    const found = await answer.json();
    found.headline.parts = { ...found.headline.parts, state: "of a later version" };
    return new Response(JSON.stringify(found));
  };
  document.dispatchEvent(new Event("visibilitychange"));
})()"""


async def test_a_page_that_cannot_show_an_answer_says_to_reload_it(
    page: Page, daemon: Daemon
) -> None:
    """It was loaded before an upgrade, and the daemon answers with what it does not know."""
    await page.open(daemon.unfolded + "&window=1m&view=live")
    await page.until(FULL)
    await page.value(OF_A_LATER_VERSION)
    said = str(await page.until("!lost.hidden && document.querySelector('#lost').innerText"))
    assert "cannot show what the daemon answers" in said and "reload it" in said
    assert "No answer from the daemon" not in said and "no connection" not in said
    assert await text(page, "#link") == "cannot be shown"
    page.complaints.clear()


async def test_new_numbers_come_without_reloading(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.unfolded + "&window=1m&view=live")
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
    await page.open(daemon.unfolded)
    await page.until(FULL)
    reached = []
    for _ in range(60):
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
    assert [kind for kind, *_ in reached].count("svg") == len(PLAN.timing.windows) + 1
    assert not [one for one in reached if one[2] != "solid"]


async def test_a_segment_is_selected_and_a_chart_read_by_keyboard(
    page: Page, daemon: Daemon
) -> None:
    await page.open(daemon.unfolded)
    await page.until(FULL)
    await page.value("document.querySelector('[data-segment=DE]').focus()")
    await page.press("Enter", text="\r")
    await page.until("document.querySelector('#lines-title').innerText.includes('of DE')")
    assert "segment=DE" in await page.value("location.hash")
    assert await page.value("document.activeElement.dataset.segment") == "DE"
    await page.value("document.querySelector('#charts .chart').focus()")
    before = await text(page, "#charts output")
    await page.press("ArrowLeft")
    await page.until("document.querySelector('.chart .pointer') !== null")
    assert " at " in before and " at " not in await text(page, "#charts output")
    await page.press("Escape")
    assert await text(page, "#charts output") == before


async def test_tables_have_headings_and_charts_have_words(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.unfolded)
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
        await page.open(daemon.unfolded, width=width)
        await page.until(FULL)
        seen[scheme] = await page.value(colour)
        assert await page.value("document.documentElement.scrollWidth") <= width
    assert len(set(seen.values())) == 2
    await page.value("document.querySelector('#theme').click()")
    assert (await text(page, "#theme"), await page.value(colour)) == ("Theme: light", seen["light"])
    await page.open(daemon.unfolded, width=width)
    await page.until(FULL)
    assert await page.value(colour) == seen["light"]


async def test_without_scores_the_page_says_why(page: Page) -> None:
    daemon = Daemon()
    await daemon.start()
    daemon.server.published = replace(
        daemon.server.published, conditions=(Condition("snapshot", False, "Redis: away"),)
    )
    await page.open(daemon.unfolded)
    await page.until("document.querySelector('#headline').innerText === 'No scores yet'")
    assert "Redis: away" in await text(page, "#second")
    unread = silence_text(("shop",), 4, {"not_mapped": 812}, ["kafka:9092"])
    daemon.show(reading_of([]), Condition("events", True, unread))
    await page.until("!document.querySelector('#second').innerText.includes('Redis')")
    assert "relevanced doctor --kafka kafka:9092 --topics shop" in await text(page, "#second")
    assert await text(page, "#fresh") == "no events yet"
    await daemon.stop(page)


async def test_numbers_that_are_not_of_now_are_called_old_with_the_reason(
    page: Page, daemon: Daemon
) -> None:
    """As while no worker runs, and while a fresh namespace catches up."""
    await page.open(daemon.unfolded)
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
        daemon.server.published, catching_up=CatchUpProgress(97_000_000, 240_000)
    )
    await page.until("document.querySelector('#stale').innerText.startsWith('Catching up')")
    assert "27 h behind, done in about 4 min" in await text(page, "#stale")
    taken = Condition("caught_up", False, TAKEN_OVER.format("relevanced-new"))
    daemon.server.published = replace(
        daemon.server.published, catching_up=None, conditions=(taken,)
    )
    await page.until("document.querySelector('#stale').innerText.includes('other numbers')")
    assert "namespace relevanced-new serves the scores now" in await text(page, "#stale")
