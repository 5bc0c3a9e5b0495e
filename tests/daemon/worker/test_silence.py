"""Which topics have not had one event."""

from relevanced.daemon.worker.silence import silence_text, silent_topics


def test_a_topic_is_silent_until_its_first_event_in_any_lane() -> None:
    assert silent_topics([{"search": 7, "clicks": None}, {"search": None, "clicks": None}]) == (
        "clicks",
    )
    assert silent_topics([{"search": 7, "clicks": 8}]) == silent_topics([]) == ()


def test_readiness_names_the_topics_and_what_to_check() -> None:
    text = silence_text(("clicks", "search"), 2)
    assert "2 lanes" in text and "clicks, search" in text and "kafka.topics" in text
    assert silence_text((), 2) == ""
