"""The oracle is tested on cases computed by hand, one rule at a time.

Scaled down: base panes of 1 s, attribution window 60 s, lateness 5 s, depth 12, times in seconds
after START. So an impression of second 0 closes at watermark 66, and feedback of second t expires
at watermark t + 71.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.oracle import LaneResult, OracleConfig, Record, pane_s, run, steps, time_ms
from tests.oracle_metrics import score
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, START_MS, Json, random_records, timestamp, topic_names

START_S = START_MS // 1000
KEY = ("q", START_MS)


def shown(at_s: float = 0, items: Sequence[object] = "abc", **more: object) -> Json:
    event: Json = {"type": "impression", "impression_id": "q", "items": list(items), **more}
    return {"timestamp": START_MS + round(at_s * 1000), **event}


def reacted(at_s: float = 1, **more: object) -> Json:
    kind = {} if "kind" in more or "grade" in more else {"kind": "click"}
    event: Json = {"type": "feedback", "impression_id": "q", **kind, **more}
    return {"timestamp": START_MS + round(at_s * 1000), **event}


def tick(at_s: float) -> Json:
    """Moves the watermark and has no other effect."""
    return reacted(at_s, kind="hover", item="none", impression_id="tick")


def records(topic: str, *values: object, kafka_s: float | None = None) -> list[Record]:
    stamp = None if kafka_s is None else START_MS + round(kafka_s * 1000)
    return [
        Record(topic, 0, offset, stamp, json.dumps(value).encode())
        for offset, value in enumerate(values)
    ]


def lane(*values: object, config: OracleConfig = SMALL_CONFIG) -> LaneResult:
    return run(records("t", *values), ["t"], config)[0]


def gains_after(*feedback: Json, items: str = "abc") -> tuple[float, ...]:
    """The gains of one impression with this feedback."""
    return lane(shown(items=items), *feedback).open[KEY][1]


# Time and events ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "window_s, expected_s", [(300, 10), (3600, 120), (86400, 2880), (45, 3), (31, 31), (7, 1)]
)
def test_pane_is_the_least_divisor_from_a_thirtieth(window_s: int, expected_s: int) -> None:
    assert pane_s(window_s) == expected_s


@pytest.mark.parametrize(
    "value, expected_ms",
    [
        (99_999_999_999, 99_999_999_999_000),
        (100_000_000_000, 100_000_000_000),
        (99_999_999_999_999, 99_999_999_999_999),
        (100_000_000_000_999, 100_000_000_000),
        (1.2345, 1234),
        (0, 0),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:01.2349+01:00", 1234),
        ("1970-01-01T00:00:01.5+0000", 1500),
    ],
)
def test_timestamp_unit_follows_from_magnitude(value: object, expected_ms: int) -> None:
    assert time_ms(value) == expected_ms


def test_streams_write_one_instant_in_many_forms() -> None:
    rng = random.Random(1)
    instants = [START_MS + rng.randrange(10**8) for _ in range(3000)]
    assert all(time_ms(timestamp(rng, instant)) == instant for instant in instants)


LONG = "é" * 129


@pytest.mark.parametrize(
    "value, reason",
    [
        ("text", "wrong_type"),
        (shown(type="session"), "unknown_type"),
        (shown(impression_id=None), "missing_field"),
        (
            {"type": "feedback", "impression_id": "q", "timestamp": 1, "kind": "click"},
            "missing_field",
        ),
        (reacted(kind=None, item="a"), "missing_field"),
        (shown(timestamp=-1), "bad_timestamp"),
        (shown(timestamp=True), "bad_timestamp"),
        (shown(timestamp=10**17), "bad_timestamp"),
        (shown(timestamp="2026-11-20T12:00:00"), "bad_timestamp"),
        (shown(items=["a", ""]), "bad_id"),
        (shown(items=[LONG]), "bad_id"),
        (shown(items=["a"] * 12 + [""]), "bad_id"),
        (shown(items=[True]), "wrong_type"),
        (shown(items=[1.5]), "wrong_type"),
        (shown(grades={"": 1}), "bad_id"),
        (shown(first_rank=0), "bad_rank"),
        (reacted(rank=0), "bad_rank"),
        (reacted(item="a", grade=3.5), "bad_grade"),
        (shown(grades={"a": True}), "bad_grade"),
        (shown(grades={"a": "2"}), "bad_grade"),
        (reacted(item="a", kind=LONG), "bad_attribute"),
        (shown(query="x" * 4096), "too_large"),
    ],
)
def test_invalid_event_is_rejected_with_its_reason(value: object, reason: str) -> None:
    result = lane(value)
    assert result.rejected == {reason: 1}
    assert not result.events and result.watermarks == {"t": None}


@pytest.mark.parametrize(
    "context, reason",
    [
        ({"attributes": {"country": LONG}}, "long_value"),
        ({"attributes": {"country": []}}, "bad_value"),
        ({"experiments": {LONG: "x"}}, "long_name"),
        ({"attributes": {"not needed": LONG}}, None),
    ],
)
def test_bad_value_is_left_out(context: Json, reason: str | None) -> None:
    result = lane(shown(**context))
    assert result.rejected == ({} if reason is None else {reason: 1})
    assert result.impression_outcomes == {"accepted": 1}


@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b'{"a": NaN}'])
def test_bytes_that_are_not_json(value: bytes) -> None:
    assert run([Record("t", 0, 0, None, value)], ["t"], SMALL_CONFIG)[0].rejected == {"not_json": 1}


def test_tombstone_is_skipped_and_counted() -> None:
    assert run([Record("t", 0, 0, 0, None)], ["t"], SMALL_CONFIG)[0].rejected == {"tombstone": 1}


def test_integer_ids_are_their_decimal_text() -> None:
    result = lane(shown(items=[7, "a"], impression_id=5), reacted(impression_id="5", item="7"))
    assert result.open == {("5", START_MS): (("7", "a"), (1.0, 0.0))}


def test_rank_with_an_item_may_be_any_integer() -> None:
    assert lane(shown(), reacted(item="a", rank=-4)).feedback_outcomes["joined"] == 1


def test_array_elements_are_decided_in_order() -> None:
    result = lane([tick(66), 5, shown(0), shown(1)])
    assert result.impression_outcomes == {"late": 1, "accepted": 1}
    assert result.rejected == {"wrong_type": 1} and lane([]) == LaneResult(watermarks={"t": None})


def test_record_of_too_many_elements_is_rejected_once() -> None:
    config = replace(SMALL_CONFIG, max_record_bytes=1_000_000)
    assert lane([0] * 50_000, config=config).rejected == {"wrong_type": 50_000}
    assert lane([0] * 50_001, config=config).rejected == {"too_large": 1}


def lane_of_future(at_s: float, kafka_s: float | None) -> LaneResult:
    return run(records("t", shown(at_s), kafka_s=kafka_s), ["t"], SMALL_CONFIG)[0]


def test_future_is_more_than_max_future_after_the_kafka_timestamp() -> None:
    assert lane_of_future(20, 0).impression_outcomes == {"accepted": 1}
    assert lane_of_future(20.001, 0).rejected == {"future": 1}
    assert lane_of_future(20.001, 0).watermarks == {"t": None}
    assert lane_of_future(9999, None).impression_outcomes == {"accepted": 1}


# Impressions ----------------------------------------------------------------------------------


def test_impression_is_late_when_its_pane_has_closed() -> None:
    assert lane(tick(65.999), shown(0.5)).impression_outcomes == {"accepted": 1}
    assert lane(tick(66), shown(0.5)).impression_outcomes == {"late": 1}
    assert lane(tick(66), tick(10), shown(0.5)).impression_outcomes == {"late": 1}


def test_repeat_is_duplicate_or_conflicting_while_open() -> None:
    result = lane(shown(), shown(3), shown(0, "abd"), shown(0, ""))
    assert result.impression_outcomes == {"accepted": 1, "duplicate": 1, "conflicting": 2}
    assert lane(shown(0, ""), shown(0, "")).impression_outcomes["duplicate"] == 1


def test_repeat_is_decided_before_its_own_lateness() -> None:
    assert lane(shown(10), tick(70), shown(0)).impression_outcomes["duplicate"] == 1


def test_filled_list_keeps_time_and_segments() -> None:
    result = lane(shown(0, "", attributes={"country": "US"}), shown(3, "ab"))
    assert result.impression_outcomes == {"accepted": 1, "filled": 1}
    assert result.open == {KEY: (("a", "b"), (0.0, 0.0))}
    assert result.rows[30, START_S, "country", "US"]["zero_result_impressions"] == 0


def test_id_can_be_used_again_when_its_impression_has_closed() -> None:
    result = lane(shown(0, "a"), tick(65), shown(66, "b"), tick(66), shown(66, "b"))
    assert result.impression_outcomes == {"accepted": 2, "conflicting": 1}
    assert list(result.open) == [("q", START_MS + 66_000)]


@pytest.mark.parametrize(
    "page, first_rank, outcome, items",
    [
        ("de", 4, "extended", "abcde"),
        ("cde", 3, "extended", "abcde"),
        ("da", 4, "extended", "abcd-"),
        ("dcd", 4, "extended", "abcd-d"),
        ("bcb", 2, "extended", "abc-"),
        ("bc", 2, "duplicate", "abc"),
        ("b", 2, "duplicate", "abc"),
        ("", 4, "duplicate", "abc"),
        ("xcd", 2, "conflicting", "abc"),
        ("ac", 3, "conflicting", "abc"),
        ("e", 5, "conflicting", "abc"),
        ("defghijklmnop", 4, "extended", "abcdefghijkl"),
    ],
)
def test_later_page(page: str, first_rank: int, outcome: str, items: str) -> None:
    result = lane(shown(), shown(1, page, first_rank=first_rank))
    assert result.impression_outcomes == {"accepted": 1, outcome: 1}
    assert result.open[KEY][0] == tuple(None if item == "-" else item for item in items)


def test_page_with_a_blank_is_a_duplicate_when_repeated() -> None:
    page = shown(1, "da", first_rank=4)
    assert lane(shown(), page, page).impression_outcomes["duplicate"] == 1


SHOWN_CONFIG = replace(SMALL_CONFIG, ubi_shown=True)


def seen(item: str, rank: int, at_s: float = 0, action: str = "impression") -> Json:
    place = {"object": {"object_id": item}, "position": {"ordinal": rank}}
    event: Json = {"action_name": action, "query_id": "q", "event_attributes": place}
    return {"timestamp": START_MS + round(at_s * 1000), **event}


@pytest.mark.parametrize(
    ("items", "outcomes", "final"),
    [
        ("c3", "accepted", "--c"),
        ("c3 a1 b2", "accepted extended extended", "abc"),
        ("c3 e5", "accepted extended", "--c-e"),
        ("a1 a1 a2 b1", "accepted duplicate conflicting conflicting", "a"),
        ("b2 x13", "accepted duplicate", "-b"),
        ("x13 a1", "later_page accepted", "a"),
    ],
)
def test_items_logged_one_by_one(items: str, outcomes: str, final: str) -> None:
    events = [seen(text[0], int(text[1:])) for text in items.split()]
    result = lane(*events, config=SHOWN_CONFIG)
    assert result.impression_outcomes == Counter(outcomes.split())
    assert "".join(item or "-" for item in result.open[KEY][0]) == final


def test_feedback_on_items_logged_one_by_one() -> None:
    clicks = [seen("b", 2, 1, "click"), seen("b", 3, 2, "purchase")]
    for events in ((seen("a", 1), seen("b", 2), *clicks), (*clicks, seen("b", 2), seen("a", 1))):
        result = lane(*events, config=SHOWN_CONFIG)
        assert result.open[KEY] == (("a", "b"), (0.0, 3.0))
        assert result.feedback_outcomes == {"joined": 2, "rank_mismatch": 1}


def test_later_page_alone_is_late_or_not_scored() -> None:
    assert lane(shown(first_rank=2)).impression_outcomes == {"later_page": 1}
    assert lane(tick(66), shown(first_rank=2)).impression_outcomes == {"late": 1}


def test_first_list_is_cut_at_depth() -> None:
    assert len(lane(shown(items="abcdefghijklmno")).open[KEY][0]) == 12


def test_grades_of_a_record_go_to_the_items_it_adds() -> None:
    page = shown(2, "dad", first_rank=4, grades={"a": 3, "b": 3, "d": 2})
    result = lane(shown(grades={"a": 1, "x": 3, "c": -1}), page)
    assert result.open[KEY] == (("a", "b", "c", "d", None, "d"), (1, 0, 0, 2, 0, 0))
    assert result.rows[30, START_S, "all", "all"]["items_with_feedback"] == 3


def test_grades_have_the_time_of_their_record() -> None:
    fill = shown(2, "ab", grades={"a": 2})
    assert lane(shown(0, ""), fill, reacted(1, item="a", grade=3)).open[KEY][1] == (2, 0)
    assert lane(shown(0, ""), fill, reacted(3, item="a", grade=3)).open[KEY][1] == (3, 0)


# Feedback -------------------------------------------------------------------------------------


def test_unknown_kind_without_grade_is_ignored() -> None:
    result = lane(shown(), reacted(3, kind="hover", item="a"))
    assert result.feedback_outcomes == {"ignored_kind": 1}
    assert result.watermarks == {"t": START_MS + 3000}
    assert gains_after(reacted(kind="hover", item="a", grade=2)) == (2, 0, 0)


def test_feedback_is_late_when_it_has_expired_on_arrival() -> None:
    assert lane(tick(71), reacted(0, item="a")).feedback_outcomes["late"] == 1
    assert len(lane(tick(70.999), reacted(0, item="a")).waiting) == 1


def test_feedback_may_precede_its_impression_by_five_seconds() -> None:
    assert lane(shown(6), reacted(1, item="a")).feedback_outcomes == {"joined": 1}
    assert lane(shown(6), reacted(0.999, item="a")).waiting[0][:3] == ("q", START_MS + 999, "a")


def test_feedback_after_the_window_is_out_of_window() -> None:
    assert lane(shown(), reacted(60, item="a")).feedback_outcomes == {"joined": 1}
    assert lane(shown(), reacted(60.001, item="a")).feedback_outcomes == {"out_of_window": 1}


def test_feedback_goes_to_the_earliest_impression_open_to_it() -> None:
    first, second = shown(0, "a"), shown(66, "a")
    early = records("u", reacted(40, item="a"), tick(66), reacted(66, item="a"))
    result = run(records("s", first, tick(66), second) + early, ["s", "u"], SMALL_CONFIG)[0]
    assert result.feedback_outcomes == {"joined": 2, "ignored_kind": 2}
    assert result.open == {("q", START_MS + 66_000): (("a",), (1.0,))}
    assert result.totals["all", "all"]["impressions_with_feedback"] == 1


def test_feedback_never_joins_an_impression_closed_to_it() -> None:
    result = lane(shown(), tick(66), reacted(1, item="a"), tick(72))
    assert result.feedback_outcomes == {"ignored_kind": 2, "unjoined": 1}


@pytest.mark.parametrize(
    "target, rank0, mismatches",
    [
        ({"item": "b"}, 1, 0),
        ({"item": "a"}, 0, 0),
        ({"item": "a", "rank": 3}, 2, 0),
        ({"item": "a", "rank": 2}, 0, 1),
        ({"item": "b", "rank": 99}, 1, 1),
        ({"rank": 2}, 1, 0),
    ],
)
def test_item_is_found_by_id_first(target: dict[str, Any], rank0: int, mismatches: int) -> None:
    result = lane(shown(items="aba"), reacted(**target))
    assert result.open[KEY][1][rank0] == 1
    assert result.feedback_outcomes["rank_mismatch"] == mismatches


def test_blank_is_found_by_rank_alone() -> None:
    page = shown(1, "a", first_rank=4)
    result = lane(shown(), page, reacted(rank=4), reacted(item="a", rank=4))
    assert result.open[KEY][1] == (1, 0, 0, 1)
    assert result.feedback_outcomes == {"joined": 2, "rank_mismatch": 1}


def test_waiting_feedback_joins_what_arrives_later() -> None:
    clicks = [reacted(1, item="a"), reacted(2, item="d"), reacted(2, rank=5)]
    page = shown(1, "de", first_rank=4)
    for events in ([*clicks, shown(), page], [shown(0, ""), *clicks, shown(), page]):
        assert lane(*events).open[KEY][1] == (1, 0, 0, 1, 1)
    assert lane(shown(), *clicks).feedback_outcomes == {"joined": 1}


@pytest.mark.parametrize(
    "target, outcome",
    [
        ({"item": "x"}, "off_list"),
        ({"item": "x", "rank": 2}, "off_list"),
        ({"item": "x", "rank": 13}, "beyond_depth"),
        ({"rank": 12}, "off_list"),
    ],
)
def test_feedback_off_the_list_expires_by_the_lane_watermark(
    target: dict[str, Any], outcome: str
) -> None:
    waiting = lane(shown(), reacted(1, **target), tick(71.999))
    assert len(waiting.waiting) == 1 and waiting.feedback_outcomes == {"ignored_kind": 1}
    expired = lane(shown(), reacted(1, **target), tick(72))
    assert not expired.waiting and expired.feedback_outcomes[outcome] == 1


def test_rank_beyond_depth_needs_an_impression() -> None:
    assert lane(shown(), reacted(rank=13)).feedback_outcomes == {"beyond_depth": 1}
    assert len(lane(reacted(rank=13)).waiting) == 1
    assert lane(reacted(rank=13), tick(72)).feedback_outcomes["unjoined"] == 1


def test_feedback_of_an_impression_does_not_move_to_the_next() -> None:
    events = records("s", shown(0, "a"), tick(66), shown(66, "x"))
    result = run(events + records("u", reacted(62, item="x")), ["s", "u"], SMALL_CONFIG)[0]
    assert result.feedback_outcomes["out_of_window"] == 1
    result = run(events + records("u", reacted(59, item="x")), ["s", "u"], SMALL_CONFIG)[0]
    assert [feedback[2] for feedback in result.waiting] == ["x"]


@pytest.mark.parametrize(
    "feedback, gain",
    [
        ([reacted(1, item="a"), reacted(2, item="a", kind="purchase")], 3),
        ([reacted(2, item="a", kind="purchase"), reacted(3, item="a")], 3),
        ([reacted(1, item="a", kind="purchase"), reacted(0, item="a", grade=0.5)], 0.5),
        ([reacted(1, item="a", grade=3), reacted(2, item="a", grade=1)], 1),
        ([reacted(2, item="a", grade=1), reacted(1, item="a", grade=3)], 1),
        ([reacted(1, item="a", grade=1), reacted(1, item="a", grade=2)], 2),
        ([reacted(1, item="a", grade=2), reacted(1, item="a", grade=1)], 2),
        ([reacted(1, item="a", grade=-2)], 0),
    ],
)
def test_gain_is_the_latest_grade_else_the_best_kind(feedback: list[Json], gain: float) -> None:
    assert gains_after(*feedback) == (gain, 0, 0)


def test_grade_of_0_is_still_feedback() -> None:
    row = lane(shown(), reacted(item="a", grade=0)).rows[30, START_S, "all", "all"]
    assert (row["impressions_with_feedback"], row["items_with_feedback"]) == (1, 1)
    assert row["nDCG@10:scored"] == 0 and row["P@1:scored"] == 1


# Segments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, segment",
    [
        ("US", "US"),
        ("a,b\\c", "a\\,b\\\\c"),
        ("all", "\\all"),
        ("other", "\\other"),
        ("others", "others"),
        (True, "true"),
        (12, "12"),
        (2.5, "2.5"),
        (None, "(none)"),
        ("", "(none)"),
    ],
)
def test_segment_is_the_escaped_value(value: object, segment: str) -> None:
    config = replace(SMALL_CONFIG, groupings=(("country",), ("experiment:r", "country")))
    result = lane(shown(attributes={"country": value}, experiments={"r": "x"}), config=config)
    assert {key[3] for key in result.rows if key[2] == "country"} == {segment}
    assert {key[3] for key in result.rows if key[2] != "country"} == {"all", f"x,{segment}"}


def searches(*countries: tuple[float, str]) -> Counter[str]:
    """Impressions by segment of `country` after these searches, each with an id of its own."""
    events = [
        shown(at_s, impression_id=f"q{index}", attributes={"country": country})
        for index, (at_s, country) in enumerate(countries)
    ]
    result = lane(*events, config=replace(SMALL_CONFIG, groupings=(("country",),)))
    counted: Counter[str] = Counter()
    for (window_s, _, grouping, segment), row in result.rows.items():
        if window_s == 30 and grouping == "country":
            counted[segment] += row["impressions"]
    assert result.segment_overflow == ({"country": counted["other"]} if counted["other"] else {})
    return counted


TEN = [(0.0, f"c{index}") for index in range(10)]


def test_eleventh_value_is_other() -> None:
    assert searches(*TEN, (1, "new"), (1, "c3"))["other"] == 1


def test_value_unseen_for_the_longest_window_is_evicted() -> None:
    """Ten minutes are 30 panes of 20 s; pane 31 by the event's watermark evicts pane 0."""
    kept = [(300.0, name) for _, name in TEN[1:]]
    assert searches(*TEN, *kept, (500, "c9"), (619.9, "c9"), (640, "new"))["other"] == 1
    assert searches(*TEN, *kept, (500, "c9"), (620, "c9"), (640, "new"))["new"] == 1


