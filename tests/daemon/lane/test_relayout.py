"""A lane that goes to another plan in the middle of its log: what stays equals a run that always
had that plan, integer for integer, and what is new equals it from its instant on."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import pytest

from relevanced.daemon.lane import (
    BEFORE,
    PAGE_ROWS,
    Lane,
    Pages,
    Since,
    new_lane,
    relaid,
    since_the_beginning,
)
from relevanced.daemon.plan import COUNT_COLUMNS, METRIC_COLUMNS
from tests.daemon.test_equality import as_log_record, logs_of
from tests.oracle import OracleConfig, Record
from tests.oracle_queries import Rule
from tests.replica import decoder_of, plan_of
from tests.searches import RULES, searched
from tests.seeds import seeds
from tests.streams import SMALL_CONFIG, random_records, topic_names
from tests.whole_batch import process_batch

SEEDS = seeds(7)
CONFIG: Final = replace(SMALL_CONFIG, max_segments=1000)
OTHERS: Final[dict[str, OracleConfig]] = {
    "a metric more": replace(CONFIG, metric_names=(*CONFIG.metric_names, "AP@3")),
    "a metric first": replace(CONFIG, metric_names=("Success@2", *CONFIG.metric_names)),
    "a metric less": replace(CONFIG, metric_names=CONFIG.metric_names[1:]),
    "a metric of time": replace(
        CONFIG, metric_names=(*CONFIG.metric_names, "FirstFeedbackSeconds")
    ),
    "another metric": replace(CONFIG, metric_names=("nDCG(gain=linear)@2",)),
    "no grouping": replace(CONFIG, groupings=()),
    "a grouping more": replace(CONFIG, groupings=(*CONFIG.groupings, ("experiment:ranker",))),
    "groupings turned": replace(CONFIG, groupings=CONFIG.groupings[::-1]),
    "derived": replace(CONFIG, groupings=(("kind",), *CONFIG.groupings), derive=RULES),
    "derived by another rule": replace(
        CONFIG, groupings=(("kind",), *CONFIG.groupings[1:]), derive={"kind": (1, 3)}
    ),
    "a window more": replace(CONFIG, windows_s=(30, 60, 120, 600)),
    "a window less": replace(CONFIG, windows_s=(30, 600)),
    "no hours": replace(CONFIG, history_hours=0),
    "all": replace(
        CONFIG,
        windows_s=(30, 90, 600),
        metric_names=("AP@3", CONFIG.metric_names[0]),
        groupings=(("experiment:ranker",), CONFIG.groupings[0]),
    ),
}
Cells: TypeAlias = dict[tuple[str, str, str], int]
"""(grouping, segment, column) → a count that is not 0."""


def cells(lane: Lane, pages: Pages) -> Cells:
    plan, found = lane.plan, dict[tuple[str, str, str], int]()
    names = ["all", *(",".join(attributes) for attributes in lane.groupings)]
    metrics = [f"{id_}:{part}" for id_ in plan.column_ids for part in METRIC_COLUMNS]
    columns = [*COUNT_COLUMNS, *metrics]
    for page, rows in pages.items():
        named = lane.segments.names[page * PAGE_ROWS : (page + 1) * PAGE_ROWS]
        for (grouping, segment), row in zip(named, rows.tolist(), strict=False):
            if names[grouping] in plan.grouping_names:
                of_row = zip(columns, row, strict=True)
                found |= {(names[grouping], segment, column): n for column, n in of_row if n}
    return found


def run(lane: Lane, logs: Mapping[str, Sequence[Record]], config: OracleConfig, rng: random.Random,
        until: Mapping[str, int]) -> None:  # fmt: skip
    decode = decoder_of(config)
    while any(lane.offsets[topic] < until[topic] for topic in logs):
        ends = {t: min(lane.offsets[t] + rng.choice((0, 1, 7, 60)), until[t]) for t in logs}
        pulled = {
            topic: [as_log_record(record) for record in log[lane.offsets[topic] : ends[topic]]]
            for topic, log in logs.items()
        }
        process_batch(lane, pulled, ends, decode)
        lane.start_batch()


def compare(changed: Lane, undisturbed: Lane, since: Since) -> int:
    """Assert that all that holds is equal; returns how many counts were compared."""
    compared = 0
    for key in changed.panes.keys() | undisturbed.panes.keys():
        window = changed.plan.timing.windows[key[0]]
        ours, theirs = (
            cells(lane, lane.panes[key].pages) if key in lane.panes else {}
            for lane in (changed, undisturbed)
        )
        for cell in ours.keys() | theirs.keys():
            grouping, segment, name = cell
            column = name.rpartition(":")[0]
            id_ = changed.plan.grouping_id(grouping) or ""
            first = [since.windows[window.length_ms], since.groupings[id_]]
            first += [since.columns[column]] if column else []
            if segment != BEFORE and all(each is None or key[1] >= each for each in first):
                assert ours.get(cell, 0) == theirs.get(cell, 0), (key, cell, since)
                compared += 1
    return compared


def assert_sums_to_the_whole(lane: Lane) -> None:
    of_panes = [rows.pages for rows in (*lane.panes.values(), *lane.hours.values())]
    for pages in (lane.totals.pages, *of_panes):
        found = cells(lane, pages)
        whole = {name: n for (grouping, _, name), n in found.items() if grouping == "all"}
        for grouping in lane.plan.grouping_names[1:]:
            names = {name for _, _, name in found}
            for name in names:
                parts = [n for (of, _, each), n in found.items() if (of, each) == (grouping, name)]
                assert sum(parts) == whole.get(name, 0), (grouping, name)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_holds_equals_a_run_that_never_changed(seed: int, other: OracleConfig) -> None:
    before, after = (CONFIG, other) if seed % 3 else (other, CONFIG)
    assert_equals_a_run_that_never_changed(seed, before, after)


@pytest.mark.parametrize("derive", [RULES, {**RULES, "kind": {"sku": r"\d"}}, {"kind": (1, 3)}])
@pytest.mark.parametrize("seed", SEEDS)
def test_grouping_that_is_derived_by_another_rule_begins_anew(
    seed: int, derive: Mapping[str, Rule]
) -> None:
    groupings = (("country",), ("kind",), ("country", "kind"))
    before = replace(CONFIG, groupings=groupings, derive=RULES)
    since = assert_equals_a_run_that_never_changed(
        seed, before, replace(CONFIG, groupings=groupings[::-1], derive=derive)
    )
    anew = [name for name, instant in since.groupings.items() if instant is not None]
    is_same = derive["kind"] == RULES["kind"]
    assert [name.partition("~")[0] for name in anew] == (
        [] if is_same else ["country,kind", "kind"]
    )


def assert_equals_a_run_that_never_changed(
    seed: int, before: OracleConfig, after: OracleConfig
) -> Since:
    rng = random.Random(seed)
    topics = topic_names(1 + seed % 2)
    records = random_records(rng, topics=len(topics), partitions=1, events=400, config=CONFIG)
    logs = logs_of(searched(records, rng), topics)[0]
    ends = {topic: len(log) for topic, log in logs.items()}
    share = rng.random()
    cut = {topic: int(end * share) for topic, end in ends.items()}
    lane = new_lane(0, plan_of(before), dict.fromkeys(topics, 0), topics)
    run(lane, logs, before, rng, cut)
    lane, since = relaid(lane, plan_of(after), since_the_beginning(lane.plan))
    assert_sums_to_the_whole(lane)
    run(lane, logs, after, rng, ends)
    undisturbed = new_lane(0, plan_of(after), dict.fromkeys(topics, 0), topics)
    run(undisturbed, logs, after, rng, ends)
    assert compare(lane, undisturbed, since)
    assert_sums_to_the_whole(lane)
    kept = {id_ for id_, instant in since.columns.items() if instant is None}
    ours, theirs = (cells(each, each.totals.pages) for each in (lane, undisturbed))
    for cell in ours.keys() | theirs.keys():
        column = cell[2].rpartition(":")[0]
        id_ = undisturbed.plan.grouping_id(cell[0]) or ""
        if since.groupings[id_] is None and (not column or column in kept):
            assert ours.get(cell, 0) == theirs.get(cell, 0), cell
    return since
