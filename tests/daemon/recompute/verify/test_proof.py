"""A lane is proven by its log: all of it by the whole log, rows from an instant on by the rest."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pytest

from relevanced.daemon.judgements import IndexEntry, QueryClasses, begun
from relevanced.daemon.lane import Lane
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.recompute.lost_beginning import LostBeginning
from relevanced.daemon.recompute.proof import Proof, as_text, classing_of, exit_code
from relevanced.daemon.storage import head_of, pack_page, unpack_page
from tests.daemon.recompute.verify.stages import Logs, logs_of, proven, written
from tests.daemon.test_experiments_equality import CONFIGS, dealt
from tests.fakes import MemoryLane
from tests.oracle import OracleConfig, Record
from tests.oracle_queries import Dated
from tests.searches import searched
from tests.seeds import seeds
from tests.streams import (
    SMALL_CONFIG,
    START_MS,
    random_records,
    shifted,
    with_visitors,
    with_wrong_clocks,
)

SEEDS = seeds(5)
CUTS = 80
EVENTS = 500
"""Of a log that is cut: 30 min of event time, twenty times what must be read before it proves."""


EXPERIMENTS = CONFIGS["declared and discovered"]
TOUCH = replace(SMALL_CONFIG, join="last_touch")


def lane(
    rng: random.Random, config: OracleConfig = SMALL_CONFIG, *, topics: int = 2, clocks: bool = True
) -> tuple[MemoryLane, Logs]:
    """A lane of a random log in its store, and the log; with `clocks`, none of them is wrong."""
    records = random_records(rng, topics=topics, partitions=1, events=EVENTS, config=config)
    records = dealt(records, rng) if config is EXPERIMENTS else records
    records = with_visitors(records, rng) if config is TOUCH else records
    logs = logs_of(records if clocks else with_wrong_clocks(records, rng), topics)
    return written(logs, config, rng), logs


def some_cut(logs: Logs, rng: random.Random) -> dict[str, int]:
    """The offsets from which each topic is left: after the same time, or each after another."""
    share = rng.random() * 0.7
    return {
        topic: int(len(log) * (share if rng.random() < 0.5 else rng.random() * 0.7))
        for topic, log in logs.items()
    }


@pytest.mark.parametrize(
    "config", [SMALL_CONFIG, EXPERIMENTS, TOUCH], ids=["rows", "experiments", "touch"]
)
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_whole_log_proves_every_integer(seed: int, topics: int, config: OracleConfig) -> None:
    store, logs = lane(random.Random(seed), config, topics=topics)
    found = proven(store, logs, config)
    assert (found.result, found.notes, found.proven_from) == ("equal", (), None), as_text([found])
    assert found.hours and found.panes and found.integers > 10_000
    assert found.records == sum(map(len, logs.values()))
    assert exit_code([found]) == 0


@pytest.mark.parametrize("config", [SMALL_CONFIG, EXPERIMENTS], ids=["rows", "experiments"])
@pytest.mark.parametrize("queries", [None, QueryPlan()], ids=["alone", "queries"])
def test_lane_that_began_anew_is_proven_by_its_log(
    config: OracleConfig, queries: QueryPlan | None
) -> None:
    """All of its columns begin at the instant from which its log has all."""
    rng, store = random.Random(1), MemoryLane()
    _, logs = lane(rng, config, topics=1)
    begin = msgspec.json.encode(dict.fromkeys(logs, 0))
    store.claim("before", begin)
    store.begin_anew("before", "anew", begin, since_ms=START_MS + 600_001)
    found = proven(written(logs, config, rng, store, queries), logs, config, queries=queries)
    assert found.result == "equal" and found.panes and found.hours, as_text([found])


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_clocks_are_proven_by_a_whole_log(seed: int) -> None:
    config = replace(SMALL_CONFIG, max_future_s=60)
    store, logs = lane(random.Random(seed), config, clocks=False)
    found = proven(store, logs, config)
    assert found.result == "equal", as_text([found])


LATER: Final = IndexEntry(START_MS + 600_000, "later", "2")
CLASSES: Final = {
    IndexEntry(0, "first", "1"): QueryClasses({"shoes": "head"}),
    LATER: QueryClasses({}),
}


def give_classes(lane: Lane) -> None:
    """Files of classes that a worker has."""
    lane.class_files["traffic"].prepare(begun([*CLASSES]), CLASSES)


@pytest.mark.parametrize("is_known", [True, False], ids=["with its files", "without"])
@pytest.mark.parametrize("seed", range(3))
def test_classes_are_proven_by_the_files_that_the_lane_names(seed: int, is_known: bool) -> None:
    """Without them, the sums over all segments are."""
    rng, groupings = random.Random(seed), (("country",), ("traffic",), ("traffic", "country"))
    config = replace(SMALL_CONFIG, groupings=groupings, derive={"traffic": Dated([])})
    config = replace(config, history_hours=100)
    records = random_records(rng, topics=1, partitions=1, events=EVENTS, config=config)
    logs = logs_of(searched(records, rng), 1)
    store = written(logs, config, rng, give_files=give_classes)
    (segment,) = (int(id_) for id_, name in store.names.items() if name == b'[2,"head"]')
    files = {**CLASSES} if is_known else {LATER: CLASSES[LATER]}
    given = {"traffic": classing_of("traffic", head_of(store.fields), files, files, ())}
    found = proven(store, logs, config, classing=given)
    assert found.result == "equal", as_text([found])
    note = "which class queries had in traffic is not known (the lane classed queries by first"
    assert [one.startswith(note) for one in found.notes] == [True] * (not is_known)
    plus_one(store, "rows:120:", segment)
    [difference] = proven(store, logs, config, classing=given).first
    named = ("head" if is_known else "(all together)", "impressions")
    assert (difference.segment, difference.column) == named


def plus_one(store: MemoryLane, prefix: str, segment: int = 0) -> str:
    """Add 1 to the impressions of a segment in the first page with this prefix; returns its key."""
    key = min(key for key in store.listed if key.startswith(prefix))
    rows = np.array(unpack_page(store.blobs[key]))
    rows[segment, 0] += 1
    store.blobs[key] = pack_page(rows)
    return key


def counted_once_more(store: MemoryLane) -> None:
    store.fields["counts"] = store.fields["counts"].replace(b'"accepted":', b'"accepted":1', 1)


CHANGES: dict[str, Callable[[MemoryLane], object]] = {
    "pane": lambda store: plus_one(store, "rows:120:"),
    "hour": lambda store: plus_one(store, "hours:"),
    "totals": lambda store: plus_one(store, "totals:"),
    "count": counted_once_more,
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("seed", SEEDS)
def test_one_changed_integer_is_found_and_named(seed: int, what: str) -> None:
    store, logs = lane(random.Random(seed))
    CHANGES[what](store)
    found = proven(store, logs, SMALL_CONFIG)
    assert (found.result, found.differences, exit_code([found])) == ("differs", 1, 1)
    [difference] = found.first
    assert difference.what == what
    assert difference.stored is not None and difference.proven is not None
    if what == "count":
        assert difference.column == "impression_outcomes accepted"
    else:
        assert (difference.grouping, difference.segment) == ("all", "all")
        assert difference.column == "impressions"
        assert difference.stored == difference.proven + 1
        assert (difference.start is None) == (what == "totals")
    assert difference.text() in as_text([found])


def test_changed_watermark_is_found_and_named() -> None:
    store, logs = lane(random.Random(6))
    marks = msgspec.json.decode(store.fields["watermarks"], type=dict[str, int])
    store.fields["watermarks"] = msgspec.json.encode({**marks, "feedback": marks["feedback"] + 1})
    [difference] = proven(store, logs, SMALL_CONFIG).first
    assert (difference.what, difference.column) == ("watermark", "feedback")
    assert (difference.stored, difference.proven) == (marks["feedback"] + 1, marks["feedback"])


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_experiment_is_found_and_named(seed: int) -> None:
    store, logs = lane(random.Random(seed), EXPERIMENTS)

    def one_less(proof: Proof) -> None:
        arm = proof.comparison.stored.experiments["ranker"].arms["treatment"]
        arm.tallies[int(arm.tallies[:, 0].argmax()), 0] -= 1

    found = proven(store, logs, EXPERIMENTS, change=one_less)
    [difference] = found.first
    assert difference.what == "experiment" and difference.column.endswith(", impressions")
    assert difference.column.startswith("ranker, treatment, bucket ")


@pytest.mark.parametrize("seed", SEEDS)
def test_variants_that_were_planned_after_others_took_the_room_are_not_proven(seed: int) -> None:
    def plan_those_left_out(proof: Proof) -> None:
        tracking, stored = proof.comparison.proven.plan.tracking, proof.comparison.stored
        assert tracking is not None and isinstance(tracking.declared, dict)
        names = {f"v{n}" for n in range(14)} - stored.experiments["layout"].arms.keys()
        assert len(names) == 5
        weights = tuple((name, 1.0) for name in ("control", *sorted(names)))
        tracking.declared["layout"] = replace(tracking.declared["layout"], weights=weights)

    store, logs = lane(random.Random(seed), EXPERIMENTS)
    assert not proven(store, logs, EXPERIMENTS).notes
    found = proven(store, logs, EXPERIMENTS, change=plan_those_left_out)
    assert found.result == "equal", as_text([found])
    [note] = found.notes
    assert note.startswith("experiment layout: had more variants than are counted")


@pytest.mark.parametrize("seed", SEEDS)
def test_variants_that_are_planned_no_more_are_not_proven(seed: int) -> None:
    """They had kept the room of others, for which there is room now."""

    def leave_out(proof: Proof) -> None:
        arms = proof.comparison.stored.experiments["layout"].arms
        for name in sorted(arms.keys() - {"control"})[:3]:
            del arms[name]

    store, logs = lane(random.Random(seed), EXPERIMENTS)
    found = proven(store, logs, EXPERIMENTS, change=leave_out)
    assert found.result == "equal", as_text([found])
    assert [note for note in found.notes if "had more variants than are counted" in note]


@pytest.mark.parametrize("seed", SEEDS)
def test_experiment_declared_later_is_proven_from_its_first_pane_on(seed: int) -> None:
    rng, before = random.Random(seed), replace(EXPERIMENTS, units={"colour": "impression"})
    records = random_records(rng, partitions=1, events=EVENTS, config=EXPERIMENTS)
    logs = logs_of(dealt(records, rng), 2)
    half = {topic: log[: len(log) // 2] for topic, log in logs.items()}
    store = written(half, replace(before, stratify={"colour": "country,device"}), rng)
    store = written(logs, EXPERIMENTS, rng, store)
    head = store.claim("t", b"")
    since = {entry.name: entry.since_ms for entry in head.state.experiments}
    assert since["ranker"] is not None and since["colour"] is None
    found = proven(store, logs, EXPERIMENTS)
    assert found.result == "equal", as_text([found])
    assert any("undeclared experiments" in note for note in found.notes)


def test_differences_are_counted_and_the_first_named() -> None:
    store, logs = lane(random.Random(1))
    for key in [key for key in store.listed if key.startswith("rows:30:")]:
        rows = np.array(unpack_page(store.blobs[key]))
        rows[0] += 1
        store.blobs[key] = pack_page(rows)
    found = proven(store, logs, SMALL_CONFIG)
    assert found.differences > 100 and len(found.first) == 20
    assert f"and {found.differences - 20:,} more" in as_text([found])


def count(store: MemoryLane) -> None:
    """Let the head say how many keys there are: else the lane would be damaged."""
    store.fields["keys"] = b"%d" % len(store.listed)


def test_page_that_no_record_explains_differs() -> None:
    store, logs = lane(random.Random(2))
    key = max(key for key in store.listed if key.startswith("hours:"))
    start, page = key.removeprefix("hours:").split(":")
    beyond = f"hours:{int(start) + 45_000}:{page}"
    store.blobs[beyond], store.listed[beyond] = store.blobs[key], 1
    count(store)
    assert proven(store, logs, SMALL_CONFIG).result == "differs"


def test_missing_page_differs() -> None:
    store, logs = lane(random.Random(3))
    key = min(key for key in store.listed if key.startswith("hours:"))
    del store.listed[key]
    count(store)
    found = proven(store, logs, SMALL_CONFIG)
    assert found.result == "differs" and {one.what for one in found.first} == {"hour"}


@pytest.mark.parametrize("config", [SMALL_CONFIG, TOUCH], ids=["by id", "touch"])
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", seeds(CUTS // 4))
def test_rest_of_a_log_proves_rows_from_an_instant_on(
    seed: int, topics: int, config: OracleConfig
) -> None:
    rng = random.Random(seed)
    store, logs = lane(rng, config, topics=topics)
    found = proven(store, logs, config, some_cut(logs, rng))
    assert found.result in ("equal", "not provable"), as_text([found])
    if found.result == "equal":
        assert found.proven_from is not None and found.integers
        assert any("totals, counts and experiments cannot be proven" in n for n in found.notes)


def test_rest_of_a_log_not_seen_before_proves_rows(rng: np.random.Generator) -> None:
    again = random.Random(int(rng.integers(2**63)))
    store, logs = lane(again, topics=again.choice((1, 2)))
    found = proven(store, logs, SMALL_CONFIG, some_cut(logs, again))
    assert found.result in ("equal", "not provable"), as_text([found])


def with_clocks_ahead(records: list[Record], rng: random.Random) -> list[Record]:
    """The same log by the broker's clock, with events that are ahead of it by more than moves a
    watermark alone, and by less than is refused."""
    return [
        (
            replace(
                shifted(record, rng.choice((310_000, 390_000))), timestamp_ms=record.timestamp_ms
            )
            if rng.random() < 0.2
            else record
        )
        for record in records
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_rest_of_a_log_proves_rows_where_clocks_are_ahead(seed: int) -> None:
    """What awaits confirmation at the first record that is left is not known either."""
    rng, config = random.Random(seed), replace(SMALL_CONFIG, max_future_s=400)
    records = random_records(rng, partitions=1, events=900, config=config, span_s=4_000)
    logs = logs_of(with_clocks_ahead(records, rng), 2)
    store = written(logs, config, rng)
    assert b"ahead_events" in store.fields["counts"]
    found = proven(store, logs, config, some_cut(logs, rng))
    assert found.result == "equal", as_text([found])


def outcomes_of_cuts(change: Callable[[Proof], None] = lambda _: None) -> list[str]:
    results = []
    for seed in range(CUTS // 4):
        for topics in (1, 2):
            rng = random.Random(seed)
            store, logs = lane(rng, topics=topics)
            cut = some_cut(logs, rng)
            results.append(proven(store, logs, SMALL_CONFIG, cut, change).result)
    return results


def test_most_cuts_prove_something() -> None:
    results = outcomes_of_cuts()
    assert results.count("equal") > len(results) / 2


class WithoutMargin(LostBeginning):
    """Takes what lies after the first records that are left as proven, without a margin."""

    @property
    def first_ms(self) -> int | None:
        stamps = [ms for ms in self._stamps_ms.values() if ms is not None]
        base_ms = self._timing.base_ms
        return None if not stamps else max(stamps) // base_ms * base_ms + base_ms


def test_without_the_margin_the_rest_of_a_log_would_differ() -> None:
    def without_margin(proof: Proof) -> None:
        assert proof._lost is not None
        proof._lost.__class__ = WithoutMargin

    assert "differs" in outcomes_of_cuts(without_margin)


def test_without_the_sum_crowded_groupings_would_differ() -> None:
    def each_segment(proof: Proof) -> None:
        proof.comparison.rows.summed = lambda start: frozenset()

    assert "differs" in outcomes_of_cuts(each_segment)


@pytest.mark.parametrize("seed", SEEDS)
def test_changed_row_is_found_in_the_rest_of_a_log(seed: int) -> None:
    rng = random.Random(seed)
    store, logs = lane(rng)
    key = max(key for key in store.listed if key.startswith("rows:30:") and key.endswith(":0"))
    rows = np.array(unpack_page(store.blobs[key]))
    rows[0, 0] += 1
    store.blobs[key] = pack_page(rows)
    cut = {topic: len(log) // 4 for topic, log in logs.items()}
    found = proven(store, logs, SMALL_CONFIG, cut)
    assert (found.result, found.differences) == ("differs", 1), as_text([found])
    assert found.first[0].what == "pane"


def test_rest_without_timestamps_proves_nothing() -> None:
    store, logs = lane(random.Random(4))
    for log in logs.values():
        for record in log:
            record.timestamp = -1
    found = proven(store, logs, SMALL_CONFIG, dict.fromkeys(logs, 1))
    assert found.result == "not provable" and "timestamp" in found.reason
    assert exit_code([found]) == 1


def test_rest_that_is_too_short_proves_nothing() -> None:
    store, logs = lane(random.Random(5))
    cut = {topic: len(log) - 3 for topic, log in logs.items()}
    found = proven(store, logs, SMALL_CONFIG, cut)
    assert found.result == "not provable" and "span less than the 86 s" in found.reason


def test_rest_proves_nothing_while_a_log_that_took_the_place_of_another_is_empty() -> None:
    """What the other had is in the rows: that of the logs that are whole does not explain them."""
    store, logs = lane(random.Random(6))
    whole, empty = logs
    store.fields["offsets"] = msgspec.json.encode({whole: len(logs[whole]), empty: 0})
    counts = msgspec.json.decode(store.fields["counts"]) | {"replaced_logs": {empty: 1}}
    store.fields["counts"] = msgspec.json.encode(counts)
    found = proven(store, {**logs, empty: []}, SMALL_CONFIG, dict.fromkeys(logs, 0))
    assert found.result == "not provable", as_text([found])
    assert f"no record with a timestamp is left of {empty}" in found.reason
