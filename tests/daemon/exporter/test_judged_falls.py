"""Falls of judged scores: as rare as those of clicks where nothing changed, named while the same
judgements are in force, and over with them."""

import json
import re
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from relevanced.daemon.changes import DEFAULTS, Graded, Marker, MarkerReach, recovery
from relevanced.daemon.exporter import (
    Detection,
    Publisher,
    Told,
    open_change_samples,
    packed,
    restored,
    rows_plan,
)
from relevanced.daemon.http import ROUTES, Changes, OpenChange, changes, openapi
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.buckets import BucketsOverTime
from relevanced.daemon.recompute.falls import fallen
from relevanced.daemon.views import LaneFiles
from tests.daemon.exporter.judged_site import (
    MINUTE_MS,
    ONE_FILE,
    PART_MS,
    PLAN,
    JudgedSite,
    reading,
)
from tests.judged_lanes import NOON, entry

SEED: Final = 20261123
BROKEN: Final = NOON - 40 * MINUTE_MS
NEW: Final = entry(NOON + HOUR_MS, "b")
TWO_FILES: Final = LaneFiles(0, (*ONE_FILE.entries, NEW))


def falling(at_ms: int, country: str) -> float:
    return 0.6 if country == "DE" and at_ms >= BROKEN else 0.8


def site(judged: float = 0.9, per_hour: int = 3000) -> JudgedSite:
    return JudgedSite(
        falling, NOON - 20 * HOUR_MS, NOON + 30 * HOUR_MS, judged=judged, per_hour=per_hour
    )


@pytest.fixture(scope="module")
def fallen_site() -> JudgedSite:
    return site()


def told(
    site: JudgedSite, until_ms: int, publisher: Publisher, files: LaneFiles = ONE_FILE
) -> tuple[tuple[OpenChange, ...], tuple[OpenChange, ...]]:
    """(open, closed)."""
    found = changes(reading(site, until_ms, publisher, files), "1h", "settled", {})
    return found.open, found.closed


def test_a_fall_is_named_with_what_graded_it(fallen_site: JudgedSite) -> None:
    (change,), closed = told(fallen_site, NOON, Publisher(PLAN))
    assert change.judged and not closed
    assert change.id.startswith("j-") and change.id.endswith("-country-DE")
    assert (change.metric, change.segments) == ("nDCG(ideal=pool)@10", ("DE",))
    assert change.text == (
        "Judged nDCG(ideal=pool)@10 of country DE fell from 0.80 to 0.60 at 11:20, not recovered."
    )
    assert change.graded is not None and change.graded.judgements == "a.csv"
    assert change.graded.items_share == pytest.approx(0.9, abs=0.01) and not change.graded.doubts
    assert [each.metric for each in change.also] == ["P@5"]


def test_the_headline_tells_it_before_anything_is_known_by_clicks(fallen_site: JudgedSite) -> None:
    found = changes(reading(fallen_site, NOON, Publisher(PLAN)), "1h", "settled", {})
    assert found.headline.tone == "worse" and found.headline.change == found.open[0].id
    assert found.headline.text == found.open[0].text
    assert found.headline.detail == "It carries nearly all of the fall of the whole."


def test_lists_of_which_little_is_judged_say_so() -> None:
    (change,), _ = told(site(judged=0.43, per_hour=6000), NOON, Publisher(PLAN))
    assert change.graded is not None
    assert change.graded.doubts == (
        "Only 43 % of the first places are judged, so judged scores say little of these lists."
    )


