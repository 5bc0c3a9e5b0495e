"""The same scores as JSON, CSV and a table."""

import csv
import io
import json

from relevanced.daemon.views import (
    busiest,
    evaluate,
    matching,
    report,
    to_csv,
    to_json,
    to_table,
    with_everything,
)
from tests.lane_views import NOW_MS, PLAN, Shown, lane_view, reported

FIELDS = [
    "metric",
    "grouping",
    "segment",
    "window",
    "view",
    "mean",
    "stderr",
    "scored",
    "impressions",
    "zero_results",
    "since",
]


def three_states() -> list[Shown]:
    """US has P@1 = 0 and an undefined RR@10; DE has no traffic in the last minute."""
    return [Shown(values=(0.0, None, 1.0)), Shown(country="DE", time_ms=NOW_MS - 300_000)]


def test_json_is_the_documented_object() -> None:
    found = json.loads(to_json(reported([lane_view([Shown()])])))
    assert list(found) == ["as_of", "events", "scores"]
    assert found["as_of"] == "2026-11-20T12:00:00.000Z"
    assert [list(score) for score in found["scores"][:1]] == [FIELDS]
    whole = {"metric": "RR@10", "grouping": "all", "segment": "all", "window": "1m", "view": "live"}
    assert {
        **whole,
        "mean": 0.5,
        "stderr": None,
        "scored": 1,
        "impressions": 1,
        "zero_results": 0,
        "since": None,
    } in found["scores"]


def test_events_are_the_stored_counts() -> None:
    counts = {
        "events": {"impression": 5, "feedback": 3},
        "rejected": {"not_json": 1, "tombstone": 0},
        "feedback_outcomes": {"joined": 2},
        "impression_outcomes": {"accepted": 4},
    }
    views = [lane_view([Shown()], lane=lane, counts=counts) for lane in (0, 1)]
    events = json.loads(to_json(reported(views)))["events"]
    assert (events["impressions"], events["feedback"]) == (10, 6)
    assert events["rejected"] == {"not_json": 2}
    assert (events["feedback_outcomes"]["joined"], events["feedback_outcomes"]["late"]) == (4, 0)
    assert events["impression_outcomes"]["accepted"] == 8


def test_no_traffic_undefined_and_zero_stay_three() -> None:
    result = reported([lane_view(three_states())])
    wanted = {"window": ["1m"], "view": ["live"], "grouping": ["country"]}
    of = {(s.segment, s.metric): s for s in matching(result, wanted).scores}
    assert (of["US", "P@1"].mean, of["US", "P@1"].impressions) == (0.0, 1)
    assert (of["US", "RR@10"].mean, of["US", "RR@10"].impressions) == (None, 1)
    assert (of["DE", "P@1"].mean, of["DE", "P@1"].impressions) == (None, 0)


def test_nothing_read_is_no_scores() -> None:
    found = json.loads(to_json(reported([])))
    assert (found["as_of"], found["scores"]) == (None, [])
    assert found["events"]["impressions"] == 0


def test_the_same_lanes_are_the_same_bytes() -> None:
    one = [lane_view([Shown(country=name) for name in "ABC"])]
    two = [lane_view([Shown(country=name) for name in "CBA"])]
    assert to_json(reported(one)) == to_json(reported(two))


def test_a_replay_adds_the_window_without_ends() -> None:
    views = [lane_view([Shown(), Shown(country="DE", time_ms=NOW_MS - 5_000_000)])]
    snapshot = with_everything(evaluate(views, PLAN), views, PLAN)
    result = report(snapshot, busiest(snapshot, PLAN), PLAN)
    wanted = {"window": ["all"], "metric": ["P@1"], "grouping": ["country"]}
    found = [(one.segment, one.view, one.impressions) for one in matching(result, wanted).scores]
    assert found == [("DE", "live", 1), ("US", "live", 1)]


def test_csv_has_an_empty_field_for_an_undefined_number() -> None:
    text = to_csv(reported([lane_view([Shown(country='a,"b\n')])]))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == FIELDS
    assert {row["mean"] for row in rows if row["metric"] == "nDCG@10"} == {""}
    assert 'a\\,"b\n' in {row["segment"] for row in rows}


def test_table_shows_three_states_in_words() -> None:
    text = to_table(reported([lane_view(three_states())]), "1m", "live")
    lines = {line.split()[1]: line for line in text.splitlines() if line.startswith("  country ")}
    assert "0.0000" in lines["US"] and "undefined" in lines["US"]
    assert lines["DE"].count("no traffic") == len(PLAN.metrics)


def test_table_notes_what_was_left_out() -> None:
    text = to_table(reported([lane_view([Shown(), Shown(values=(1.0, 1.0, 1.0))])]), "1m", "live")
    assert "nDCG@10: 1 of 2 impressions left out as undefined." in text
    assert "P@1:" not in text
    assert "MRR is the mean of RR." in text


def test_table_drops_standard_errors_where_they_do_not_fit() -> None:
    result = reported([lane_view([Shown(), Shown(values=(0.0, 1.0, 1.0))])])
    wide, narrow = (to_table(result, "1m", "live", width=width) for width in (140, 70))
    assert "0.5000 ±0.5000" in wide and "± is one standard error." in wide
    assert "0.5000" in narrow and "±" not in narrow


def test_table_spells_out_what_a_terminal_would_obey() -> None:
    hostile = Shown(country="\x1b[31m[bold]red[/bold]")
    text = to_table(reported([lane_view([hostile])]), "1m", "live")
    assert "\x1b" not in text
    assert "\\x1b[31m[bold]red[/bold]" in text


def test_table_without_scores_has_a_note() -> None:
    assert "No scores." in to_table(reported([]), "1m", "live")
