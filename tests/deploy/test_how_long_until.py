"""The table of the guide, how long until a fall is noticed, is computed, not guessed."""

from math import isinf
from pathlib import Path

from relevanced.daemon.changes import (
    BEFORE_KNOWN,
    ScoreNoise,
    Site,
    earlier_lane,
    hour_lane_knowing,
)

PAGE = Path(__file__).parent.parent.parent / "deploy" / "guide" / "alerts.md"
UNKNOWN, KNOWN = ScoreNoise(BEFORE_KNOWN), ScoreNoise()
RATES = (1_000, 5_000, 20_000)


def share(fall: float) -> str:
    return "–" if isinf(fall) else f"{100 * fall:.0f} %"


def known_for(hours: float, site: Site) -> str:
    """The first day: what lies just before, and the day before once there is one."""
    return share(hour_lane_knowing(site, hours, UNKNOWN))


def days(count: int, site: Site) -> str:
    windows = (1, 3, 24)[: 1 + count]
    by_days = min(earlier_lane(site, hours, count, "day", UNKNOWN) for hours in windows)
    return share(min(by_days, hour_lane_knowing(site, 24, UNKNOWN)))


def weeks(count: int, site: Site) -> str:
    """Three hours and a day after the fall."""
    return " / ".join(share(earlier_lane(site, h, count, "week", KNOWN)) for h in (3, 24))


def rows() -> list[str]:
    sites = [Site(rate) for rate in RATES]
    cells = {
        "10 min | what lies just before": [known_for(1 / 6, site) for site in sites],
        "30 min | the same": [known_for(0.5, site) for site in sites],
        "1 h | the same": [known_for(1, site) for site in sites],
        "3 h | the same": [known_for(3, site) for site in sites],
        "26 h | also the day before": [days(1, site) for site in sites],
        "7 days | also six days before": [days(6, site) for site in sites],
        "8 days | the week before; 3 h / a day after the fall": [weeks(1, site) for site in sites],
        "22 days | three weeks before; 3 h / a day after": [weeks(3, site) for site in sites],
    }
    return [f"| {name} | {' | '.join(row)} |" for name, row in cells.items()]


def test_the_table_says_what_the_thresholds_give() -> None:
    text = PAGE.read_text()
    missing = [row for row in rows() if row not in text]
    assert not missing, "\n".join(missing)
