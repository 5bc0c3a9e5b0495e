"""What a stage divides among lanes adds up to the oracle's one lane, whatever is lost on the way,
comes again or comes late."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pytest

from relevanced.daemon.kafka import JAVA, PARTITIONERS
from relevanced.daemon.lane import Chain, Lane, chain
from relevanced.daemon.storage import ClaimedLane
from relevanced.daemon.worker import Message, SourceRun, Targets, state_in
from tests import oracle
from tests.daemon.test_equality import (
    FEWER_SEEDS,
    ONE,
    Machine,
    as_log_record,
    as_one_lane,
    latest_lifts,
)
from tests.oracle import LaneResult, OracleConfig, Record, Share
from tests.replica import (
    assert_equal,
    counts_of,
    decoder_of,
    every_key,
    hours_of,
    kept_rows,
    open_of,
    plan_of,
    row_dicts,
    rows_of,
)
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, random_records, with_visitors, with_wrong_clocks

LANES: Final = 3
CONFIG: Final = replace(SMALL_CONFIG, max_segments=100)
"""All values are admitted: each lane has an order of its own."""
LAST_TOUCH: Final = replace(CONFIG, join="last_touch")
LATEST_MS: Final = 2**62


@dataclass
class Topic:
    """That of the stage: messages of one run to one partition come in order, or not at all; what
    came may come again."""

    rng: random.Random
    logs: list[list[Record]] = field(default_factory=lambda: [[] for _ in range(LANES)])
    late: list[Message] = field(default_factory=list)

    def append(self, message: Message) -> None:
        log = self.logs[message.partition]
        record = Record("rekeyed", message.partition, len(log), message.timestamp_ms, message.value)
        log.append(record)

    def take(self, message: Message) -> bool:
        """Whether the sender hears that it was taken."""
        fate = self.rng.random()
        if fate < 0.02:  # lost
            return False
        self.append(message)
        if fate < 0.06:  # the request is sent again, or comes to life much later
            self.late.append(message)
        return fate > 0.08  # the answer is lost

    def deliver_late(self) -> None:
        self.append(self.late.pop(self.rng.randrange(len(self.late))))


class Run:
    """One run of the stage over one source, in a process that may be a zombie by now."""

    def __init__(self, source: "Source", point: tuple[int, str]) -> None:
        self.source, self.at = source, point[0]
        topic, partition = source.name.split("/")
        state = state_in(point[1])
        self.run = SourceRun(topic, int(partition), self.at, state, source.targets)
        self.unsent: list[Message] = []
        self.failed = False

    def read(self, count: int) -> None:
        for record in map(as_log_record, self.source.records[self.at : self.at + count]):
            decoded = self.source.decode.of_record(record)
            at_ms = None if record.timestamp < 0 else record.timestamp
            self.unsent += self.run.read(record.offset, at_ms, decoded)
            self.at += 1

    def send(self, count: int) -> None:
        for message in self.unsent[:count]:
            self.failed |= not self.source.topic.take(message)
        del self.unsent[:count]

    def at_end(self, clock_ms: int, *, is_idle: bool) -> None:
        self.unsent += self.run.at_end(clock_ms, is_idle=is_idle)

    @property
    def done(self) -> bool:
        return self.at == len(self.source.records) and not self.unsent and not self.failed


class Source:
    """A source with the run that the group knows, and zombies."""

    def __init__(
        self, name: str, records: Sequence[Record], topic: Topic, config: OracleConfig
    ) -> None:
        self.name, self.records, self.topic = name, records, topic
        self.decode, self.rng = decoder_of(config), topic.rng
        java, base_ms = PARTITIONERS[JAVA], plan_of(config).timing.base_ms
        self.targets = Targets(LANES, java, ONE, base_ms)
        self.latest = latest_lifts(records, config)
        self.lateness_ms = 1000 * config.lateness_s
        self.committed = 0, ""
        self.run, self.zombies = Run(self, self.committed), list[Run]()

    def step(self) -> None:
        rng, run = self.rng, self.rng.choice([self.run, self.run, *self.zombies])
        run.read(rng.choice((0, 1, 5, 20)))
        if (chance := rng.random()) < 0.2:
            latest_ms = int(min(self.latest[run.at] + self.lateness_ms, LATEST_MS))
            run.at_end(latest_ms, is_idle=True)
        elif chance < 0.4:
            run.at_end(LATEST_MS, is_idle=False)
        run.send(rng.choice((0, 1, 10, 1000)))
        if self.topic.late and rng.random() < 0.2:
            self.topic.deliver_late()
        if not self.run.unsent and not self.run.failed and rng.random() < 0.5:
            self.committed = self.run.run.point
        if rng.random() < (0.5 if self.run.failed else 0.05):
            self.zombies = [z for z in (*self.zombies, self.run) if rng.random() < 0.6]
            self.run = Run(self, self.committed)

    def lift(self) -> None:
        """Say that all was read, in a run in which nothing fails."""
        run = Run(self, self.committed)
        run.read(len(self.records))
        run.at_end(LATEST_MS, is_idle=True)
        for message in run.unsent:
            self.topic.append(message)


def rekeyed(
    rng: random.Random, logs: Mapping[str, Sequence[Record]], config: OracleConfig
) -> tuple[Topic, dict[str, Counter[str]]]:
    """What a stage makes of the logs of all sources, in the end without a fault, and what of each
    it has not told yet."""
    topic = Topic(rng)
    sources = [Source(name, records, topic, config) for name, records in logs.items()]
    while left := [source for source in sources if not source.run.done]:
        rng.choice(left).step()
    while topic.late:
        topic.deliver_late()
    for source in sources * 2:  # the second time, all know how far the others are
        source.lift()
    return topic, {source.name: source.run.run.rejected for source in sources}


class RekeyedLane(Machine):
    """A lane over its partition of the stage's topic."""

    outcomes = Counter[str]()

    def claim(self, *arguments: Any) -> ClaimedLane:
        if self.claims:
            self.outcomes = self.outcomes + self.chain.outcomes
        self.plan = replace(self.plan, rekeyed=True)
        return super().claim(*arguments)

    @property
    def chain(self) -> Chain:
        assert self.claimed.lane.chain is not None
        return self.claimed.lane.chain


