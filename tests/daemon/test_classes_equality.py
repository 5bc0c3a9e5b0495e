"""Attributes that files of classes give follow from the log and the files: rows are the oracle's,
whatever the cut into batches, the interleaving of topics, the crashes, and the times at which
workers see files."""

import csv
import io
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import msgspec
import numpy as np
import pytest

from relevanced.daemon.judgements import (
    IndexEntry,
    QueryClasses,
    Timeline,
    begun,
    file_name,
    prepared,
    read_classes,
)
from relevanced.daemon.lane import Lane, latest_ms, new_lane, relaid, since_the_beginning
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import (
    CLASSES_FIELD,
    ClaimedLane,
    Head,
    InForce,
    Layouts,
    blob_keys,
    confirm,
    head_of,
    plan_repair,
    rebuild,
)
from tests import oracle
from tests.daemon.lane.test_relayout import assert_sums_to_the_whole, compare, run
from tests.daemon.test_equality import Machine, logs_of
from tests.oracle import OracleConfig, Record
from tests.oracle_queries import Dated, normalised
from tests.replica import assert_equal, plan_of
from tests.searches import QUERIES, RULES, searched
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, random_records, topic_names, with_wrong_clocks

TRAFFIC, SEASON = "traffic", "season"
GROUPINGS = ((TRAFFIC,), ("country", TRAFFIC), (SEASON, "length"))
CONFIG: Final = replace(SMALL_CONFIG, max_segments=3, groupings=GROUPINGS)
SEEDS = seeds(8)
Lines: TypeAlias = Sequence[tuple[str, str]]
Files: TypeAlias = Mapping[str, Mapping[IndexEntry, Lines]]
"""Attribute → its files, by ascending start."""


