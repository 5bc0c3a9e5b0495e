"""The lane as a run without faults leaves it, and what a lane after faults has of queries, their
examples and judged rows beside it: the same rows, and the same bytes of hours that are over.

The oracle has no tables of queries. What they must be follows from the log, so one process that
reads all of it, undisturbed, says it. Where a lane went to another layout, tables and judged rows
began anew with a whole hour, and are compared from there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from relevanced.daemon.events import Decoder
from relevanced.daemon.judgements import IndexEntry, Judgements, QueryClasses
from relevanced.daemon.lane import PAGE_ROWS, Lane, ShownInBatch, kept_rows, topic_of
from relevanced.daemon.plan import Plan
from relevanced.daemon.storage import (
    JUDGED,
    Head,
    InForce,
    Layouts,
    QueryHead,
    RowsHead,
    confirm,
    head_of,
    plan_commit,
    queries_hour_key,
    rebuild,
    row_pages,
    unpack_page,
)
from tests.chaos.comparison import Difference, of_part
from tests.daemon.test_examples_equality import examples_in
from tests.daemon.test_queries_equality import decoded, tables_in
from tests.fakes import MemoryLane
from tests.oracle import Record
from tests.replica import every_key
from tests.whole_batch import process_batch

BATCH_RECORDS: Final = 700
MOST_EVENTS: Final = 8
"""No record of the tests has more."""


@dataclass(frozen=True)
class Files:
    """The files of a round, as workers read them."""

    judgements: Mapping[IndexEntry, Judgements]
    classes: Mapping[str, Mapping[IndexEntry, QueryClasses]] = field(default_factory=dict)
    """By attribute."""


@dataclass(frozen=True)
class StoredLane:
    """Everything that a store has of a lane."""

    number: int
    head: Head
    names: Mapping[str, bytes]
    blobs: Mapping[str, bytes | None]


def with_past_queries(head: Head, listed: Sequence[str]) -> list[str]:
    """All keys of a lane, also those that only the head lists."""
    queries = head.queries or QueryHead()
    return [*every_key(head, listed), *queries.hour_keys, *queries.example_keys]


def undisturbed(
    stored: StoredLane,
    records: Sequence[Record],
    start: Mapping[str, int],
    plan: Plan,
    decode: Decoder,
    files: Files,
) -> StoredLane:
    """The lane of these records, by its logs, read from its starting offsets on in one process:
    classed and graded by the files that the stored one knows, graded from the hour on in which its
    judged rows begin; at last its logs are lifted as those of the stored one."""
    store = MemoryLane()
    head = store.claim("t", msgspec.json.encode(start))
    layouts = Layouts(InForce(replace(plan, tracking=None)))  # experiments are the oracle's
    claimed = rebuild(stored.number, layouts, [*start], head, store.names, store.load(head))
    _grade_as(stored.head, claimed.lane, files)
    _class_as(stored.head, claimed.lane, files)
    mine = [one for one in records if one.partition == stored.number]
    unread = {
        topic: [as_log_record(one) for one in mine if one.topic == topic and one.offset >= at]
        for topic, at in start.items()
    }
    offsets, lane = dict(start), claimed.lane
    is_read = False
    while not is_read:
        size, is_read = _batch_size(lane), not any(unread.values())
        batch = {topic: log[:size] for topic, log in unread.items()}
        unread = {topic: log[size:] for topic, log in unread.items()}
        offsets |= {topic: log[-1].offset + 1 for topic, log in batch.items() if log}
        lane.lifts |= stored.head.lifts if is_read else {}
        process_batch(lane, batch, offsets, decode)
        commit = plan_commit(claimed)
        assert store.commit(commit) == "applied"
        confirm(claimed, commit)
    return StoredLane(stored.number, head_of(store.fields), store.names, store.blobs)


def _batch_size(lane: Lane) -> int:
    """How many records to read next. Slots follow the log from batch to batch, not within one: a
    batch ends with the last impression that was accepted before judged rows began."""
    from_slot = 0 if lane.judged is None else lane.judged.from_slot
    left = from_slot - lane.open.next_slot
    return min(max(left // MOST_EVENTS, 1), BATCH_RECORDS) if left > 0 else BATCH_RECORDS


def as_log_record(record: Record) -> SimpleNamespace:
    stamp = -1 if record.timestamp_ms is None else record.timestamp_ms
    return SimpleNamespace(**vars(record), timestamp=stamp, key=b"k")


def _grade_as(head: Head, lane: Lane, files: Files) -> None:
    judged = lane.judged
    if judged is None or head.judged is None or head.judgements is None:
        return
    # Where they come from one log, so many as there were are the same.
    judged.since_ms, judged.from_slot = head.judged.since_ms, head.judged.from_slot
    judged.shown = ShownInBatch(judged.from_slot)
    judged.files.prepare(head.judgements.history, files.judgements)


def _class_as(head: Head, lane: Lane, files: Files) -> None:
    timelines = {} if head.classes is None else head.classes.timelines
    for attribute, timeline in timelines.items():
        lane.class_files[attribute].prepare(timeline.history, files.classes[attribute])


@dataclass(frozen=True)
class Scope:
    """What is compared: what a lane lost, or had before its rows began anew, is not."""

    queries_from: int
    lost_queries: frozenset[int]
    lost_examples: frozenset[int]
    judged_from: float
    lost_judged: frozenset[int]

    @classmethod
    def of(cls, head: Head) -> "Scope":
        queries, judged = head.queries or QueryHead(), head.judged or RowsHead()
        # Which impressions came first is a matter of reading where several logs have some.
        is_unknown = judged.from_slot and any(topic_of(log) != log for log in head.watermarks)
        return cls(
            queries.since_ms or 0,
            frozenset(queries.lost),
            frozenset((*queries.lost, *queries.lost_examples)),
            math.inf if is_unknown else judged.since_ms,
            frozenset(judged.lost_hours),
        )


def disturbances(found: StoredLane, calm: StoredLane, plan: Plan) -> Iterator[Difference]:
    """Every value of queries, examples and judged rows that differs from the undisturbed run."""
    scope = Scope.of(found.head)
    pairs = [
        ("tables of queries", [_tables(lane, plan, scope) for lane in (found, calm)]),
        ("examples", [_examples(lane, scope) for lane in (found, calm)]),
        ("judged rows", [_judged_rows(lane, plan, scope) for lane in (found, calm)]),
        ("bytes", [_bytes(lane, plan, scope) for lane in (found, calm)]),
    ]
    if found.names != calm.names:  # a page of rows has other segments then
        both = [{k: v for k, v in of.items() if not JUDGED.own(k)} for of in pairs[-1][1]]
        pairs[-1] = ("bytes", both)
    if not scope.judged_from:
        late = [lane.head.counts.get("judged_late", {}) for lane in (found, calm)]
        pairs.append(("judged late", [dict(counts) for counts in late]))
    for part, (stored, expected) in pairs:
        yield from of_part(found.number, part, stored, expected)


def _tables(lane: StoredLane, plan: Plan, scope: Scope) -> dict[Any, Any]:
    if lane.head.queries is None:
        return {}
    found = tables_in(lane.head.queries, lane.blobs, plan, scope.queries_from)
    return {
        (start, kind, key): value
        for start, tables in found.items()
        if start >= scope.queries_from and start not in scope.lost_queries
        for kind, (rows, other, bound) in decoded(tables).items()
        for key, value in {**rows, "(other)": other, "(bound)": bound}.items()
    }


def _examples(lane: StoredLane, scope: Scope) -> dict[Any, Any]:
    if lane.head.queries is None:
        return {}
    return {
        (start, key): examples
        for start, by_key in examples_in(lane.head.queries, lane.blobs).items()
        if start >= scope.queries_from and start not in scope.lost_examples
        for key, examples in by_key.items()
    }


def _judged_rows(lane: StoredLane, plan: Plan, scope: Scope) -> dict[Any, Any]:
    """(window or hour, start, segment) → its row."""
    found: dict[Any, Any] = {}
    for key, data in lane.blobs.items():
        if JUDGED.own(key) and data is not None:
            if (of_hour := JUDGED.of_hour(key)) is not None:
                window, (start, page) = "hour", of_hour
            elif (of_pane := JUDGED.of_pane(plan.timing, key)) is not None:
                (index, start), page = of_pane
                window = plan.timing.windows[index].name
            if start >= scope.judged_from and not (window == "hour" and start in scope.lost_judged):
                for line, row in enumerate(unpack_page(data).tolist()):
                    if any(row):
                        name = lane.names[str(id_)] if (id_ := page * PAGE_ROWS + line) else b""
                        found[window, start, name] = row
    return found


def _bytes(lane: StoredLane, plan: Plan, scope: Scope) -> dict[str, Any]:
    """The pages of hours that are over."""
    queries, settled = lane.head.queries or QueryHead(), lane.head.state.settled_before or 0
    tables = [queries_hour_key(s) for s in queries.hours if s not in scope.lost_queries]
    examples = [
        row_pages.examples_hour_key(s) for s in queries.examples if s not in scope.lost_examples
    ]
    keys = [key for key in tables + examples if int(key.split(":")[1]) >= scope.queries_from]
    for key in lane.blobs:
        if (of_hour := JUDGED.of_hour(key)) is not None:
            is_over = scope.judged_from <= of_hour[0] < kept_rows.open_hour(settled, plan)
            keys += [key] if is_over and of_hour[0] not in scope.lost_judged else []
    return {key: lane.blobs.get(key) for key in keys}