def test_a_fall_ends_when_other_judgements_come_into_force(fallen_site: JudgedSite) -> None:
    publisher = Publisher(PLAN)
    (before,), _ = told(fallen_site, NEW.start_ms, publisher, TWO_FILES)
    open_now, (ended,) = told(fallen_site, NEW.start_ms + PART_MS, publisher, TWO_FILES)
    assert not open_now and (ended.id, ended.state) == (before.id, "superseded")
    assert ended.text == (
        "Judged nDCG(ideal=pool)@10 of country DE fell from 0.80 to 0.60 at 11:20; ended at 13:00: "
        "other judgements (b.csv) are in force since, so whether it recovered is not known."
    )
    assert ended.level_now == before.level_now and ended.recovered is None
    assert ended.graded is not None and ended.graded.superseded_by == "b.csv"
    open_now, (later,) = told(fallen_site, NEW.start_ms + 24 * HOUR_MS, publisher, TWO_FILES)
    assert not open_now and later.id == ended.id
    assert "at 20 Nov 11:20; ended at 20 Nov 13:00: other judgements" in later.text
    over_ms = NEW.start_ms + 24 * HOUR_MS + PART_MS
    assert told(fallen_site, over_ms, publisher, TWO_FILES) == ((), ())


def test_another_process_tells_the_same_change_under_the_same_name(fallen_site: JudgedSite) -> None:
    first, second = Publisher(PLAN), Publisher(PLAN)
    told(fallen_site, NOON, first)
    second.told = restored(packed(first.told), Told())
    assert second.told == first.told
    at = NEW.start_ms + PART_MS
    assert told(fallen_site, at, second, TWO_FILES) == told(fallen_site, at, first, TWO_FILES)
    assert told(fallen_site, at, Publisher(PLAN), TWO_FILES) == (
        (),
        (),
    ), "rows alone do not tell it"


def test_a_replay_ends_a_fall_with_its_judgements_too() -> None:
    short = JudgedSite(falling, NOON - 3 * HOUR_MS, NOON)
    shown = reading(short, NOON, Publisher(PLAN)).selection
    rows = short.parts[:, [short.names.index(segment) for segment in shown.segments]]
    plan = replace(rows_plan(PLAN), hour_ms=PART_MS)
    found = BucketsOverTime(plan, shown, np.array(short.starts), rows.astype(float), NOON)
    graded, other = Graded("a.csv", 0), Graded("b.csv", NOON)
    (story,), closed, *_ = fallen(found, DEFAULTS, graded)
    assert story.segments == ("DE",) and not closed
    open_now, (ended,), *_ = fallen(found, DEFAULTS, graded, other)
    assert not open_now and ended.identity == story.identity
    assert "; ended at 12:00: other judgements (b.csv) are in" in recovery(ended, NOON)


def test_an_answer_with_both_is_as_the_document_says(fallen_site: JudgedSite) -> None:
    document = json.loads(openapi.document("1.2.3", ROUTES))
    schema = {"$ref": "#/components/schemas/Changes", "components": document["components"]}
    found = changes(reading(fallen_site, NOON, Publisher(PLAN)), "1h", "settled", {})
    (judged,) = found.open
    whole = msgspec.structs.replace(found, open=(msgspec.structs.replace(judged, beside=judged),))
    body = json.loads(msgspec.json.encode(whole))
    assert body["open"][0]["beside"]["judged"] is True
    assert not [*Draft202012Validator(schema).iter_errors(body)]


@pytest.mark.parametrize(
    ("scope", "told_as"),
    [
        (MarkerReach(), [(False, "planned", True)]),
        (MarkerReach("RR@10"), [(False, "planned", False), (True, "open", False)]),
    ],
)
def test_a_planned_fall_of_clicks_does_not_hide_an_unplanned_one_by_judgements(
    fallen_site: JudgedSite, scope: MarkerReach, told_as: list[tuple[bool, str, bool]]
) -> None:
    found = reading(fallen_site, NOON, Publisher(PLAN))
    assert found.judged is not None
    (judged,) = found.judged.changes.open
    fall = replace(judged.fall, series=("country", "DE", "RR@10"), graded=None)
    clicked = replace(
        judged, fall=fall, also=(), own=replace(judged.own, judged_shares=(None,) * 2)
    )
    marker = Marker("m", BROKEN - 5 * MINUTE_MS, "planned", "more adverts", scope=scope)
    by_clicks = replace(found.clicks, changes=Detection(open=(clicked,), end_ms=NOON))
    both = replace(found, scores=(by_clicks, found.judged), markers=(marker,))
    answer = changes(both, "1h", "settled", {})
    of_open = [(each.judged, each.state, each.beside is not None) for each in answer.open]
    assert of_open == told_as
    assert answer.headline.tone == ("" if len(told_as) == 1 else "worse")


