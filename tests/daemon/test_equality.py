"""The numbers are the oracle's, whatever the cut into batches, the interleaving of topics and the
crashes."""

import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from relevanced.daemon.lane import new_lane, new_lifts
from relevanced.daemon.storage import (
    ClaimedLane,
    Head,
    InForce,
    Layouts,
    blob_keys,
    confirm,
    plan_commit,
    rebuild,
)
from tests import oracle
from tests.fakes import MemoryLane
from tests.oracle import OracleConfig, Record
from tests.replica import assert_equal, decoder_of, every_key, hours_of, plan_of
from tests.searches import RULES, searched
from tests.seeds import seeds
from tests.streams import (
    SMALL_CONFIG,
    START_MS,
    as_plain_records,
    paged_records,
    random_records,
    topic_names,
    with_visitors,
    with_wrong_clocks,
)
from tests.ubi_streams import random_ubi_records
from tests.whole_batch import process_batch

SEEDS = seeds(16)
FEWER_SEEDS = seeds(6)
OTHER_CONFIGS: Final[dict[str, OracleConfig]] = {
    "fractions": OracleConfig(
        windows_s=(60, 600),
        attribution_window_s=30,
        lateness_s=2,
        grades={"click": 0.25, "like": 1.5, "buy": 2.75},
        metric_names=(
            "nDCG(gain=linear)@3",
            "P(rel=2)@2",
            "AP@10",
            "RR",
            "ERR@2",
            "nDCG",
            "FirstFeedbackSeconds",
        ),
        relevant_from=0.5,
        depth=4,
        groupings=(("experiment:ranker",), ("country", "experiment:ranker")),
        max_segments=2,
        max_future_s=20,
        max_record_bytes=4096,
    ),
    "propensities": replace(
        SMALL_CONFIG,
        metric_names=("P@5", "IPS-P@5", "IPS-DCG@3", "IPS-P(rel=2)", "IPS-DCG(gain=linear)"),
        depth=8,
        groupings=(("country",),),
        propensities={"web": (0.9, 0.5, 0.3, 0.08, 0.01), "ios": (1.0, 0.7)},
        surface="device",
        clip=7.5,
        weighted_ranks=8,
    ),
    "four windows": OracleConfig(
        windows_s=(900, 90, 180, 3600),
        attribution_window_s=120,
        lateness_s=1,
        metric_names=("Success(rel=2)@1", "nDCG(gain=linear)", "ERR"),
        max_grade=4,
        groupings=(("device",),),
        max_segments=1,
        max_future_s=20,
        max_record_bytes=4096,
    ),
    "derived attributes": replace(
        SMALL_CONFIG,
        metric_names=("P@5", "IPS-P@5"),
        groupings=(("length",), ("country", "kind"), ("kind", "experiment:ranker")),
        derive=RULES,
        propensities={"sku": (0.9, 0.5), "brand, shoes": (1.0, 0.7)},
        surface="kind",
        weighted_ranks=5,
    ),
    "panes that do not divide each other": replace(SMALL_CONFIG, windows_s=(30, 90, 120, 600)),
    "one of each": OracleConfig(
        windows_s=(300,),
        attribution_window_s=10,
        lateness_s=1,
        grades={"click": 1},
        metric_names=("P@1",),
        history_hours=0,
        depth=1,
        groupings=(),
        max_future_s=20,
        max_record_bytes=4096,
    ),
}