def test_last_seen_follows_the_watermark_of_the_events() -> None:
    """c0 and c1 were last seen at the start, the others at second 300: two are evicted, not ten."""
    kept = [(300.0, name) for _, name in TEN[1:]]
    counted = searches(*TEN, *kept, (500, "c9"), (620, "c9"), *((640.0, name) for name in "xyz"))
    assert (counted["x"], counted["y"], counted["z"], counted["other"]) == (1, 1, 0, 1)


def test_only_accepted_impressions_admit_values() -> None:
    again = shown(impression_id="q0", attributes={"country": "new"})
    events = [shown(impression_id=f"q{n}", attributes={"country": f"c{n}"}) for n in range(9)]
    last = shown(impression_id="last", attributes={"country": "tenth"})
    assert not lane(*events, again, last).segment_overflow


# Jumps of the watermark ------------------------------------------------------------------------


def confirming(at_s: float, ids: int, apart_s: float = 20) -> list[Json]:
    return [tick(at_s + n * apart_s) | {"impression_id": f"tick {n}"} for n in range(ids)]


@pytest.mark.parametrize(
    "events, watermark_s, ahead",
    [
        ([tick(300)], 300, 0),
        ([tick(300.001)], 0, 1),
        (confirming(400, 3), 0, 3),
        (confirming(400, 4), 400, 4),
        (confirming(400, 9, apart_s=7), 0, 9),
        (confirming(400, 9, apart_s=8), 400, 9),
        ([tick(400 + n) for n in range(99)], 0, 99),
        ([*confirming(9000, 2), *confirming(400, 4)[2:]], 440, 4),
        ([*confirming(400, 2), tick(1), tick(2), *confirming(400, 3)], 2, 5),
        ([*confirming(400, 2), tick(-300), tick(-300), *confirming(400, 4)], 400, 6),
        ([*confirming(0, 24, apart_s=3600)], 20 * 3600, 23),
    ],
)
def test_a_jump_waits_for_confirmation(events: list[Json], watermark_s: float, ahead: int) -> None:
    result = lane(shown(), *events)
    assert result.watermarks == {"t": START_MS + watermark_s * 1000}
    assert result.ahead["t"] == ahead


