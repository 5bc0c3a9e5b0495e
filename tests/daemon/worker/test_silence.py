"""Which topics have not had one event."""

from relevanced.daemon.worker import silence_text, silent_topics, unread_reasons, waited_for_text
from tests.builders import lane_of


def test_a_topic_is_silent_until_its_first_event_in_any_lane() -> None:
    assert silent_topics([{"search": 7, "clicks": None}, {"search": None, "clicks": None}]) == (
        "clicks",
    )
    assert silent_topics([{"search": 7, "clicks": 8}]) == silent_topics([]) == ()


def test_readiness_names_the_topics_and_what_to_check() -> None:
    text = silence_text(("clicks", "search"), 2)
    assert "2 lanes" in text and "clicks, search" in text and "kafka.topics" in text
    assert silence_text((), 2) == ""


def test_records_that_are_no_events_are_named_by_reason_with_the_command_that_looks_at_them() -> (
    None
):
    lanes = [
        {"skipped": {"clicks/not_mapped": 800, "search/no_list": 7}, "rejected": {"bad_id": 3}},
        {"skipped": {"clicks/not_mapped": 12}, "rejected": {"bad_id": 0}},
    ]
    reasons = unread_reasons(lanes, ("clicks",))
    assert reasons == {"not_mapped": 812, "bad_id": 3}
    text = silence_text(("clicks",), 2, reasons, ("a:9092", "b:9092"))
    assert "(not_mapped 812, bad_id 3)" in text
    assert text.endswith("relevanced doctor --kafka a:9092,b:9092 --topics clicks")
    assert unread_reasons([{}], ("clicks",)) == {}


def test_partitions_that_a_lane_waits_for_are_named() -> None:
    lane = lane_of("search/0", "search/1", "clicks/0")
    assert waited_for_text(lane_of("search", "clicks")) == "", "topics without an event are named"
    lane.watermarks["search/0"] = 5
    assert "before the first event of search[1], clicks[0], or" in waited_for_text(lane)
    assert silent_topics([lane.watermarks]) == ("clicks",)
    lane.lifts |= {"search/1": 3, "clicks/0": 3}
    assert waited_for_text(lane) == "" and lane.watermark_ms == 3
    skipped = {"skipped": {"clicks/0/not_mapped": 8, "search/1/no_list": 7}}
    assert unread_reasons([skipped], ("clicks",)) == {"not_mapped": 8}