def lanes_of(rng: random.Random, topic: Topic, config: OracleConfig) -> list[RekeyedLane]:
    """The lanes that read it, with crashes of their own."""
    lanes = []
    for number, log in enumerate(topic.logs):
        machine = RekeyedLane(rng, number, {"rekeyed": log}, config)
        while not machine.done():
            machine.step(crashes=True)
        lanes.append(machine)
    return lanes


Rows = dict[Any, dict[str, int]]


def added(parts: Iterable[Rows]) -> Rows:
    found: dict[Any, Counter[str]] = {}
    for part in parts:
        for key, row in part.items():
            found.setdefault(key, Counter()).update(row)
    return {key: dict(row) for key, row in found.items()}


def assert_add_up(lanes: Sequence[Lane], expected: LaneResult) -> None:
    """The lanes together are the oracle's one lane, integer for integer."""
    for lane in lanes:
        assert lane.watermarks == expected.watermarks
    counts = added(counts_of(lane) for lane in lanes)
    assert counts["events"] == {k.removesuffix("s"): v for k, v in expected.events.items() if v}
    assert counts.get("rejected", {}) == expected.rejected
    assert counts["impression_outcomes"] == expected.impression_outcomes
    assert counts.get("feedback_outcomes", {}) == expected.feedback_outcomes
    assert counts.get("ahead_events", {}) == {k: v for k, v in expected.ahead.items() if v}
    assert "behind_lift" not in {name for name, of in counts.items() if of}
    assert added(map(rows_of, lanes)) == kept_rows(lanes[0], expected)
    totals = (row_dicts(lane.totals.pages, lane.segments.names, lane.plan) for lane in lanes)
    assert added(totals) == expected.totals
    assert {key: one for lane in lanes for key, one in open_of(lane).items()} == expected.open
    waiting = [
        (w.impression_id, w.time_ms, w.item, w.rank, w.kind, w.grade)
        for lane in lanes
        for w in lane.waiting.by_serial.values()
    ]
    assert sorted(waiting, key=repr) == sorted(expected.waiting, key=repr)


def assert_a_stage_changes_nothing(rng: random.Random, config: OracleConfig) -> Counter[str]:
    """Returns what became of the messages."""
    records = random_records(rng, partitions=ONE["impressions"], events=250, config=config)
    if config.join != "id":
        records = with_visitors(records, rng, strangers=0)
    if rng.random() < 0.3:
        records = with_wrong_clocks(records, rng)
    logs = as_one_lane(records, rng)
    topic, untold = rekeyed(rng, logs, config)
    machines = lanes_of(rng, topic, config)
    lanes = [machine.claimed.lane for machine in machines]
    expected = oracle.run_lane(logs, config, lanes[0].lifts)
    expected.rejected -= sum(untold.values(), Counter[str]())
    assert_add_up(lanes, expected)
    whole = [hours_of(machine.claim(every_key).lane) for machine in machines]
    assert added(whole) == expected.hours
    for lane, hours in zip(lanes, whole, strict=True):
        share = Share(lane.number, LANES)
        own = oracle.run_lane(logs, config, lane.lifts, share)
        told = (of for log, of in untold.items() if share.has_refused(log))
        own.rejected -= sum(told, Counter[str]())
        assert_equal(lane, own)
        assert hours == own.hours
    return sum((machine.outcomes for machine in machines), Counter[str]())


@pytest.mark.parametrize("config", [CONFIG, LAST_TOUCH], ids=["by id", "by visitor"])
@pytest.mark.parametrize("seed", seeds(5))
def test_lanes_of_a_stage_add_up_to_one(seed: int, config: OracleConfig) -> None:
    outcomes = assert_a_stage_changes_nothing(random.Random(seed), config)
    assert outcomes[chain.REPEAT] > 0 and outcomes[chain.TAKEN] > 0


def test_lanes_of_a_stage_add_up_for_streams_not_seen_before(rng: np.random.Generator) -> None:
    again = random.Random(int(rng.integers(2**63)))
    found = sum((assert_a_stage_changes_nothing(again, CONFIG) for _ in range(3)), Counter[str]())
    assert found[chain.EARLY] > 0


@pytest.mark.parametrize("seed", FEWER_SEEDS)
def test_lanes_that_take_all_messages_do_not_add_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And neither do those that know only how far they are."""
    for wrong in (
        lambda last, of: chain.TAKEN,
        lambda last, of: chain.REPEAT if of.place <= last else chain.TAKEN,
    ):
        monkeypatch.setattr(chain, "verdict", wrong)
        with pytest.raises(AssertionError):
            assert_a_stage_changes_nothing(random.Random(seed), CONFIG)