class Machine:
    """One lane over its log, as a worker would drive it, with a store that outlives crashes."""

    def __init__(
        self,
        rng: random.Random,
        number: int,
        logs: Mapping[str, Sequence[Record]],
        config: OracleConfig,
    ) -> None:
        self.rng, self.number, self.logs = rng, number, logs
        self.store = MemoryLane()
        self.plan, self.decode = plan_of(config), decoder_of(config)
        self.claims = 0
        self.claimed = self.claim()

    def claim(self, keys_of: Callable[[Head, Sequence[str]], list[str]] = blob_keys) -> ClaimedLane:
        self.claims += 1
        start = msgspec.json.encode({topic: 0 for topic in self.logs})
        head = self.store.claim(f"token-{self.claims}", start)
        blobs = self.store.load(head, keys_of)
        return rebuild(
            self.number, Layouts(InForce(self.plan)), list(self.logs), head, self.store.names, blobs
        )

    def pull(self) -> dict[str, list[SimpleNamespace]]:
        """Some records of some topics, from the lane's offsets on."""
        pulled = {}
        for topic, log in self.logs.items():
            first = self.claimed.lane.offsets[topic]
            size = self.rng.choice((0, 0, 1, 3, 20, 200))
            pulled[topic] = [as_log_record(record) for record in log[first : first + size]]
        return pulled

    def done(self) -> bool:
        return all(self.claimed.lane.offsets[topic] == len(log) for topic, log in self.logs.items())

    def step(self, crashes: bool) -> None:
        pulled = self.pull()
        if self.rng.random() < 0.1:
            self.claimed.lane.forget_unused_states()
        if self.rng.random() < 0.1:
            self.claimed.lane.forget_unused_combinations()
        offsets = {t: self.claimed.lane.offsets[t] + len(records) for t, records in pulled.items()}
        small_run = self.rng.choice((1, 1, 5, 1000))
        process_batch(self.claimed.lane, pulled, offsets, self.decode, small_run)
        commit = plan_commit(self.claimed)
        fate = self.rng.random() if crashes else 1.0
        if fate < 0.1:  # died before the commit was sent
            self.claimed = self.claim()
            return
        assert self.store.commit(commit) == "applied"
        if fate < 0.2:  # died before the answer came
            self.claimed = self.claim()
            return
        if fate < 0.3:  # the answer was lost, the same commit is sent again
            assert self.store.commit(commit) == "already"
        confirm(self.claimed, commit)


def as_log_record(record: Record) -> SimpleNamespace:
    timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
    return SimpleNamespace(offset=record.offset, timestamp=timestamp, value=record.value)


def logs_of(records: Sequence[Record], topics: Sequence[str]) -> dict[int, dict[str, list[Record]]]:
    logs: dict[int, dict[str, list[Record]]] = defaultdict(lambda: {topic: [] for topic in topics})
    for record in records:
        logs[record.partition][record.topic].append(record)
    return logs


def assert_any_cut_equals_the_oracle(
    rng: random.Random, config: OracleConfig, *, topics: int, crashes: bool, plain: bool = False
) -> None:
    records = random_records(rng, topics=topics, partitions=2, events=400, config=config)
    if plain:
        records = as_plain_records(records, rng, config)
    if config.derive:
        records = searched(records, rng)
    if config.join != "id":
        records = with_visitors(records, rng)
    if rng.random() < 0.3:
        records = with_wrong_clocks(records, rng)
    assert_equals_the_oracle(rng, records, topic_names(topics), config, crashes=crashes)


def assert_equals_the_oracle(
    rng: random.Random,
    records: Sequence[Record],
    names: Sequence[str],
    config: OracleConfig,
    *,
    crashes: bool,
) -> None:
    expected = oracle.run(records, names, config)
    for number, logs in logs_of(records, names).items():
        machine = Machine(rng, number, logs, config)
        while not machine.done():
            machine.step(crashes)
        assert_equal(machine.claimed.lane, expected[number])
        assert_equal(machine.claim().lane, expected[number])
        assert hours_of(machine.claim(every_key).lane) == expected[number].hours


@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_equal_the_oracle_for_any_cut(seed: int, topics: int, crashes: bool) -> None:
    rng = random.Random(seed)
    assert_any_cut_equals_the_oracle(rng, SMALL_CONFIG, topics=topics, crashes=crashes)


@pytest.mark.parametrize("config", OTHER_CONFIGS.values(), ids=OTHER_CONFIGS)
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_rows_equal_the_oracle_for_any_configuration(
    seed: int, topics: int, config: OracleConfig
) -> None:
    rng = random.Random(seed)
    assert_any_cut_equals_the_oracle(rng, config, topics=topics, crashes=True)


