"""What the rules say of broken searches in a real Prometheus: as the function does, and rightly."""

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pytest

from deploy.prometheus.patterns import SERIES
from relevanced.daemon.changes import Side, evidence, pattern_of
from relevanced.daemon.tools.traffic import Breakage
from tests.daemon.changes.faults import FAULTS, NOISE, PERIODS, TOO_SMALL, sides
from tests.deploy.broken_search import page
from tests.deploy.scraped import until
from tests.deploy.static_targets import Watched, watched
from tests.services.prometheus_server import required

pytestmark = required("prometheus")

SEED: Final = 4
SEARCHES: Final = {"many": 20_000, "few": 3_000}
DE: Final = (("country", "DE"),)
BROKEN: Final[dict[str, tuple[Breakage, tuple[tuple[str, str], ...], str]]] = {
    "ranking": ("ranking", DE, "RANKING"),
    "index": ("index", (), "RETRIEVAL"),
    "tracking": ("tracking", (), "TRACKING"),
    "mix": ("mix", DE, "MIX"),
}
"""Job → (what broke, for which segment, what is said)."""
ROWS: Final = {
    f"table-{number}-{size}": (fault, count)
    for number, fault in enumerate(FAULTS)
    for size, count in SEARCHES.items()
}
"""Job → (row of the table of faults, searches)."""
OF_SIDE: Final = {
    "impressions": "impressions",
    "impressions_with_feedback": "with_feedback",
    "feedback": "feedback",
    "zero_result_impressions": "zero_results",
    "list_length": "list_length",
    "list_length_stderr": "list_length_stderr",
}


def lines(name: str, side: Side) -> Iterator[str]:
    """The series of one side, in full precision."""
    labels = 'grouping="all",segment="all",window="1h"'
    for family, field in OF_SIDE.items():
        yield f"relevanced_{name}_{family}{{{labels}}} {getattr(side, field)!r}"
    for metric, mean, error in (
        ("Success@10", side.success, side.success_stderr),
        ("RR@10", side.rr, side.rr_stderr),
    ):
        labelled = f'{{metric="{metric}",{labels}}}'
        yield f"relevanced_{name}_score{labelled} {mean!r}"
        yield f"relevanced_{name}_score_stderr{labelled} {error!r}"
        yield f"relevanced_{name}_scored_impressions{labelled} {side.impressions!r}"
    yield f"relevanced_{name}_judged_impressions{{{labels}}} {side.judged_impressions!r}"
    for number, (mean, error) in enumerate(side.judged):
        labelled = f'{{metric="DCG@{number + 1}",{labels}}}'
        yield f"relevanced_{name}_judged_score{labelled} {mean!r}"
        yield f"relevanced_{name}_judged_score_stderr{labelled} {error!r}"
        yield f"relevanced_{name}_judged_scored_impressions{labelled} {side.judged_impressions!r}"


@cache
def of_table(fault: str, count: int) -> tuple[Side, Side]:
    """As floats; MIX is left to the texts of the daemon, which have segments."""
    recent, before, _ = sides(FAULTS[fault][0], count, SEED)
    recent, before = (
        Side(**{name: n if name == "judged" else float(n) for name, n in vars(one).items()})
        for one in (recent, before)
    )
    return recent, before


def text_of(fault: str, count: int) -> str:
    recent, before = of_table(fault, count)
    periods = [
        f'relevanced_{of}baseline_periods{{window="1h",unit="week"}} {PERIODS}'
        for of in ("", "judged_")
    ]
    return "\n".join([*lines("recent", recent), *lines("baseline", before), *periods, ""])


def firing(running: Watched, job: str) -> list[dict[str, Any]]:
    return [alert for alert in running.firing() if alert["labels"]["job"] == job]


def on_whole(running: Watched, job: str) -> list[dict[str, Any]]:
    """Its alerts on a metric of the whole. Those of a segment may fire before them."""
    return [
        alert
        for alert in firing(running, job)
        if alert["labels"].get("grouping") == "all" and "metric" in alert["labels"]
    ]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    pages = {job: text_of(*row) for job, row in ROWS.items()}
    pages |= {job: page(what, segment) for job, (what, segment, _) in BROKEN.items()}
    with watched(tmp_path_factory.mktemp("patterns"), pages) as running:
        until(
            lambda: running.values('relevanced:list_length:z{window="1h",grouping="all"}').keys()
            >= pages.keys(),
            what="all pages are judged",
        )
        until(
            lambda: all(on_whole(running, job) for job in BROKEN),
            what="every fault raises an alert on the whole",
        )
        yield running


@pytest.mark.parametrize("number", SERIES)
def test_rules_record_the_numbers_of_the_function(prometheus: Watched, number: str) -> None:
    found = prometheus.values(f'{SERIES[number]}{{window="1h",job=~"table-.+"}}')
    compared = 0
    for job, row in ROWS.items():
        expected = evidence(*of_table(*row), PERIODS, NOISE)[number]
        _, value = found.get(job, ({}, math.nan))
        if math.isnan(expected):
            assert math.isnan(value) or math.isinf(value), (job, value)
        else:
            assert value == pytest.approx(expected, rel=1e-6, abs=1e-9), job
            compared += 1
    assert compared or number in ("mix_share", "tracking_fault")


def test_rules_say_what_the_function_says(prometheus: Watched) -> None:
    found = prometheus.values('relevanced:pattern{window="1h",job=~"table-.+"}')
    said = {job: found[job][0]["pattern"] if job in found else TOO_SMALL for job in ROWS}
    expected = {}
    for job, row in ROWS.items():
        pattern = pattern_of(evidence(*of_table(*row), PERIODS, NOISE))
        expected[job] = TOO_SMALL if pattern is None else pattern.name
    assert said == expected


@pytest.mark.parametrize("job", BROKEN)
def test_every_alert_on_a_broken_search_names_what_broke(prometheus: Watched, job: str) -> None:
    what, segment, name = BROKEN[job]
    for alert in on_whole(prometheus, job):
        text = alert["annotations"]["description"]
        assert f"Looks like {name}: " in text, text
    for alert in firing(prometheus, job):
        text = alert["annotations"]["description"]
        for said in re.findall(r"Looks like ([A-Zor ]+):", text):
            assert name in said.split(" or "), text