def test_what_is_ahead_is_judged_by_the_watermark_before_it() -> None:
    ahead = [shown(9000, impression_id="a"), reacted(9000, impression_id="a", item="a")]
    result = lane(shown(), *ahead, reacted(1, item="a"))
    assert result.impression_outcomes == {"accepted": 2}
    assert result.feedback_outcomes == {"joined": 2}


# Rows -----------------------------------------------------------------------------------------


def test_row_of_one_impression_by_hand() -> None:
    """Gains 0, 1, 3: ERR = 1/8/2 + 7/8*7/8/3; nDCG = (1/log2 3 + 7/2) / (7 + 1/log2 3)."""
    result = lane(shown(25), reacted(26, item="b"), reacted(26, item="c", kind="purchase"))
    row = result.rows[600, START_S + 20, "all", "all"]
    assert result.rows[120, START_S + 24, "device", "(none)"] == row
    assert [row[f"{name}:sum"] for name in SMALL_CONFIG.metric_names] == [
        *(0, 400_000, 200_000, 1_000_000, 500_000, 317_708, 541_340)
    ]
    assert row["RR@10:squares"] == 250_000 and row["ERR@10:squares"] == 100_939


def test_sums_are_rounded_up_from_just_below_one_half() -> None:
    assert [steps(value, 10**6) for value in (4.99e-7, 4.9995e-7, 5e-7, 1.0)] == [0, 1, 1, 10**6]


