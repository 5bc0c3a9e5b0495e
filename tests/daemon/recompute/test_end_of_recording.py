"""The end of what is read confirms its own last records: each impression is in a bucket."""

import random
from collections import Counter

import pytest

from relevanced.daemon.events import Impression
from relevanced.daemon.recompute.buckets import RecordedBuckets, plan_in_buckets
from relevanced.daemon.recompute.driver import LaneDriver
from tests.builders import BASE_MS, PLAN, START_MS, TOPIC, lane_of, shown
from tests.seeds import seeds

BUCKET_MS = 30 * BASE_MS
OUTAGES_MS = (0, 290_000, 310_000, 3_600_000)
"""Around five minutes, which a watermark passes without confirmation."""
GAPS_MS = (50, 5_000, 300_001, 600_000)


def recording(rng: random.Random) -> list[Impression]:
    """Busy and sparse stretches with outages between them, and some clocks that are wrong."""
    found, at_ms = list[Impression](), 0
    for _ in range(rng.randrange(1, 5)):
        at_ms += rng.choice(OUTAGES_MS)
        gap_ms = rng.choice(GAPS_MS)
        for _ in range(rng.randrange(1, 40)):
            at_ms += gap_ms
            found.append(shown(at_ms, of=f"q{len(found)}"))
    for _ in range(rng.randrange(3)):
        ahead = shown(at_ms + rng.randrange(10**12), of=f"q{len(found)}")
        found.insert(rng.randrange(1, len(found) + 1), ahead)
    return found


def counted(events: list[Impression], size: int, *topics: str) -> tuple[Counter[int], int]:
    """(Start of a bucket → its impressions, those that the lane accepted), of batches of a size."""
    buckets = RecordedBuckets(BUCKET_MS)
    lane = lane_of(*topics, plan=plan_in_buckets(PLAN, BUCKET_MS))
    driver = LaneDriver(lane, buckets)
    for start in range(0, len(events), size):
        driver.apply_events(TOPIC, events[start : start + size])
    final_ms = lane.settled_before or 0
    driver.finish()
    assert buckets.settled_ms == final_ms, "an end confirms no feedback"
    found = {start: int(pages[0][0, 0]) for start, pages in buckets.pages.items()}
    return Counter(found), lane.counts["impression_outcomes"]["accepted"]


@pytest.mark.parametrize("seed", seeds(30))
def test_each_impression_of_a_recording_is_in_its_bucket(seed: int) -> None:
    rng = random.Random(seed)
    events = recording(rng)
    found, accepted = counted(events, rng.choice([1, 7, 10_000]))
    assert found.total() == accepted == len(events)
    assert found == Counter(event.time_ms - event.time_ms % BUCKET_MS for event in events)


def test_no_log_that_has_ended_is_waited_for() -> None:
    """A topic of clicks may have none."""
    events = [shown(second * 1_000, of=f"q{second}") for second in range(900)]
    found, accepted = counted(events, 100, TOPIC, "clicks")
    assert found.total() == accepted == len(events)
    assert found[START_MS - START_MS % BUCKET_MS] == BUCKET_MS // 1_000
