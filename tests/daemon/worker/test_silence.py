"""Which topics have not had one event."""

from relevanced.daemon.worker import silence_text, silent_topics, unread_reasons


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