@pytest.mark.parametrize("config", [SMALL_CONFIG, *OTHER_CONFIGS.values()])
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_plain_events_that_are_joined_at_once_equal_the_oracle(
    seed: int, topics: int, config: OracleConfig
) -> None:
    # a long window remembers combinations of values for long, which makes runs long
    config = replace(config, windows_s=(*config.windows_s, 86_400))
    rng = random.Random(seed)
    assert_any_cut_equals_the_oracle(rng, config, topics=topics, crashes=seed % 2 > 0, plain=True)


@pytest.mark.parametrize("plain", [False, True], ids=["any", "plain"])
@pytest.mark.parametrize("span_s", [1_800, 100_000], ids=["busy", "sparse"])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_equal_the_oracle_where_clocks_are_wrong(seed: int, span_s: int, plain: bool) -> None:
    """And where all events are minutes apart."""
    rng, config, topics = random.Random(seed), replace(SMALL_CONFIG, max_future_s=60), seed % 2 + 1
    records = random_records(rng, topics=topics, events=300, config=config, span_s=span_s)
    if plain:
        records = as_plain_records(records, rng, config)
    records = with_wrong_clocks(records, rng)
    lanes = oracle.run(records, topic_names(topics), config).values()
    assert sum(lane.ahead.total() for lane in lanes) > 0
    assert_equals_the_oracle(rng, records, topic_names(topics), config, crashes=seed % 4 < 2)


@pytest.mark.parametrize("config", [SMALL_CONFIG, *OTHER_CONFIGS.values()])
def test_rows_equal_the_oracle_for_streams_not_seen_before(
    rng: np.random.Generator, config: OracleConfig
) -> None:
    again = random.Random(int(rng.integers(2**63)))
    assert_any_cut_equals_the_oracle(again, config, topics=again.choice((1, 2)), crashes=True)


SHOWN_CONFIGS: Final = {
    "small": replace(SMALL_CONFIG, ubi_shown=True),
    "timed and weighted": replace(
        OTHER_CONFIGS["propensities"],
        metric_names=("P@5", "IPS-P@5", "nDCG@3", "RR", "FirstFeedbackSeconds"),
        weighted_ranks=5,
        ubi_shown=True,
    ),
    "by experiment": replace(OTHER_CONFIGS["fractions"], ubi_shown=True),
}


@pytest.mark.parametrize("config", SHOWN_CONFIGS.values(), ids=SHOWN_CONFIGS)
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_lists_logged_item_by_item_equal_the_oracle_for_any_cut(
    seed: int, topics: int, config: OracleConfig
) -> None:
    rng = random.Random(seed)
    records = random_ubi_records(rng, topics=topics, events=400, config=config)
    assert_equals_the_oracle(rng, records, topic_names(topics), config, crashes=seed % 2 > 0)


def test_lists_logged_item_by_item_equal_the_oracle_for_streams_not_seen_before(
    rng: np.random.Generator,
) -> None:
    again = random.Random(int(rng.integers(2**63)))
    config, topics = again.choice(list(SHOWN_CONFIGS.values())), again.choice((1, 2))
    records = random_ubi_records(again, topics=topics, config=config)
    assert_equals_the_oracle(again, records, topic_names(topics), config, crashes=True)


TOUCH_CONFIGS: Final = {
    "at the lateness": replace(SMALL_CONFIG, join="last_touch"),
    "by id first": replace(SMALL_CONFIG, join="id, else last_touch", lateness_s=20),
    "kiosks": replace(SMALL_CONFIG, join="last_touch", lateness_s=20, most_touched=2),
    "timed": replace(
        OTHER_CONFIGS["fractions"], join="id, else last_touch", lateness_s=60, touch_wait_s=30
    ),
}


