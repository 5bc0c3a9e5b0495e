"""What is far from usual in the data behind the scores, as the API tells it."""

from dataclasses import replace

import pytest

from relevanced.daemon.changes import Silence, TrafficChange
from relevanced.daemon.exporter import Publisher, Reading
from relevanced.daemon.http import changes, headline
from tests.daemon.exporter.test_traffic_changes import (
    MINUTES,
    Faulty,
    without_american_searches,
    without_results,
)
from tests.daemon.exporter.two_countries import NOW_MS, PLAN

WHOLE, US, FR = ("all", "all"), ("country", "US"), ("country", "FR")


def told(reading: Reading) -> list[str]:
    return [change.text for change in changes(reading, "1h", "settled", {}).traffic]


def quiet() -> Reading:
    return Faulty(lambda rows: None).reading(Publisher(PLAN), 65)


def test_a_fault_is_told_while_it_lasts() -> None:
    """Of all searches: its segments are low with it, and left out."""
    site, publisher = Faulty(without_results), Publisher(PLAN)
    assert told(site.reading(publisher, -10)) == []
    for minute in (65, MINUTES):
        reading = site.reading(publisher, minute)
        (text,) = told(reading)
        assert text.startswith("Of all searches ")
        assert text.endswith(" % returned no results in the last settled hour; 0 % is usual.")
        said = headline(reading)
        assert (said.tone, said.text) == ("worse", text)
        assert said.parts and (said.parts.state, said.parts.far) == ("good", "zero_results_share")
        assert said.detail.startswith("Up to "), "what the scores say stands behind it"
    for later in (75, 120, 600):
        reading = site.reading(publisher, MINUTES + later)
        assert told(reading) == [] and headline(reading).tone == "good"


def test_segments_are_named() -> None:
    site = Faulty(without_american_searches)
    (text,) = told(site.reading(Publisher(PLAN), 65))
    assert text.startswith("Searches of country US have almost stopped: ")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            TrafficChange(WHOLE, "feedback_share", 0.4, 0.2, -9.0),
            "Of all searches 20 % got feedback in the last settled hour; 40 % is usual.",
        ),
        (
            TrafficChange(US, "zero_results_share", 0.004, 0.012, 9.0),
            "Of the searches of country US 1.2 % returned no results in the last settled hour;"
            " 0.40 % is usual.",
        ),
        (
            TrafficChange(US, "impressions", 12_000.0, 3.0),
            "Searches of country US have almost stopped: 3 in the last settled hour; 12,000 is"
            " usual.",
        ),
    ],
)
def test_a_number_is_told_with_what_is_usual(change: TrafficChange, text: str) -> None:
    assert told(replace(quiet(), traffic=(change,))) == [text]


def test_all_searches_come_first_and_only_their_shares_leave_segments_out() -> None:
    found = (
        TrafficChange(FR, "impressions", 900.0, 3.0),
        TrafficChange(US, "zero_results_share", 0.1, 0.3, 9.0),
        TrafficChange(US, "feedback_share", 0.4, 0.1, -9.0),
        TrafficChange(WHOLE, "feedback_share", 0.4, 0.2, -9.0),
    )
    reading = replace(quiet(), traffic=found)
    answer = changes(reading, "1h", "settled", {}).traffic
    assert [(one.segment, one.metric) for one in answer] == [
        ("all", "feedback_share"),
        ("FR", "impressions"),
        ("US", "zero_results_share"),
    ]
    stopped = (Silence("searches", NOW_MS, 900.0),)
    assert told(replace(reading, silences=stopped)) == [], "that tells them all"
