"""Topics without one event so far: empty ones, wrong ones, and those of another format. Pure."""

from collections.abc import Mapping, Sequence


def silent_topics(watermarks: Sequence[Mapping[str, int | None]]) -> tuple[str, ...]:
    """The topics that have had no event in any lane. `watermarks`: of each lane, topic → watermark,
    None before its first event; it is stored, so that a restart does not forget it."""
    topics = {topic for lane in watermarks for topic in lane}
    heard = {topic for lane in watermarks for topic, mark in lane.items() if mark is not None}
    return tuple(sorted(topics - heard))


def silence_text(topics: Sequence[str], lanes: int) -> str:
    """What readiness says about these topics; "" without any."""
    if not topics:
        return ""
    return (
        f"not one event so far, in the {lanes} lanes of this process, of {', '.join(topics)}: the"
        " topic is empty, or it is not the one that search writes to (kafka.topics), or its records"
        " have another format (events.format; relevanced_rejected_events_total counts them)"
    )
