"""Hours of a log that are graded anew are, integer for integer, those that lanes have stored; and
what graded them is said."""

import csv
import io
import random
from dataclasses import replace
from types import SimpleNamespace

import msgspec
import pytest

from relevanced.daemon.judgements import Timeline
from relevanced.daemon.lane import new_lane
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import BY_JUDGEMENTS, Plan
from relevanced.daemon.recompute.driver import judged_rows
from relevanced.daemon.recompute.hour_rows import (
    AllHours,
    HourRows,
    add_stored,
    empty,
    plan_of_hours,
    stored_rows,
)
from relevanced.daemon.recompute.log_replay import LogReplay
from relevanced.daemon.recompute.proof import StoredLane, stored_lane
from relevanced.daemon.recompute.replay_kafka import as_csv, as_tables, judged_scores
from relevanced.daemon.recompute.tables import NOTHING_JUDGED
from relevanced.daemon.views import LaneFiles
from tests.daemon.recompute.verify.stages import as_log_record
from tests.daemon.storage.test_layouts import view_of
from tests.daemon.test_equality import logs_of
from tests.daemon.test_judged_equality import JudgedMachine, random_files
from tests.daemon.test_queries_equality import CONFIG, with_queries
from tests.judged_lanes import NOON, PLAN, entry
from tests.streams import random_records, shifted, topic_names

SPAN = range(0, 10**14)
IN_HOURS = replace(CONFIG, hour_s=3600)


def lane(rng: random.Random, topics: int) -> JudgedMachine:
    """A lane that is about to read three hours, and grade by three files."""
    records = with_queries(
        random_records(rng, topics=topics, partitions=1, events=500, config=IN_HOURS), rng, texts=8
    )
    third = len(records) // 3
    records = [shifted(one, n // third * HOUR_MS) for n, one in enumerate(records)]
    times = sorted(r.timestamp_ms for r in records if r.timestamp_ms is not None)
    files = random_files(rng, times[len(times) // 3], [f"d{n}" for n in range(12)])
    (logs,) = logs_of(records, topic_names(topics)).values()
    return JudgedMachine(rng, 0, logs, files, IN_HOURS)


def nothing(plan: Plan) -> AllHours:
    return AllHours(HourRows(plan, SPAN), empty(plan, SPAN))


def stored_of(machine: JudgedMachine) -> StoredLane:
    store = machine.store
    head = store.claim("reader", b"")
    names = [
        msgspec.json.decode(store.names[str(n)], type=tuple[int, str])
        for n in range(1, len(store.names) + 1)
    ]
    pages = {key: store.blobs[key] for key, sequence in store.listed.items() if sequence}
    return stored_lane(0, head, names, pages, machine.plan)


def stored_hours(machine: JudgedMachine) -> AllHours:
    found = nothing(machine.plan)
    assert found.judged is not None
    add_stored(found.judged, stored_of(machine))
    return found


def computed_hours(machine: JudgedMachine, rng: random.Random) -> AllHours:
    """The whole log, read again in batches of any size."""
    assert machine.files is not None
    plan = plan_of_hours(machine.plan)
    timeline = Timeline(tuple(sorted(machine.files)))
    found = replace(nothing(plan), timeline=timeline)
    fresh = new_lane(0, plan, dict.fromkeys(machine.logs, 0), list(machine.logs))
    judged_rows(fresh).files.prepare(timeline, machine.files)
    replay, left = LogReplay(fresh, machine.decode, found), {**machine.logs}
    while unread := [topic for topic, records in left.items() if records]:
        topic, count = replay.next_log(unread), rng.randrange(1, 80)
        taken, left[topic] = left[topic][:count], left[topic][count:]
        replay.apply(topic, [as_log_record(one) for one in taken], 0)
    replay.driver.finish()
    return found


@pytest.mark.parametrize("topics", [1, 2])
def test_hours_graded_anew_are_those_that_are_stored(topics: int) -> None:
    rng = random.Random(topics)
    machine = lane(rng, topics).run(crashes=True)
    computed, stored = computed_hours(machine, rng), stored_hours(machine)
    assert computed.judged is not None and stored.judged is not None
    now, before = computed.judged.known(), stored.judged.known()
    assert len(now.starts) > 1 and now.settled_ms == before.settled_ms
    for start in (start for start in now.starts if now.is_settled(start)):
        both = [{s: row.tolist() for s, row in one.rows[start].items()} for one in (now, before)]
        assert both[0] == both[1]
    rows = [SimpleNamespace(**one) for one in judged_scores(computed, stored)]
    for one in rows:
        assert one.stored_mean == (one.mean if one.settled else None)
        assert one.judgements is not None and one.judgements == one.stored_judgements
    assert {one.settled for one in rows} == {True, False} and len(rows) > 20
    lines = [*csv.DictReader(io.StringIO(as_csv(computed, stored)))]
    of_judged = [line for line in lines if line["judged_metric"]]
    means = ["" if one.mean is None else str(one.mean) for one in rows]
    assert [line["mean"] for line in of_judged] == means
    assert len(lines) > len(of_judged) and all(not line["metric"] for line in of_judged)


def test_what_graded_is_said_and_lanes_that_disagree_are_mixed() -> None:
    found = empty(PLAN, SPAN)
    found.lanes += [
        LaneFiles(0, (entry(0), entry(NOON, "b"))),
        LaneFiles(NOON - 1, (entry(0),), latest_ms=NOON),
    ]
    assert [found.file_of(time) for time in (NOON - 2, NOON - 1, NOON)] == [None, "a.csv", "mixed"]


def test_hours_are_not_shown_where_a_lane_does_not_judge() -> None:
    rng = random.Random(3)
    machine = lane(rng, 1).run(crashes=False)
    stored = stored_hours(machine)
    assert stored.judged is not None and stored.judged.known().starts
    lane_now = stored_of(machine)
    assert lane_now.head.judged is not None
    other = msgspec.structs.replace(lane_now.head.judged, columns=("P@1",))
    add_stored(
        stored.judged,
        replace(lane_now, head=replace(lane_now.head, optional_rows={BY_JUDGEMENTS: other})),
    )
    assert not stored.judged.known().starts
    assert [*as_tables(nothing(machine.plan), stored)][1:] == [NOTHING_JUDGED]


def test_stored_hours_in_which_a_grouping_was_not_judged_yet_have_none_of_its_segments() -> None:
    machine = lane(random.Random(7), 1)
    full = machine.plan
    machine.plan, machine.layout = replace(full, groupings=()), " of the whole"
    machine.claimed = machine.claim()
    (topic,) = machine.logs
    while machine.claimed.lane.offsets[topic] < len(machine.logs[topic]) // 2:
        machine.step(crashes=False)
    machine.plan, machine.layout = full, ""
    machine.relay()
    machine.run(crashes=False)
    begins_ms = machine.claimed.layouts.since.groupings["country"]
    assert begins_ms is not None
    stored = stored_rows([view_of(machine.store, full)], [stored_of(machine)], full, SPAN)
    assert stored.judged is not None
    hours = stored.judged.rows.rows
    have = {start for start, rows in hours.items() if any(of[0] == "country" for of in rows)}
    assert have == {start for start in hours if start >= begins_ms} and len(have) < len(hours)