def test_a_new_file_that_grades_more_severely_opens_nothing_and_a_fall_by_it_does() -> None:
    """It gives 0.5 in the place of 0.8. The same scores by one file are a fall."""
    falls_ms = NOON + 4 * HOUR_MS

    def score(at_ms: int, _: str) -> float:
        return 0.4 if at_ms >= falls_ms else 0.5 if at_ms >= NEW.start_ms else 0.8

    site = JudgedSite(score, NOON - 20 * HOUR_MS, NOON + 6 * HOUR_MS)
    urgencies = {}
    for files in (TWO_FILES, ONE_FILE):
        publisher = Publisher(PLAN)
        urgencies[files] = [
            {
                each.urgency
                for each in reading(
                    site, NOON + minutes * MINUTE_MS, publisher, files
                ).judged.changes.told
            }
            for minutes in (0, 90, 150, 235, 300)
        ]
    assert urgencies[TWO_FILES] == [set(), set(), set(), set(), {"page"}]
    assert urgencies[ONE_FILE] == [set(), {"page"}, {"page"}, {"page"}, {"page"}]


def test_while_lanes_disagree_falls_end_and_none_begins(fallen_site: JudgedSite) -> None:
    refusing, publisher = LaneFiles(0, ONE_FILE.entries, (NEW,)), Publisher(PLAN)

    def at(until_ms: int) -> Changes:
        lane, as_of_ms = fallen_site.lane(until_ms, TWO_FILES), until_ms + PLAN.timing.lateness_ms
        other = replace(fallen_site.lane(until_ms, refusing), lane=1)
        read = publisher.publish([lane, other], as_of_ms, with_series=False).reading
        assert read is not None
        return changes(read, "1h", "settled", {})

    assert [each.state for each in at(NOON).open] == ["open"]
    found = at(NEW.start_ms + 3 * HOUR_MS)
    assert not found.open and [each.state for each in found.closed] == ["superseded"]
    assert "ended at 13:00: lanes grade by different judgements since, so" in found.closed[0].text


def test_a_fall_that_recovers_is_over_by_the_same_judgements() -> None:
    over_ms = NOON + HOUR_MS
    passing = JudgedSite(
        lambda at_ms, _: 0.6 if BROKEN <= at_ms < over_ms else 0.8, NOON - 20 * HOUR_MS,
        NOON + 4 * HOUR_MS,
    )  # fmt: skip
    publisher = Publisher(PLAN)
    (change,), _ = told(passing, NOON, publisher)
    open_now, (closed,) = told(passing, over_ms + 30 * MINUTE_MS, publisher)
    assert not open_now and (closed.id, closed.state) == (change.id, "recovered")
    assert closed.text.startswith("Judged nDCG(ideal=pool)@10 everywhere recovered at 13:00: for ")


def test_undisturbed_scores_fall_as_rarely_as_those_of_clicks() -> None:
    """60 series over a day and a half, 13 series-weeks, and a file that grades all of them lower:
    at 0.2 false calls in 1,000 series-weeks one is a chance of 1 in 400."""
    begin, new = NOON - 24 * HOUR_MS, entry(NOON, "b")
    countries = tuple(f"C{number:02}" for number in range(29))
    quiet = JudgedSite(
        lambda at_ms, _: 0.6 if at_ms >= NOON else 0.8,
        begin,
        NOON + 12 * HOUR_MS,
        countries,
        per_hour=1000,
        seed=SEED,
    )
    files, publisher = LaneFiles(0, (*ONE_FILE.entries, new)), Publisher(PLAN)
    for until_ms in range(begin + HOUR_MS, NOON + 12 * HOUR_MS, 10 * MINUTE_MS):
        looked = reading(quiet, until_ms, publisher, files).judged
        assert looked is not None and len(looked.changes.segments) == 1 + len(countries)
    assert publisher.told.falls == (), f"seed {SEED}"


