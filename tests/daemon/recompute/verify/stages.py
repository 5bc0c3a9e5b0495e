"""Lanes that a worker wrote from random logs, and their proof from what a log still has."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import msgspec

from relevanced.daemon.errors import Damaged
from relevanced.daemon.events import Decoder, decoder
from relevanced.daemon.lane import Lane
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.recompute.proof import (
    Classing,
    Outcome,
    Proof,
    StoredLane,
    WriterValues,
    query_keys_of,
    stored_lane,
    writer_keys,
)
from relevanced.daemon.storage import InForce, Layouts, confirm, head_of, plan_commit, rebuild
from tests.fakes import MemoryLane
from tests.oracle import OracleConfig, Record
from tests.replica import decoder_of, plan_of
from tests.streams import topic_names
from tests.whole_batch import process_batch

Logs = Mapping[str, Sequence[SimpleNamespace]]


def logs_of(records: Sequence[Record], topics: int) -> Logs:
    """The records of partition 0, by topic."""
    return {
        topic: [as_log_record(r) for r in records if (r.topic, r.partition) == (topic, 0)]
        for topic in topic_names(topics)
    }


def as_log_record(record: Record) -> SimpleNamespace:
    stamp = -1 if record.timestamp_ms is None else record.timestamp_ms
    return SimpleNamespace(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=stamp,
        key=b"k",
        value=record.value,
    )


def written(
    logs: Logs,
    config: OracleConfig,
    rng: random.Random,
    store: MemoryLane | None = None,
    queries: QueryPlan | None = None,
    give_files: Callable[[Lane], None] = lambda _: None,
) -> MemoryLane:
    """The store after a worker has read the rest of the logs, in batches of any size."""
    store, (plan, decode) = store or MemoryLane(), with_queries(config, queries)
    head = store.claim("t", msgspec.json.encode(dict.fromkeys(logs, 0)))
    held = rebuild(0, Layouts(InForce(plan)), list(logs), head, store.names, store.load(head))
    give_files(held.lane)
    offsets = dict(head.offsets)
    while any(offsets[topic] < len(log) for topic, log in logs.items()):
        batch = {}
        for topic, log in logs.items():
            batch[topic] = log[offsets[topic] : offsets[topic] + rng.choice((0, 1, 5, 40))]
            offsets[topic] += len(batch[topic])
        process_batch(held.lane, batch, offsets, decode)
        commit = plan_commit(held)
        assert store.commit(commit) == "applied"
        confirm(held, commit)
    return store


def with_queries(config: OracleConfig, queries: QueryPlan | None) -> tuple[Plan, Decoder]:
    """The plan and the decoder of a configuration, with tables of queries or without."""
    decode = decoder_of(config)
    if queries is not None:
        decode = decoder("native", msgspec.structs.replace(decode.limits, queries=True))
    return replace(plan_of(config), queries=queries), decode


def stored_of(store: MemoryLane, plan: Plan, *, writer: bool = True) -> StoredLane:
    """What a reader of the store is given, with what its writer reads or without."""
    head = head_of(store.fields)
    if not store.is_counted():
        raise Damaged("keys or names are missing")
    names = [
        msgspec.json.decode(store.names[str(n)], type=tuple[int, str])
        for n in range(1, len(store.names) + 1)
    ]
    pages = {key: store.blobs[key] for key, sequence in store.listed.items() if sequence}
    values = {key: store.blobs.get(key) for key in query_keys_of(head)}
    blobs = {key: store.blobs.get(key) for key in writer_keys(head)}
    given = WriterValues(store.names, blobs) if writer else None
    return stored_lane(0, head, names, pages, plan, values, given)


def proven(
    store: MemoryLane,
    logs: Logs,
    config: OracleConfig,
    begin: Mapping[str, int] | None = None,
    change: Callable[[Proof], None] = lambda _: None,
    queries: QueryPlan | None = None,
    classing: Mapping[str, Classing] = MappingProxyType({}),
    writer: bool = True,
) -> Outcome:
    """The proof of a store from the records of its logs, or from those from `begin` on."""
    at, lost, most_ms = (
        dict(begin or dict.fromkeys(logs, 0)),
        begin is not None,
        config.max_future_s * 1000,
    )
    plan, decode = with_queries(config, queries)
    stored = stored_of(store, plan, writer=writer)
    proof = Proof(stored, plan, decode, at, lost, most_ms, classing=classing)
    change(proof)
    replay = proof.replay
    while unread := [topic for topic, log in logs.items() if at[topic] < len(log)]:
        topic = replay.next_log(unread)
        records = logs[topic][at[topic] : at[topic] + min(replay.batch_records, 50)]
        at[topic] += len(records)
        replay.apply(topic, records, at[topic])
    return proof.outcome()