def random_files(rng: random.Random, times: Sequence[int], count: int) -> dict[IndexEntry, Lines]:
    """Files that start within these times; the first may start before all of them."""
    texts = {normalised(each): each for each in QUERIES if isinstance(each, str)}
    shown = [text for key, text in texts.items() if key and len(text) < 500]
    starts = {rng.choice((0, *times)) // 1000 * 1000 for _ in range(count)}
    files = {}
    for number, start_ms in enumerate(sorted(starts)):
        lines = [(text, rng.choice(("head", "torso", "x,y"))) for text in rng.sample(shown, 8)]
        name = file_name(start_ms, f"{number}-{rng.randrange(10**6)}.csv")
        files[IndexEntry(start_ms, name, f"{number:064x}")] = lines
    return files


def as_read(lines: Lines) -> QueryClasses:
    """The file as the product reads it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([("query", "class"), *lines])
    return read_classes(text.getvalue().encode().splitlines(keepends=True), "f")


def dated(files: Mapping[IndexEntry, Lines], unlisted: str) -> Dated:
    """The files as the oracle has them."""
    return Dated([(entry.start_ms, lines) for entry, lines in sorted(files.items())], unlisted)


def with_files(files: Files) -> OracleConfig:
    rules = {TRAFFIC: dated(files[TRAFFIC], "tail"), SEASON: dated(files[SEASON], "all year")}
    return replace(CONFIG, derive={**rules, "length": RULES["length"]})


class ClassMachine(Machine):
    """A lane that derives attributes by files. Two workers own it in turns, and see what is listed
    at different times."""

    def __init__(
        self, rng: random.Random, number: int, logs: Mapping[str, Sequence[Record]], files: Files
    ) -> None:
        self.files = {
            name: {entry: as_read(lines) for entry, lines in of_name.items()}
            for name, of_name in files.items()
        }
        everything = {name: {*of_name} for name, of_name in files.items()}
        self.listed = [everything, {name: {*of_name} for name, of_name in files.items()}]
        self.adopted: dict[str, set[IndexEntry]] = {name: set() for name in files}
        """By committed batches."""
        self.worker = 0
        super().__init__(rng, number, logs, with_files(files))

    def claim(self, keys_of: Callable[[Head, Sequence[str]], list[str]] = blob_keys) -> ClaimedLane:
        self.worker = self.rng.randrange(2)
        return super().claim(keys_of)

    def look(self) -> None:
        """Let the worker see what is listed, before a batch."""
        lane = self.claimed.lane
        for name, files in lane.class_files.items():
            index, known = sorted(self.listed[self.worker][name]), self.files[name]
            if files.timeline is None:
                files.prepare(begun(index), known)
            else:
                found = prepared(files.timeline, index, known, latest_ms(lane))
                files.prepare(found.timeline, known)

    def step(self, crashes: bool) -> None:
        self.look()
        given = {n: files.timeline for n, files in self.claimed.lane.class_files.items()}
        before = self.store.fields["sequence"]
        super().step(crashes)
        if self.store.fields["sequence"] != before:
            for name, timeline in given.items():
                assert timeline is not None
                self.adopted[name].update(timeline.entries)

    def timeline(self, name: str) -> Timeline:
        """As the store has it."""
        head = head_of(self.store.fields).classes
        assert head is not None
        return head.timelines[name].timeline

    def run(self, crashes: bool) -> "ClassMachine":
        while not self.done():
            self.step(crashes)
        return self


class SeenLate(ClassMachine):
    """Files are listed one after the other, and one worker sees them later than the other."""

    def look(self) -> None:
        for name, files in self.files.items():
            first, second = (each[name] for each in self.listed)
            for entry in sorted(files):
                if self.rng.random() < 0.05:
                    first.add(entry)
                if entry in first and self.rng.random() < 0.3:
                    second.add(entry)
        super().look()


def logs_with_queries(
    rng: random.Random, topics: int, partitions: int = 2
) -> tuple[list[Record], list[int]]:
    """Records, and the times of those that have one, ascending."""
    records = random_records(rng, topics=topics, partitions=partitions, events=300, config=CONFIG)
    records = searched(records, rng)
    if rng.random() < 0.4:
        records = with_wrong_clocks(records, rng)
    return records, sorted(r.timestamp_ms for r in records if r.timestamp_ms is not None)


def files_of(
    rng: random.Random, times: Sequence[int], count: int
) -> dict[str, dict[IndexEntry, Lines]]:
    return {name: random_files(rng, times, count) for name in (TRAFFIC, SEASON)}


@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_classes_are_those_of_the_oracle_for_any_cut(seed: int, topics: int) -> None:
    rng = random.Random(seed)
    records, times = logs_with_queries(rng, topics)
    files = files_of(rng, times, count=3)
    expected = oracle.run(records, topic_names(topics), with_files(files))
    for number, logs in logs_of(records, topic_names(topics)).items():
        machine = ClassMachine(rng, number, logs, files).run(crashes=seed % 2 > 0)
        for lane in (machine.claimed.lane, machine.claim().lane):
            assert_equal(lane, expected[number])


def assert_numbers_follow_from_what_was_adopted(rng: random.Random) -> int:
    """Returns how many files were refused."""
    records, times = logs_with_queries(rng, 2, partitions=1)
    files = files_of(rng, times, count=7)
    (logs,) = logs_of(records, topic_names(2)).values()
    machine = SeenLate(rng, 0, logs, files)
    first = {name: {min(of_name)} for name, of_name in files.items()}
    machine.listed = [first, {name: {*of_name} for name, of_name in first.items()}]
    machine.run(crashes=True)
    adopted = {
        name: {entry: files[name][entry] for entry in sorted(entries)}
        for name, entries in machine.adopted.items()
    }
    (expected,) = oracle.run(records, topic_names(2), with_files(adopted)).values()
    assert_equal(machine.claimed.lane, expected)
    timelines = [(machine.adopted[name], machine.timeline(name)) for name in files]
    assert all(entries.isdisjoint(found.refused) for entries, found in timelines)
    return sum(len(found.refused) for _, found in timelines)


def test_numbers_follow_from_the_files_that_were_adopted_whoever_saw_them_when() -> None:
    assert sum(assert_numbers_follow_from_what_was_adopted(random.Random(n)) for n in range(10))


def test_numbers_follow_from_what_was_adopted_for_streams_not_seen_before(
    rng: np.random.Generator,
) -> None:
    assert_numbers_follow_from_what_was_adopted(random.Random(int(rng.integers(2**63))))


def with_attributes(files: Files, *names: str) -> OracleConfig:
    """The configuration that derives only these attributes by files."""
    config = with_files(files)
    groupings = (("country",), *((name,) for name in names))
    return replace(config, groupings=groupings, derive={n: config.derive[n] for n in names})


class RelaidMachine(ClassMachine):
    """A lane whose plan changes."""

    in_force = (TRAFFIC, SEASON)

    def claim(self, keys_of: Callable[[Head, Sequence[str]], list[str]] = blob_keys) -> ClaimedLane:
        self.claims += 1
        start = msgspec.json.encode(dict.fromkeys(self.logs, 0))
        head = self.store.claim(f"token-{self.claims}", start)
        in_force = InForce(self._plan(self.in_force), 0, " ".join(self.in_force))
        layouts = Layouts(in_force, lambda stored: self._plan(stored.digest.split()))
        blobs = self.store.load(head, keys_of)
        return rebuild(self.number, layouts, list(self.logs), head, self.store.names, blobs)

    def _plan(self, names: Sequence[str]) -> Plan:
        lines = {name: {entry: () for entry in files} for name, files in self.files.items()}
        return plan_of(with_attributes(lines, *names))

    def run_to(self, share: float, *names: str) -> None:
        """Work under the plan with these attributes by files, up to a share of the log and for
        two commits at least."""
        self.in_force = names
        self.claimed = self.claim()
        if self.claimed.outdated:
            commit = plan_repair(self.claimed)
            assert self.store.commit(commit) == "applied"
            confirm(self.claimed, commit)
        ((topic, log),) = self.logs.items()
        least = self.claimed.sequence + 2
        while self.claimed.lane.offsets[topic] < share * len(log) or self.claimed.sequence < least:
            self.step(crashes=True)


def test_attribute_that_stays_goes_on_and_one_that_begins_takes_the_whole_index() -> None:
    rng = random.Random(1)
    records, times = logs_with_queries(rng, 1, partitions=1)
    files = files_of(rng, times[: len(times) // 4], count=3)
    (logs,) = logs_of(records, topic_names(1)).values()
    machine = RelaidMachine(rng, 0, logs, files)
    late = {name: max(of_name) for name, of_name in files.items()}
    for listed in machine.listed:
        for name, entry in late.items():
            listed[name].remove(entry)
    machine.run_to(0.5, TRAFFIC)
    head = head_of(machine.store.fields).classes
    assert head is not None and [*head.timelines] == [TRAFFIC]
    assert head.latest_ms == latest_ms(machine.claim().lane)
    for listed in machine.listed:
        for name, entry in late.items():
            listed[name].add(entry)
    machine.run_to(0.6, TRAFFIC, SEASON)
    assert late[TRAFFIC] in machine.timeline(TRAFFIC).refused
    assert late[SEASON] in machine.adopted[SEASON]
    machine.run_to(0.7, SEASON)
    head = head_of(machine.store.fields).classes
    assert head is not None and [*head.timelines] == [SEASON]
    machine.run_to(0.8)
    assert machine.store.fields[CLASSES_FIELD] == b""


@pytest.mark.parametrize("seed", seeds(4))
def test_grouping_by_files_that_begins_equals_a_run_that_always_had_it(seed: int) -> None:
    rng = random.Random(seed)
    records, times = logs_with_queries(rng, 1, partitions=1)
    files = files_of(rng, times, count=3)
    (logs,) = logs_of(records, topic_names(1)).values()
    ((topic, log),) = logs.items()
    read_files = {name: {e: as_read(lines) for e, lines in files[name].items()} for name in files}

    def give(lane: Lane) -> None:
        for name, of_lane in lane.class_files.items():
            of_lane.prepare(of_lane.timeline or begun([*read_files[name]]), read_files[name])

    before, after = with_attributes(files, SEASON), with_attributes(files, TRAFFIC, SEASON)
    lane = new_lane(0, plan_of(before), {topic: 0}, [topic])
    give(lane)
    run(lane, logs, before, rng, {topic: len(log) // 3})
    lane, since = relaid(lane, plan_of(after), since_the_beginning(lane.plan))
    give(lane)
    run(lane, logs, after, rng, {topic: len(log)})
    undisturbed = new_lane(0, plan_of(after), {topic: 0}, [topic])
    give(undisturbed)
    run(undisturbed, logs, after, rng, {topic: len(log)})
    assert compare(lane, undisturbed, since)
    assert_sums_to_the_whole(lane)
