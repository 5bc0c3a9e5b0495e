"""Judged rows through the life of a lane: lists that change near a start and near the lateness,
lists that are logged item by item, repair, lost hours, and a lane that is begun anew."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from relevanced.daemon.lane import Lane, latest_ms
from relevanced.daemon.storage import (
    JUDGED,
    confirm,
    head_of,
    lose_hours,
    past_hour_keys,
    plan_commit,
    plan_repair,
)
from tests import oracle_judged
from tests.daemon.test_equality import logs_of
from tests.daemon.test_judged_equality import (
    FULL,
    Files,
    JudgedMachine,
    expected_hours,
    hours_of,
    random_files,
    rows_of,
)
from tests.daemon.test_queries_equality import CONFIG, with_queries
from tests.oracle import OracleConfig, Record
from tests.replica import every_key
from tests.seeds import seeds
from tests.streams import START_MS, random_records, topic_names

ITEMS = [f"d{n}" for n in range(12)]
SLOW: OracleConfig = replace(CONFIG, lateness_s=20, attribution_window_s=120)


def changing_lists(rng: random.Random, starts_ms: Sequence[int], by_item: bool) -> list[Record]:
    """Lists of impressions near these starts whose pages, or items, come at once, late, or after
    the lateness."""
    events: list[tuple[int, dict[str, object]]] = []
    for number in range(150):
        time_ms = rng.choice(starts_ms) + rng.randrange(-60_000, 60_000)
        items = rng.sample(ITEMS, rng.randrange(1, 9))
        cuts = [*range(len(items))] if by_item else sorted({0, *rng.sample(range(8), 2)})
        base = {
            "type": "impression",
            "impression_id": f"i{number}",
            "timestamp": time_ms,
            "attributes": {"country": f"q{number % 9}"},
            "query": f"q{number % 9}",
            "user_id": f"u{number % 5}",
        }
        pages = [
            base | {"first_rank": first + 1, "items": items[first:end]}
            for first, end in zip(cuts, [*cuts[1:], len(items)], strict=True)
            if first < len(items)
        ]
        if by_item:
            pages = [page | {"by_item": True} for page in rng.sample(pages, len(pages))]
        arrival = time_ms
        for page in pages:
            events.append((arrival, page))
            arrival += rng.choice((0, 500, 15_000, 25_000, 70_000))
    ordered = sorted(events, key=lambda event: event[0])
    return [
        Record(topic_names(1)[0], 0, offset, arrival, json.dumps(page).encode())
        for offset, (arrival, page) in enumerate(ordered)
    ]


def expected(
    logs: Mapping[str, Sequence[Record]], files: Files, config: OracleConfig
) -> tuple[dict[oracle_judged.Key, list[int]], Mapping[str, int]]:
    of_files = [(entry.start_ms, found.by_query) for entry, found in sorted(files.items())]
    return oracle_judged.run(
        logs, config, FULL, of_files, lambda event: event.attributes.get("country", "")
    )


@pytest.mark.parametrize("by_item", [False, True], ids=["pages", "items"])
@pytest.mark.parametrize("seed", seeds(4))
def test_lists_that_change_near_a_start_and_the_lateness(seed: int, by_item: bool) -> None:
    rng = random.Random(seed)
    files = random_files(rng, START_MS, ITEMS)
    starts = [entry.start_ms for entry in files if entry.start_ms]
    records = changing_lists(rng, starts, by_item)
    (logs,) = logs_of(records, topic_names(1)).values()
    machine = JudgedMachine(rng, 0, logs, files, SLOW).run(crashes=True)
    rows, late = expected(logs, files, SLOW)
    lane = machine.claim(every_key).lane
    assert hours_of(lane) == expected_hours(rows, lane, SLOW)
    assert lane.counts["judged_late"] == late
    assert late["page"] > 5, "some changes come after the lateness"
    changes = lane.counts["impression_outcomes"]["extended"]
    assert changes > late["page"] + 20, "and some before"


def read_lane(seed: int) -> tuple[JudgedMachine, Mapping[str, Sequence[Record]], Files]:
    """A lane that has read a log of several hours."""
    rng = random.Random(seed)
    records = random_records(rng, topics=1, partitions=1, events=500, config=CONFIG)
    (logs,) = logs_of(with_queries(records, rng, texts=8), topic_names(1)).values()
    files = random_files(rng, START_MS, ITEMS)
    return JudgedMachine(rng, 0, logs, files).run(crashes=False), logs, files


def all_of(lane: Lane) -> object:
    return (
        rows_of(lane),
        hours_of(lane),
        lane.counts["judged_late"],
        lane.judged
        and (
            lane.judged.files.timeline,
            lane.judged.files.past,
            latest_ms(lane),
        ),
    )


@pytest.mark.parametrize("seed", range(3))
def test_repair_writes_all_judged_rows_that_are_in_memory(seed: int) -> None:
    machine, _, _ = read_lane(seed)
    whole = all_of(machine.claim(every_key).lane)
    machine.claimed = machine.claim()
    past = set(past_hour_keys(machine.claimed.lane))
    kept = [key for key in machine.store.blobs if key.startswith(JUDGED.panes) and key not in past]
    assert kept and any(key.startswith(JUDGED.hours) for key in past)
    for key in machine.rng.sample(kept, len(kept) // 2):
        del machine.store.blobs[key]
    commit = plan_repair(machine.claimed)
    assert machine.store.commit(commit) == "applied"
    confirm(machine.claimed, commit)
    assert all_of(machine.claim(every_key).lane) == whole


@pytest.mark.parametrize("seed", range(3))
def test_hour_whose_judged_rows_are_lost_is_in_no_sum_and_all_others_are(seed: int) -> None:
    machine, logs, files = read_lane(seed)
    machine.claimed = machine.claim()
    past = [k for k in past_hour_keys(machine.claimed.lane) if k.startswith(JUDGED.hours)]
    lost = machine.rng.choice(past)
    start = int(lost.split(":")[2])
    del machine.store.blobs[lost]
    lose_hours(machine.claimed.lane, [lost])
    commit = plan_commit(machine.claimed)
    machine.store.listed.pop(lost)
    machine.store._count()
    assert machine.store.commit(commit) == "applied"
    confirm(machine.claimed, commit)
    assert not [key for key in machine.store.blobs if key.startswith(f"{JUDGED.hours}{start}:")]
    rows, _ = expected(logs, files, CONFIG)
    lane = machine.claim(every_key).lane
    of_hours = expected_hours(rows, lane, CONFIG)
    assert hours_of(lane) == {key: row for key, row in of_hours.items() if key[0] * 1000 != start}
    head = head_of(machine.store.fields)
    assert head.judged is not None and head.judged.lost_hours == (start,)
    assert lane.hours.keys() >= {start}, "the hours of clicks are not touched"


@pytest.mark.parametrize("seed", range(3))
def test_lane_that_is_begun_anew_takes_the_whole_index(seed: int) -> None:
    machine, logs, files = read_lane(seed)
    before = all_of(machine.claim(every_key).lane)
    token = machine.store.fields["token"].decode()
    machine.store.begin_anew(token, "anew", json.dumps(dict.fromkeys(logs, 0)).encode())
    assert not [key for key in machine.store.blobs if key.startswith(JUDGED.panes)]
    machine.claimed = machine.claim()
    judged = machine.claimed.lane.judged
    assert judged is not None and judged.files.timeline is not None
    assert judged.files.timeline.entries == tuple(sorted(files))
    machine.run(crashes=True)
    assert all_of(machine.claim(every_key).lane) == before