def better_ranker() -> JudgedSite:
    """Since `BROKEN` good new items are shown that nobody has judged."""
    return JudgedSite(
        lambda at_ms, _: 0.82 if at_ms >= BROKEN else 0.9,
        NOON - 20 * HOUR_MS,
        NOON + HOUR_MS,
        judged=lambda at_ms: 0.915 if at_ms >= BROKEN else 1.0,
        best_case=lambda at_ms, _: 0.91 if at_ms >= BROKEN else 0.9,
    )


def test_nobody_can_tell_of_good_new_items_and_nothing_is_red() -> None:
    found = reading(better_ranker(), NOON, Publisher(PLAN))
    answer = changes(found, "1h", "settled", {})
    assert not answer.open and found.judged is not None and not found.judged.changes.told
    assert answer.headline.tone != "worse" and not found.judged.changes.open
    (entry_of,) = answer.undecided
    assert entry_of.state == "undecided" and entry_of.text.startswith(
        "Judged nDCG(ideal=pool)@10 everywhere: cannot tell whether it fell at 11:20: 8.5 % of the "
        "places are not judged, 0 % before. With these items as irrelevant it is 0.82 after 0.90, "
        "with them as good as judged ones 0.9"
    )
    assert entry_of.text.endswith(" relevanced judgements missing lists what to judge first.")
    assert entry_of.text in answer.headline.detail or answer.headline.tone == ""
    assert entry_of.graded is not None
    shares = entry_of.graded.items_share_before, entry_of.graded.items_share
    assert shares == pytest.approx((1, 0.915), abs=0.002)


def test_a_fall_that_both_readings_show_is_one_and_says_how_much_is_judged() -> None:
    worse = JudgedSite(
        lambda at_ms, _: 0.6 if at_ms >= BROKEN else 0.9,
        NOON - 20 * HOUR_MS,
        NOON + HOUR_MS,
        judged=lambda at_ms: 0.8 if at_ms >= BROKEN else 1.0,
        best_case=lambda at_ms, _: 0.75 if at_ms >= BROKEN else 0.9,
    )
    found = reading(worse, NOON, Publisher(PLAN))
    answer = changes(found, "1h", "settled", {})
    (change,) = answer.open
    assert not answer.undecided and change.graded is not None
    assert change.graded.best_case == pytest.approx(0.75, abs=0.01)
    assert re.fullmatch(
        "100 % of the first places were judged before, 80 % are since: were the others as good as "
        r"judged ones, it would be 0.7\d after 0.90\.",
        change.graded.doubts,
    )
    samples = {
        family.name: value
        for family, labels, value in open_change_samples("judgements", found.judged.changes, PLAN)
        if 'side="now"' in labels
    }
    assert samples["relevanced_change_open_best_case_score"] == pytest.approx(0.75, abs=0.01)
    assert samples["relevanced_change_open_judged_items_ratio"] == pytest.approx(0.8, abs=0.01)


def test_an_open_fall_is_undecided_once_its_best_case_is_back() -> None:
    """Another ranker comes after the fall: nobody has judged what it shows."""
    other_ms = NOON + HOUR_MS
    replaced = JudgedSite(
        lambda at_ms, _: 0.6 if at_ms >= BROKEN else 0.9,
        NOON - 20 * HOUR_MS,
        NOON + 40 * HOUR_MS,
        judged=lambda at_ms: 0.5 if at_ms >= other_ms else 1.0,
        best_case=lambda at_ms, _: 0.92 if at_ms >= other_ms else 0.6 if at_ms >= BROKEN else 0.9,
    )
    publisher = Publisher(PLAN)
    (change,), _ = told(replaced, NOON, publisher)
    found = reading(replaced, other_ms + 30 * HOUR_MS, publisher)
    answer = changes(found, "1h", "settled", {})
    assert not answer.open and [each.id for each in answer.undecided] == [change.id]
