"""What is selected is in the address: Back returns to it, and a link opens it."""

from tests.page.browser import Page
from tests.page.served import FOLDS, FULL, Daemon, text

SELECTED = "Object.fromEntries(new URLSearchParams(location.hash.slice(1)))"
REFRESHED = (
    "performance.getEntriesByType('resource').filter(one => one.name.endsWith('/health')).length"
)
SHOWN = (
    "[metric.value, document.querySelector('[name=window]:checked').value, "
    "document.querySelector('[name=view]:checked').value, "
    "document.querySelector('#lines-title').innerText.split(' ')[2]].join()"
)


async def shown(page: Page, metric: str, window: str, view: str, segment: str) -> None:
    """Wait until the controls and the charts have these."""
    await page.until(f"{SHOWN}.startsWith('{metric},{window},{view},{segment}')")


async def test_back_and_forward_restore_all_that_was_selected(page: Page, daemon: Daemon) -> None:
    await page.open(daemon.unfolded + "&metric=P@1&window=1m&view=live&grouping=all&segment=all")
    await page.until(FULL)
    await page.value("document.querySelector('[data-segment=US]').click()")
    await shown(page, "P@1", "1m", "live", "US")
    await page.value(
        "(m => { m.focus(); m.value = 'RR@10';"
        " m.dispatchEvent(new Event('change', {bubbles: true})) })(metric)"
    )
    await page.value("document.querySelector('[value=\"10m\"]').click()")
    await page.value("document.querySelector('[value=settled]').click()")
    await shown(page, "RR@10", "10m", "settled", "US")
    for expected in (
        ("RR@10", "10m", "live", "US"),
        ("RR@10", "1m", "live", "US"),
        ("P@1", "1m", "live", "US"),
        ("P@1", "1m", "live", "everything"),
    ):
        await page.value("history.back()")
        await shown(page, *expected)
    await page.value("history.go(4)")
    await shown(page, "RR@10", "10m", "settled", "US")


async def test_nothing_but_a_new_selection_is_an_entry_of_the_history(
    page: Page, daemon: Daemon
) -> None:
    await page.open(daemon.unfolded + "&metric=RR@10&window=1m")
    await page.until(FULL)
    entries = await page.value("history.length")
    refreshed = await page.value(REFRESHED)
    await page.until(f"{REFRESHED} >= {refreshed + 2}")
    await page.value("document.querySelector('[data-metric=\"RR@10\"]').click()")
    await page.value("document.querySelector('.skip').click()")
    assert await page.value("document.activeElement.id") == "movers-title"
    assert await page.value("history.length") == entries
    await page.value("document.querySelector('[data-segment=US]').click()")
    assert await page.value("history.length") == entries + 1
    assert await page.value(SELECTED) == {
        "rows": "all",
        "open": FOLDS,
        "metric": "RR@10",
        "window": "1m",
        "grouping": "country",
        "segment": "US",
    }
    assert (await text(page, "#lost")) == ""
