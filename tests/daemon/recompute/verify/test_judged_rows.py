"""Judged rows are proven by the log and by the files that the lane says it has graded by."""

import json
import random
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pytest

from relevanced.daemon.judgements import IndexEntry, Judgements
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.proof import (
    AHEAD,
    NOT_PROVABLE,
    Grading,
    Outcome,
    Proof,
    as_text,
    grading_of,
)
from relevanced.daemon.storage import pack_page, unpack_page
from tests.daemon.recompute.verify.stages import as_log_record, stored_of
from tests.daemon.test_equality import ONE, as_one_lane, logs_of
from tests.daemon.test_judged_equality import (
    Files,
    JudgedLifting,
    JudgedMachine,
    TwoWorkers,
    random_files,
)
from tests.daemon.test_queries_equality import CONFIG, with_queries
from tests.oracle import OracleConfig, Record
from tests.streams import START_MS, paged_records, random_records, shifted, topic_names

ITEMS = [f"d{n}" for n in range(12)]


def with_ahead(records: list[Record]) -> list[Record]:
    """The records, with two searches near their beginning of clocks that are half an hour ahead."""
    early = [n for n, one in enumerate(records[:80]) if b'"query"' in (one.value or b"")]
    ahead = {early[len(early) // 3], early[len(early) // 2]}
    return [shifted(one, 1_800_000) if n in ahead else one for n, one in enumerate(records)]


def lane(
    rng: random.Random,
    topics: int,
    config: OracleConfig = CONFIG,
    machine: type = JudgedMachine,
    clocks: bool = True,
) -> JudgedMachine:
    """A lane that has read a random log and graded by three files."""
    records = random_records(rng, topics=topics, partitions=1, events=500, config=config)
    records = with_queries(records, rng, texts=8)
    records = records if clocks else with_ahead(records)
    times = sorted(r.timestamp_ms for r in records if r.timestamp_ms is not None)
    files = random_files(rng, times[len(times) // 3], ITEMS)
    (logs,) = logs_of(records, topic_names(topics)).values()
    built = machine(rng, 0, logs, files, config)
    assert isinstance(built, JudgedMachine)
    return built


def proven(
    machine: JudgedMachine,
    index: Collection[IndexEntry],
    readable: Mapping[IndexEntry, Judgements],
    begin: Mapping[str, int] | None = None,
) -> Outcome:
    """The proof of a lane by these files, from all of its log or from what begins there."""
    stored = stored_of(machine.store, machine.plan)
    head = stored.head
    grading: Grading = grading_of(head, index, readable, ())
    at = dict(begin or dict.fromkeys(machine.logs, 0))
    most_ms = machine.decode.limits.max_future_ms
    proof = Proof(stored, machine.plan, machine.decode, at, begin is not None, most_ms, grading)
    replay = proof.replay
    while unread := [t for t in at if at[t] < head.offsets[t]]:
        topic = replay.next_log(unread)
        end = min(at[topic] + min(replay.batch_records, 50), head.offsets[topic])
        records = [as_log_record(record) for record in machine.logs[topic][at[topic] : end]]
        at[topic] = end
        replay.apply(topic, records, end)
    return proof.outcome()


def judged_text(found: Outcome) -> str:
    """What is said of judged rows."""
    return " ".join(note for note in found.notes if "judged" in note)


@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_whole_log_proves_judged_rows(seed: int, topics: int) -> None:
    machine = lane(random.Random(seed), topics).run(crashes=True)
    assert machine.files is not None
    found = proven(machine, machine.files, machine.files)
    assert found.result == "equal" and not judged_text(found), as_text([found])
    assert found.judged_hours


@pytest.mark.parametrize("seed", range(3))
def test_a_lane_of_all_partitions_is_proven_with_pages_that_wait(seed: int) -> None:
    rng = random.Random(seed)
    records = paged_records(rng, topics=2, partitions=ONE["impressions"], config=CONFIG)
    last_ms = max(one.timestamp_ms or 0 for one in records)
    page = {"impression_id": "q", "timestamp": last_ms, "items": ["d1"], "first_rank": 11}
    text = json.dumps({"type": "impression", **page, "grades": {"d1": 1}})
    records.append(Record("impressions", 0, 0, last_ms, text.encode()))
    logs = as_one_lane(with_queries(records, rng, texts=8), rng)
    files = random_files(rng, START_MS + HOUR_MS // 4, ITEMS)
    machine = JudgedLifting(rng, 0, logs, files, config=CONFIG).run(crashes=True)
    waiting = machine.claimed.lane.waiting
    assert len(waiting.by_serial) > len(waiting), "no page waits"
    found = proven(machine, files, files)
    assert found.result == "equal", as_text([found])


def test_what_is_left_of_a_log_proves_later_judged_rows() -> None:
    machine = lane(random.Random(3), 1, replace(CONFIG, hour_s=60)).run(crashes=False)
    assert machine.files is not None
    (topic,) = machine.logs
    whole = proven(machine, machine.files, machine.files)
    found = proven(machine, machine.files, machine.files, {topic: len(machine.logs[topic]) // 3})
    assert found.result == "equal" and found.proven_from, as_text([found])
    assert 0 < found.judged_hours < whole.judged_hours


@pytest.mark.parametrize("prefix", ["judged:hours:", "judged:"], ids=["hour", "pane"])
def test_a_changed_integer_is_named(prefix: str) -> None:
    machine = lane(random.Random(4), 2).run(crashes=False)
    assert machine.files is not None
    keys = [key for key in machine.store.listed if key.startswith(prefix)]
    key = max(key for key in keys if prefix != "judged:" or "hours" not in key)
    rows = np.array(unpack_page(machine.store.blobs[key]))
    rows[0, 2] += 1
    machine.store.blobs[key] = pack_page(rows)
    found = proven(machine, machine.files, machine.files)
    (difference,) = found.first
    assert (found.result, found.differences) == ("differs", 1)
    assert difference.what == ("judged hour" if "hours" in prefix else "judged pane")
    assert (difference.column, difference.segment) == ("judged_places", "all")


def test_a_file_that_the_lane_refused_is_named_and_its_rows_are_proven() -> None:
    machine = lane(random.Random(5), 1, machine=TwoWorkers)
    files = machine.files
    assert files is not None and isinstance(machine, TwoWorkers)
    refused = max(files)
    machine.listed = ({*files} - {refused}, {*files} - {refused})
    machine.files = {entry: of for entry, of in files.items() if entry != refused}
    machine.claimed = machine.claim()
    machine.run(crashes=False)
    found = proven(machine, files, files)
    assert found.result == "equal" and found.judged_hours, as_text([found])
    assert refused.name in judged_text(found) and "refused" in judged_text(found)


def test_without_a_file_judged_rows_are_not_provable_and_all_else_is() -> None:
    machine = lane(random.Random(6), 1).run(crashes=False)
    assert machine.files is not None
    some: Files = dict(sorted(machine.files.items())[:-1])
    found = proven(machine, machine.files, some)
    assert (found.result, found.judged_hours) == ("equal", 0) and found.hours
    assert judged_text(found).startswith(NOT_PROVABLE.format("judged")) and max(
        machine.files
    ).name in judged_text(found)


def begun_in_mid_life(seed: int, topics: int, clocks: bool) -> JudgedMachine:
    """A lane whose judged rows begin after a fifth of its log."""
    config = replace(CONFIG, hour_s=60, max_future_s=3600)
    machine = lane(random.Random(seed), topics, config, clocks=clocks)
    judged, topic = machine.plan, next(iter(machine.logs))
    machine.files = dict(sorted(random_files(machine.rng, HOUR_MS, ITEMS).items())[:1])
    for share, plan in ((0.2, replace(judged, judged=None)), (1.0, judged)):
        machine.plan = plan
        machine.relay()
        while machine.claimed.lane.offsets[topic] < share * len(machine.logs[topic]):
            machine.step(crashes=False)
    machine.run(crashes=False)
    return machine


@pytest.mark.parametrize("topics", [1, 2])
def test_rows_that_began_in_mid_life_are_proven_but_for_wrong_clocks(topics: int) -> None:
    proven_hours, refused = 0, 0
    for seed in range(6):
        machine = begun_in_mid_life(seed, topics, clocks=seed % 2 == 0)
        head = machine.store.claim("t", b"")
        assert machine.files is not None and head.judged is not None and head.judged.since_ms
        found = proven(machine, machine.files, machine.files)
        assert found.differences == 0, as_text([found])
        has_ahead = any(head.counts.get("ahead_events", {}).values())
        assert (AHEAD in judged_text(found)) == (topics == 2 and has_ahead), seed
        proven_hours, refused = proven_hours + found.judged_hours, refused + has_ahead
    assert proven_hours and refused
