"""Lanes with everything that a lane can have, in random combinations, and their proofs."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from relevanced.daemon.judgements import IndexEntry, QueryClasses, begun, file_name
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.recompute.proof import (
    Classing,
    Grading,
    Outcome,
    Proof,
    classing_of,
    grading_of,
)
from relevanced.daemon.storage import ClaimedLane, Head, blob_keys
from tests.daemon.recompute.verify.stages import as_log_record, stored_of
from tests.daemon.test_equality import logs_of
from tests.daemon.test_experiments_equality import dealt
from tests.daemon.test_judged_equality import PLAN, JudgedMachine, random_files
from tests.daemon.test_queries_equality import CONFIG, with_queries
from tests.oracle import OracleConfig, Record
from tests.oracle_queries import Dated
from tests.streams import random_records, topic_names

ITEMS: Final = [f"d{n}" for n in range(12)]
TRAFFIC: Final = "traffic"
ClassFiles = dict[IndexEntry, QueryClasses]


@dataclass(frozen=True)
class Parts:
    """What a lane has beside rows."""

    queries: QueryPlan | None = None
    judged: bool = False
    missing: bool = False
    classes: bool = False
    experiments: bool = False
    propensities: str = ""
    """The attribute of surfaces; "": none."""
    most_values: int = 100

    def keeps(self, grouping: tuple[str, ...]) -> bool:
        """Whether tables of queries or an experiment need a grouping."""
        by = "" if self.queries is None else self.queries.by
        return self.experiments or ",".join(grouping) == by

    @property
    def config(self) -> OracleConfig:
        """The oracle's configuration of it."""
        config = replace(CONFIG, max_segments=self.most_values)
        if self.classes:
            groupings = (("country",), (TRAFFIC,), (TRAFFIC, "device"))
            config = replace(config, groupings=groupings, derive={TRAFFIC: Dated([])})
        if self.experiments:
            stratify = {"ranker": TRAFFIC if self.classes else "country"}
            units = {"ranker": "user_id", "layout": "session", "colour": "impression"}
            config = replace(config, units=units, discovered=2, stratify=stratify)
        if self.propensities:
            names = ("P@5", "nDCG@10", "FirstFeedbackSeconds", "IPS-P@5", "IPS-DCG@3")
            tables = {"ios": (0.9, 0.5, 0.3), "head": (1.0, 0.4), "torso": (1.0, 0.7, 0.2)}
            config = replace(config, metric_names=names, propensities=tables, weighted_ranks=5)
            config = replace(config, surface=self.propensities, default_surface="ios")
        return config


def random_parts(rng: random.Random) -> Parts:
    """Any combination."""
    classes, queries = rng.random() < 0.7, None
    if rng.random() < 0.7:
        by = rng.choice((None, "country", TRAFFIC if classes else "country"))
        examples = rng.choice((0, 1, 3))
        queries = QueryPlan(by=by, kept=rng.choice((3, 1000)), min_users=2, examples=examples)
    judged = rng.random() < 0.6
    return Parts(
        queries=queries,
        judged=judged,
        missing=judged and queries is not None and rng.random() < 0.6,
        classes=classes,
        experiments=rng.random() < 0.5,
        propensities=rng.choice(("", "device", TRAFFIC if classes else "")),
        most_values=rng.choice((1, 3, 100)),
    )


def random_classes(rng: random.Random, times: Sequence[int]) -> ClassFiles:
    """Files of classes; the first may start in the middle of the log."""
    starts = {rng.choice((0, times[0], *times)) // 1000 * 1000 for _ in range(rng.choice((1, 3)))}
    files = {}
    for number, start_ms in enumerate(sorted(starts)):
        classes = {f"q{n}": rng.choice(("head", "torso")) for n in rng.sample(range(8), 5)}
        name = file_name(start_ms, f"{number}.csv")
        files[IndexEntry(start_ms, name, f"{number:064x}")] = QueryClasses(classes)
    return files


class WholeLane(JudgedMachine):
    """A lane of these parts, over its log."""

    def __init__(
        self,
        rng: random.Random,
        parts: Parts,
        topics: int,
        events: int = 500,
        span_s: int = 1_800,
    ) -> None:
        config = parts.config
        shape = {"topics": topics, "partitions": 1, "events": events, "span_s": span_s}
        records = random_records(rng, config=config, **shape)
        records = dealt(records, rng) if parts.experiments else records
        records = with_queries(records, rng, texts=8)
        times = sorted(one.timestamp_ms for one in records if one.timestamp_ms is not None)
        self.classes = random_classes(rng, times)
        logs: Mapping[str, Sequence[Record]]
        (logs,) = logs_of(records, topic_names(topics)).values()
        files = random_files(rng, times[len(times) // 3], ITEMS)
        super().__init__(rng, 0, logs, files, config, parts.queries)
        self.store = type(self.store)()
        judged = self.plan.judged if parts.judged else None
        self.plan = replace(self.plan, judged=judged, missing=parts.missing)
        self.claimed = self.claim()

    def claim(self, keys_of: Callable[[Head, Sequence[str]], list[str]] = blob_keys) -> ClaimedLane:
        claimed = super().claim(keys_of)
        for files in claimed.lane.class_files.values():
            files.prepare(files.timeline or begun([*self.classes]), self.classes)
        return claimed

    def relay_to(self, parts: Parts) -> None:
        """Go to the layout of these parts, of which the groupings and the metrics may be fewer."""
        config = parts.config
        names, fewer = self.plan.metrics, self.rng.random() < 0.5 and self.plan.tracking is None
        kept = [one for one in config.groupings if self.rng.random() < 0.7 or parts.keeps(one)]
        self.plan = replace(
            self.plan,
            groupings=tuple(kept),
            metrics=names[1:] if fewer else names,
            queries=parts.queries,
            judged=PLAN if parts.judged else None,
            missing=parts.missing,
        )
        self.relay()

    def relay(self) -> None:
        self.layout += "'"
        super().relay()

    def run(self, crashes: bool, unread: int = 0) -> "WholeLane":
        """Read the log, but for so many records of each topic at least."""
        while any(
            self.claimed.lane.offsets[topic] < len(log) - unread for topic, log in self.logs.items()
        ):
            if self.claimed.lane.query_keys is not None and self.rng.random() < 0.1:
                self.claimed.lane.forget_unused_queries()
            self.step(crashes)
        return self


def proof_of(
    machine: WholeLane,
    begin: Mapping[str, int] | None = None,
    writer: bool = True,
) -> Outcome:
    """The proof of a lane by its log, or by what begins there, and by all of its files."""
    stored = stored_of(machine.store, machine.plan, writer=writer)
    head, files = stored.head, machine.files or {}
    grading: Grading = grading_of(head, files, files, ())
    classing: dict[str, Classing] = {
        TRAFFIC: classing_of(TRAFFIC, head, machine.classes, machine.classes, ())
    }
    at = dict(begin or head.start or {})
    most_ms = machine.decode.limits.max_future_ms
    offsets = dict(at)
    proof = Proof(
        stored, machine.plan, machine.decode, offsets, begin is not None, most_ms, grading, classing
    )
    replay = proof.replay
    while unread := [topic for topic in at if at[topic] < head.offsets[topic]]:
        topic = replay.next_log(unread)
        end = min(at[topic] + min(replay.batch_records, 50), head.offsets[topic])
        records = [as_log_record(record) for record in machine.logs[topic][at[topic] : end]]
        at[topic] = end
        replay.apply(topic, records, end)
    return proof.outcome()