def test_empty_list_scores_zero_and_is_counted() -> None:
    row = lane(shown(items="")).rows[30, START_S, "all", "all"]
    assert row["zero_result_impressions"] == row["P@5:scored"] == row["ERR@10:scored"] == 1
    assert row["P@5:sum"] == row["nDCG@10:scored"] == row["items_with_feedback"] == 0
    assert row["items_listed"] == row["squared_items_listed"] == 0


def test_lengths_of_lists_are_summed_and_squared() -> None:
    lists = [shown(items="abc", impression_id="p"), shown(items="ab", impression_id="q")]
    row = lane(*lists, reacted(item="b", impression_id="p")).rows[30, START_S, "all", "all"]
    assert (row["items_listed"], row["squared_items_listed"]) == (3 + 2, 9 + 4)


def test_list_is_counted_up_to_depth_and_grows_with_its_later_pages() -> None:
    row = lane(shown(items="abcdefghijklmno")).rows[30, START_S, "all", "all"]
    assert (row["items_listed"], row["squared_items_listed"]) == (12, 144)
    row = lane(shown(items="abc"), shown(2, "de", first_rank=4)).rows[30, START_S, "all", "all"]
    assert (row["items_listed"], row["squared_items_listed"]) == (5, 25)


def test_base_pane_settles_when_the_lane_watermark_reaches_its_close() -> None:
    before = lane(shown(), shown(1, impression_id="r"), tick(65.999))
    assert not before.totals and len(before.open) == 2
    after = lane(shown(), shown(1, impression_id="r"), tick(66))
    assert after.totals["all", "all"]["impressions"] == 1
    assert list(after.open) == [("r", START_MS + 1000)] and len(after.rows) == len(before.rows)


