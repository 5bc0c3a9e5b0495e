"""Topics without one event so far: empty ones, wrong ones, and those of another format; and empty
partitions that a lane waits for. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from ..lane import Lane, place_of, topic_and_reason, topic_of

NAMED: Final = 3
Counts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Family → label → count, of a lane."""


def silent_topics(watermarks: Sequence[Mapping[str, int | None]]) -> tuple[str, ...]:
    """The topics that have had no event in any lane. `watermarks`: of each lane, log → watermark,
    None before its first event; it is stored, so that a restart does not forget it."""
    topics = {topic_of(log) for lane in watermarks for log in lane}
    heard = {topic_of(log) for lane in watermarks for log, mark in lane.items() if mark is not None}
    return tuple(sorted(topics - heard))


def unread_reasons(lanes: Iterable[Counts], topics: Sequence[str]) -> dict[str, int]:
    """Reason → records, or parts of some, that are no events: those left out of these topics, and
    those refused of any topic, because refusals are not counted by topic. The most frequent
    first."""
    found = Counter[str]()
    for counts in lanes:
        found.update(counts.get("rejected", {}))
        for label, count in counts.get("skipped", {}).items():
            topic, reason = topic_and_reason(label)
            found[reason] += count if topic in topics else 0
    return {reason: count for reason, count in found.most_common() if count}


def silence_text(
    topics: Sequence[str],
    lanes: int,
    reasons: Mapping[str, int] | None = None,
    brokers: Sequence[str] = (),
) -> str:
    """What readiness says about these topics; "" without any.
    `reasons`: of `unread_reasons`."""
    if not topics:
        return ""
    text = f"not one event so far, in the {lanes} lanes of this process, of {', '.join(topics)}: "
    if not reasons:
        return (
            f"{text}the topic is empty, or it is not the one that search writes to (kafka.topics),"
            " or its records have another format (events.format;"
            " relevanced_rejected_events_total counts them)"
        )
    listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
    server = f" --kafka {','.join(brokers)}" if brokers else ""
    return (
        f"{text}records were read that are no events by this configuration ({listed}). What they"
        f" are, and a configuration that reads them: relevanced doctor{server}"
        f" --topics {','.join(topics)}"
    )


def waited_for_text(lane: Lane) -> str:
    """Which partitions keep a lane of all from settling; "" where none does."""
    if not lane.is_one:
        return ""
    logs = [log for log, mark in lane.watermarks.items() if mark is None and log not in lane.lifts]
    named = [f"{topic}[{at}]" for topic, at in (place_of(lane.number, log) for log in logs)]
    if not named:
        return ""
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    return (
        f"nothing settles before the first event of {', '.join(named[:NAMED])}{more}, or before"
        " kafka.idle_after lets the lane not wait for it"
    )