@pytest.mark.parametrize("plain", [False, True], ids=["any", "plain"])
@pytest.mark.parametrize("config", TOUCH_CONFIGS.values(), ids=TOUCH_CONFIGS)
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_last_touch_equals_the_oracle_for_any_cut(
    seed: int, topics: int, config: OracleConfig, plain: bool
) -> None:
    rng = random.Random(seed)
    assert_any_cut_equals_the_oracle(rng, config, topics=topics, crashes=seed % 2 > 0, plain=plain)


def test_last_touch_equals_the_oracle_for_streams_not_seen_before(rng: np.random.Generator) -> None:
    again = random.Random(int(rng.integers(2**63)))
    config, topics = again.choice(list(TOUCH_CONFIGS.values())), again.choice((1, 2))
    assert_any_cut_equals_the_oracle(again, config, topics=topics, crashes=True)


ONE: Final = {"impressions": 3, "feedback": 5}
"""Partitions of the topics of one lane; the last one of feedback stays empty."""


def said_by(record: Record) -> list[Any]:
    """What a record says, as far as it is JSON."""
    try:
        found = json.loads(record.value or b"")
    except ValueError:
        return []
    return found if isinstance(found, list) else [found]


def as_one_lane(records: Sequence[Record], rng: random.Random) -> dict[str, list[Record]]:
    """The logs of one lane. Feedback lies in any partition, and so does a later page with its
    copies, but for those of lists that are logged item by item, and in arrays."""
    placed, ends = [], defaultdict[tuple[str, int], int](int)
    pages: dict[tuple[str, int], int] = {}
    said = [[one for one in said_by(record) if isinstance(one, dict)] for record in records]
    stay = {str(e.get("impression_id")) for of in said for e in of if e.get("by_item") or of[1:]}
    for record, events in zip(records, said, strict=True):
        partition = record.partition
        if record.topic == "feedback":
            partition = rng.randrange(ONE["feedback"] - 1)
        elif len(events) == 1 and (page := page_in(events[0]))[1] > 1 and page[0] not in stay:
            partition = pages.setdefault(page, rng.randrange(ONE["impressions"]))
        place = record.topic, partition
        placed.append(replace(record, partition=partition, offset=ends[place]))
        ends[place] += 1
    return oracle.as_one(placed, ONE)


def page_in(event: Mapping[str, object]) -> tuple[str, int]:
    """The id and the first rank of an impression."""
    first_rank = event.get("first_rank")
    return str(event.get("impression_id")), first_rank if isinstance(first_rank, int) else 1


class Lifting(Machine):
    """A lane of which logs are lifted at any time, as far as none of their records tells."""

    def __init__(self, *arguments: Any, config: OracleConfig, **others: Any) -> None:
        super().__init__(*arguments, config=config, **others)
        self.latest = {log: latest_lifts(of, config) for log, of in self.logs.items()}
        self.lateness_ms = 1000 * config.lateness_s

    def step(self, crashes: bool) -> None:
        lane = self.claimed.lane
        idle = [log for log in self.logs if self.rng.random() < 0.3 or not self.logs[log]]
        lifts = new_lifts(lane.watermarks, lane.lifts, idle, self.lateness_ms, 2**62)
        lane.lifts |= {
            log: to_ms
            for log, to_ms in lifts.items()
            if to_ms <= self.latest[log][lane.offsets[log]]
        }
        super().step(crashes)


def latest_lifts(records: Sequence[Record], config: OracleConfig) -> list[float]:
    """By the next offset of a log: before all events that are left."""
    latest = [
        min((e.time_ms - 1 for e in oracle.valid_events(r, config, Counter())), default=math.inf)
        for r in records
    ]
    return list(accumulate([math.inf, *reversed(latest)], min))[::-1]


