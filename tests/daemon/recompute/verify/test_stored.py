"""What one read of the store gives is the lane at one commit, whatever went on meanwhile."""

import random
from dataclasses import replace

from relevanced.daemon.recompute.proof import begin_of, stored_lane
from relevanced.daemon.storage import Head, WriterState
from tests.builders import BASE_MS, PLAN, START_MS, plan_with
from tests.daemon.recompute.verify.stages import logs_of, proven, written
from tests.streams import SMALL_CONFIG, random_records

WATERMARK = START_MS + 2 * 3_600_000 + 3_600_000


def head(**changes: object) -> Head:
    return Head("t", 1, {"a": 9}, watermarks={"a": WATERMARK}, **changes)


def test_panes_that_were_dropped_during_the_read_are_left_out() -> None:
    first = PLAN.timing.dropped_before(PLAN.timing.windows[0], WATERMARK)
    keys = [f"rows:300:{first - BASE_MS}:0", f"rows:300:{first}:0", f"rows:300:{first}:3"]
    found = stored_lane(0, head(), [], dict.fromkeys(keys, b"x"), PLAN)
    assert found.panes == {(0, first): {0: b"x", 3: b"x"}}


def test_hours_that_were_dropped_or_lost_are_left_out() -> None:
    plan = plan_with(history_hours=2)
    hour, state = 3_600_000, WriterState(settled_before=START_MS, lost_hours=[START_MS - 3_600_000])
    starts = [START_MS - 3 * hour, START_MS - 2 * hour, START_MS - hour, START_MS]
    pages = {f"hours:{start}:0": b"x" for start in starts}
    found = stored_lane(0, head(state=state), [], pages, plan)
    assert sorted(found.hours) == [START_MS - 2 * hour, START_MS]


def test_lane_begins_where_its_head_says_but_for_replaced_logs() -> None:
    start = {"a": 4, "b": 0}
    assert begin_of(head(start=start)) == start
    assert begin_of(head(start=start, counts={"replaced_logs": {"b": 1}})) == {"a": 4}
    assert begin_of(head()) == {}


def test_segments_are_matched_by_name() -> None:
    """The worker took topics in turns of its own, so segments have other ids than in the proof."""
    rng, both = random.Random(7), {}
    for topic, prefix in (("web", b'"w'), ("app", b'"a')):  # searches of either have their own ids
        records = random_records(rng, topics=1, partitions=1, events=300)
        values = [(record.value or b"").replace(b'"q', prefix) for record in records]
        mine = [replace(r, value=v) for r, v in zip(records, values, strict=True) if prefix in v]
        [both[topic]] = logs_of(mine, 1).values()
    ids = [written(both, SMALL_CONFIG, random.Random(seed)).names for seed in range(2)]
    assert ids[0] != ids[1] and sorted(ids[0].values()) == sorted(ids[1].values())
    for seed in range(2):
        store = written(both, SMALL_CONFIG, random.Random(seed))
        assert proven(store, both, SMALL_CONFIG).result == "equal"