def test_silent_topic_delays_settling() -> None:
    result = run(records("s", shown(), tick(500)), ["s", "u"], SMALL_CONFIG)[0]
    assert not result.totals and result.watermarks["u"] is None


# Metrics --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, gains, expected",
    [
        ("P@5", [1, 0, 2], 0.4),
        ("P(rel=2)@5", [1, 0, 2], 0.2),
        ("P", [], 0),
        ("Success@2", [0, 0, 1], 0),
        ("Success@3", [0, 0, 1], 1),
        ("R@1", [1, 0, 1], 0.5),
        ("RR", [0, 0.5, 1], 1 / 3),
        ("RR@2", [0, 0, 1], 0),
        ("AP@2", [1, 0, 1], 0.5),
        ("AP", [1, 0, 1], (1 + 2 / 3) / 2),
        ("ERR@10", [0, 3], 7 / 16),
        ("nDCG@1", [0, 3], 0),
        ("nDCG(gain=linear)@2", [1, 2], (1 + 2 * 0.6309297535714575) / (2 + 0.6309297535714575)),
        ("nDCG@10", [0, 0], None),
    ],
)
def test_metric_by_hand(name: str, gains: list[float], expected: float | None) -> None:
    assert score(name, gains) == (None if expected is None else pytest.approx(expected))


# Streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(8))
def test_result_does_not_depend_on_how_topics_interleave(seed: int) -> None:
    rng = random.Random(seed)
    stream = random_records(rng, events=300)
    topics = topic_names(2)
    expected = run(stream, topics, SMALL_CONFIG)
    by_topic = {topic: [record for record in stream if record.topic == topic] for topic in topics}
    order = [record.topic for record in stream]
    rng.shuffle(order)
    queues = {topic: iter(of_topic) for topic, of_topic in by_topic.items()}
    shuffled = [next(queues[topic]) for topic in order]
    for mixed in (shuffled, by_topic[topics[0]] + by_topic[topics[1]]):
        assert run(mixed, topics, SMALL_CONFIG) == expected
    assert run(by_topic[topics[1]] + by_topic[topics[0]], topics, SMALL_CONFIG) == expected


OUTCOMES = {
    "events": "impressions feedback",
    "rejected": "not_json wrong_type unknown_type missing_field bad_timestamp bad_id bad_rank "
    "bad_grade bad_attribute too_large future tombstone long_value bad_value long_name",
    "impression_outcomes": "accepted duplicate filled extended conflicting later_page late",
    "feedback_outcomes": "joined rank_mismatch ignored_kind late out_of_window beyond_depth "
    "off_list unjoined",
    "segment_overflow": "country country,device",
}