def assert_one_lane_equals_the_oracle(
    rng: random.Random, config: OracleConfig, make: Callable[..., list[Record]] = random_records
) -> oracle.LaneResult:
    """Returns what the oracle says."""
    records = make(rng, topics=2, partitions=ONE["impressions"], config=config)
    if config.join != "id":
        records = with_visitors(records, rng)
    machine = Lifting(rng, 0, as_one_lane(records, rng), config=config)
    while not machine.done() or not machine.claimed.lane.lifts.keys() >= {"feedback/4"}:
        machine.step(crashes=True)
    expected = oracle.run_lane(machine.logs, config, machine.claimed.lane.lifts)
    assert_equal(machine.claimed.lane, expected)
    assert_equal(machine.claim().lane, expected)
    assert not machine.claimed.lane.counts["behind_lift"]
    return expected


@pytest.mark.parametrize("config", [SMALL_CONFIG, *TOUCH_CONFIGS.values()])
@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_one_lane_of_all_partitions_equals_the_oracle_however_it_is_lifted(
    seed: int, config: OracleConfig
) -> None:
    assert_one_lane_equals_the_oracle(random.Random(seed), config)


@pytest.mark.parametrize("config", [SMALL_CONFIG, *TOUCH_CONFIGS.values()])
@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_pages_in_any_partition_of_one_lane_wait_for_those_before(
    seed: int, config: OracleConfig
) -> None:
    found = assert_one_lane_equals_the_oracle(random.Random(seed), config, paged_records)
    assert found.impression_outcomes["extended"] > 10
    assert found.impression_outcomes["later_page"]


def test_one_lane_equals_the_oracle_for_streams_not_seen_before(rng: np.random.Generator) -> None:
    again = random.Random(int(rng.integers(2**63)))
    found = [assert_one_lane_equals_the_oracle(again, SMALL_CONFIG) for _ in range(3)]
    assert any(lane.totals for lane in found), "nothing settled, though a partition is empty"


def impressions_in(log: str, *times_ms: int, first: int = 0) -> dict[str, list[SimpleNamespace]]:
    values = [
        {"type": "impression", "impression_id": f"q{n}", "timestamp": at_ms, "items": ["a"]}
        for n, at_ms in enumerate(times_ms, first)
    ]
    return {
        log: [
            as_log_record(Record("events", 1, n, None, json.dumps(value).encode()))
            for n, value in enumerate(values)
        ]
    }


@pytest.mark.parametrize("small_run", [1, 1000])
def test_events_behind_a_lift_are_counted(small_run: int) -> None:
    """And meet it: an impression that has closed by then is late."""
    plan, decode = plan_of(SMALL_CONFIG), decoder_of(SMALL_CONFIG)
    lane = new_lane(0, plan, {"events/0": 0, "events/1": 0}, ["events/0", "events/1"])
    closed_ms = int(plan.timing.closes_at(START_MS))
    lane.lifts["events/1"] = closed_ms
    times_ms = [START_MS + n * (closed_ms + 1 - START_MS) // 4 for n in range(5)]
    records = impressions_in("events/1", *times_ms)
    process_batch(lane, records, {"events/1": 5}, decode, small_run)
    assert lane.counts["behind_lift"] == {"events/1": 4}
    assert lane.counts["impression_outcomes"] == {"late": 1, "accepted": 4}
    assert lane.watermarks["events/1"] == closed_ms + 1


def test_ids_of_several_partitions_are_counted_as_far_as_their_origin_is_known() -> None:
    plan, decode = plan_of(SMALL_CONFIG), decoder_of(SMALL_CONFIG)
    lane = new_lane(0, plan, {"events/0": 0, "events/1": 0}, ["events/0", "events/1"])
    several = [START_MS + n for n in range(100)]
    for log in ("events/0", "events/0"):  # the second time they are duplicates
        process_batch(lane, impressions_in(log, *several), {}, decode, 1)
    assert lane.split_ids == 0
    process_batch(lane, impressions_in("events/1", *several[:30], first=90), {}, decode, 1)
    assert lane.split_ids == 10
    assert lane.counts["impression_outcomes"] == {"accepted": 120, "duplicate": 110}
    lane.origins.forget(100)
    process_batch(lane, impressions_in("events/0", *several[:20], first=110), {}, decode, 1000)
    assert lane.split_ids == 20 and lane.origins.of(99) is None
