"""The table of the guide, how long until a fall is noticed, is computed, not guessed."""

from math import isinf
from pathlib import Path

from relevanced.daemon.changes import ScoreNoise, Site, ages

PAGE = Path(__file__).parent.parent.parent / "deploy" / "guide" / "alerts.md"
RATES = (1_000, 5_000, 20_000)
SUCCESS, RR = (0.6, 0.49), (0.4, 0.42)
"""(mean, standard deviation), as the page names them."""


def share(fall: float) -> str:
    return "–" if isinf(fall) else f"{100 * fall:.0f} %"


def rows() -> list[str]:
    sites = [Site(rate, *score) for score in (SUCCESS, RR) for rate in RATES]
    return [
        f"| {age.known} | {age.against} | "
        + " | ".join(" / ".join(map(share, age.drops(site))) for site in sites)
        + " |"
        for age in ages(ScoreNoise())
    ]


def test_the_table_says_what_the_thresholds_give() -> None:
    text = PAGE.read_text()
    missing = [row for row in rows() if row not in text]
    assert not missing, "\n".join(missing)