@pytest.mark.parametrize("topics", [1, 2])
def test_streams_have_every_outcome(topics: int) -> None:
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in OUTCOMES}
    left: Counter[str] = Counter()
    for seed in range(80):
        stream = random_records(random.Random(seed), topics=topics)
        for result in run(stream, topic_names(topics), SMALL_CONFIG).values():
            for kind, counted in outcomes.items():
                counted.update(getattr(result, kind))
            left.update(open=len(result.open), waiting=len(result.waiting))
            left.update(settled=len(result.totals))
    assert {kind: set(counted) for kind, counted in outcomes.items()} == {
        kind: set(names.split()) for kind, names in OUTCOMES.items()
    }
    assert min(left[name] for name in ("open", "waiting", "settled")) > 0


def test_streams_fit_the_default_configuration() -> None:
    stream = random_records(random.Random(4), config=OracleConfig(), span_s=40_000)
    results = run(stream, topic_names(2), OracleConfig()).values()
    assert all(result.totals and result.feedback_outcomes["joined"] for result in results)


def test_streams_follow_from_their_seed_and_keep_an_id_in_one_lane() -> None:
    stream = random_records(random.Random(3), partitions=4)
    assert stream == random_records(random.Random(3), partitions=4)
    lanes_of: dict[object, set[int]] = {}
    for record in stream:
        try:
            value = json.loads(record.value or b"[]")
        except ValueError:
            continue
        for event in value if isinstance(value, list) else [value]:
            if isinstance(event, dict) and isinstance(event.get("impression_id"), (str, int)):
                lanes_of.setdefault(str(event["impression_id"]), set()).add(record.partition)
    strays = {identity for identity, lanes in lanes_of.items() if len(lanes) > 1}
    assert len(lanes_of) > 50 and strays <= {"", "True", "x" * 257, LONG}
