"""Judged rows follow from the log and the files: they are the oracle's, whatever the cut into
batches, the interleaving of topics and the crashes."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec
import pytest

from relevanced.daemon.events import decoder
from relevanced.daemon.judgements import (
    IndexEntry,
    Judgements,
    Timeline,
    begun,
    file_name,
    judged_plan,
    prepared,
)
from relevanced.daemon.lane import PAGE_ROWS, Lane, latest_ms
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.plan import Plan
from relevanced.daemon.queries import QueryPlan
from relevanced.daemon.storage import (
    JUDGED,
    JUDGEMENTS_FIELD,
    ClaimedLane,
    Head,
    InForce,
    Layouts,
    blob_keys,
    confirm,
    plan_repair,
    rebuild,
)
from tests import oracle_judged
from tests.daemon.test_equality import (
    ONE,
    Lifting,
    Machine,
    as_one_lane,
    impressions_in,
    logs_of,
)
from tests.daemon.test_examples_equality import stored_examples
from tests.daemon.test_queries_equality import (
    CONFIG,
    QueryMachine,
    decoded,
    tables_of,
    with_queries,
)
from tests.oracle import OracleConfig, Record, hour_start_s
from tests.replica import every_key
from tests.seeds import seeds
from tests.streams import START_MS, paged_records, random_records, topic_names
from tests.whole_batch import process_batch

NAMES = ("nDCG@3", "P@2", "Judged@3")
PLAN = judged_plan(NAMES, relevant_from=2, max_grade=3)
FULL = [metric.name for metric in PLAN.metrics]
SEEDS = seeds(7)
Files = dict[IndexEntry, Judgements]


def random_files(rng: random.Random, first_ms: int, items: Sequence[str]) -> Files:
    """Three files, the first before all events; each judges most of the queries."""
    files = {}
    for start_ms in (0, first_ms, first_ms + rng.randrange(60, 600) * 1000):
        entry = IndexEntry(start_ms, file_name(start_ms, f"{len(files)}.csv"), f"{len(files):064x}")
        queries = rng.sample([f"q{n}" for n in range(8)], 6)
        files[entry] = Judgements(
            {q: {i: float(rng.randrange(4)) for i in rng.sample(items, 6)} for q in queries}
        )
    return files


class JudgedMachine(Machine):
    """A lane that grades by files."""

    layout = ""
    """What else differs between its layouts."""

    def __init__(
        self,
        rng: random.Random,
        number: int,
        logs: Mapping[str, Sequence[Record]],
        files: Files,
        config: OracleConfig = CONFIG,
        queries: QueryPlan | None = None,
    ) -> None:
        self.files: Files | None = None
        self.plans: dict[str, Plan] = {}
        """By the digest of their layouts."""
        super().__init__(rng, number, logs, config)
        self.store = type(self.store)()
        self.files = files
        self.plan = replace(self.plan, judged=PLAN, queries=queries)
        limits = msgspec.structs.replace(self.decode.limits, queries=True)
        self.decode = decoder("native", limits)
        self.claimed = self.claim()

    def claim(self, keys_of: Callable[[Head, Sequence[str]], list[str]] = blob_keys) -> ClaimedLane:
        self.claims += 1
        start = msgspec.json.encode({topic: 0 for topic in self.logs})
        head = self.store.claim(f"token-{self.claims}", start)
        digest = f"judged {self.plan.judged is not None}, missing {self.plan.missing}{self.layout}"
        self.plans[digest] = self.plan
        text = f"[segments]\nmax_values = {self.plan.admitted_values}\n"
        in_force = InForce(self.plan, [*self.plans].index(digest), digest, text)
        layouts = Layouts(in_force, lambda stored: self.plans[stored.digest])
        blobs = self.store.load(head, keys_of)
        claimed = rebuild(self.number, layouts, list(self.logs), head, self.store.names, blobs)
        if claimed.lane.judged is not None and self.files is not None:
            timeline = claimed.lane.judged.files.timeline or Timeline(tuple(sorted(self.files)))
            claimed.lane.judged.files.prepare(timeline, self.files)
        return claimed

    def relay(self) -> None:
        """Claim the lane under the plan as it is now, and write it under that."""
        self.claimed = self.claim()
        if self.claimed.outdated:
            commit = plan_repair(self.claimed)
            assert self.store.commit(commit) == "applied"
            confirm(self.claimed, commit)

    def run(self, crashes: bool) -> "JudgedMachine":
        while not self.done():
            if self.rng.random() < 0.1:
                self.claimed.lane.forget_unused_queries()
            self.step(crashes)
        return self


class TwoWorkers(JudgedMachine):
    """A lane that two workers own in turns. They see what is listed at other times."""

    listed: tuple[set[IndexEntry], set[IndexEntry]] = (set(), set())
    worker = 0

    def claim(self, keys_of: Callable[[Head, Sequence[str]], list[str]] = blob_keys) -> ClaimedLane:
        claimed = super().claim(keys_of)
        judged = claimed.lane.judged
        if judged is not None and claimed.sequence == 0:
            judged.files.timeline = begun(sorted(self.listed[0]))
        self.worker = self.rng.randrange(2)
        return claimed

    def step(self, crashes: bool) -> None:
        assert self.files is not None and self.claimed.lane.judged is not None
        for entry in sorted(self.files):
            if self.rng.random() < 0.05:
                self.listed[0].add(entry)
            if entry in self.listed[0] and self.rng.random() < 0.3:
                self.listed[1].add(entry)
        judged = self.claimed.lane.judged
        assert judged.files.timeline is not None
        index = sorted(self.listed[self.worker])
        found = prepared(judged.files.timeline, index, self.files, latest_ms(self.claimed.lane))
        judged.files.prepare(found.timeline, self.files)
        super().step(crashes)


def rows_of(lane: Lane) -> dict[oracle_judged.Key, list[int]]:
    assert lane.judged is not None
    found = {}
    for (window, start_ms), rows in lane.judged.panes.items():
        window_s = lane.plan.timing.windows[window].length_ms // 1000
        for page, of_page in rows.pages.items():
            names = lane.segments.names[page * PAGE_ROWS :]
            for (grouping, segment), row in zip(names, of_page.tolist(), strict=False):
                if any(row):
                    name = lane.plan.grouping_names[grouping]
                    found[window_s, start_ms // 1000, name, segment] = row
    return found


def hours_of(lane: Lane) -> dict[tuple[int, str, str], list[int]]:
    assert lane.judged is not None
    return {
        (start // 1000, lane.plan.grouping_names[of[0]], of[1]): row
        for start, rows in lane.judged.hours.items()
        for page, of_page in rows.pages.items()
        for of, row in zip(lane.segments.names[page * PAGE_ROWS :], of_page.tolist())
        if any(row)
    }


def expected_hours(
    rows: Mapping[oracle_judged.Key, list[int]], lane: Lane, config: OracleConfig
) -> dict[tuple[int, str, str], list[int]]:
    """The sums of the final panes by hour; all hours are kept."""
    assert lane.judged is not None
    found: dict[tuple[int, str, str], list[int]] = {}
    for (window_s, start_s, grouping, segment), row in rows.items():
        before = lane.judged.final_before
        if window_s == min(config.windows_s) and before is not None and start_s * 1000 < before:
            key = (hour_start_s(start_s * 1000, config), grouping, segment)
            found[key] = [n + m for n, m in zip(found.get(key, [0] * len(row)), row)]
    return {key: row for key, row in found.items() if any(row)}


@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_judged_rows_are_those_of_the_oracle(seed: int, topics: int, crashes: bool) -> None:
    rng, names = random.Random(seed), topic_names(topics)
    config = replace(CONFIG, lateness_s=rng.choice((2, 20, 60)))
    records = random_records(rng, topics=topics, partitions=2, events=400, config=config)
    records = with_queries(records, rng, texts=8)
    times = [r.timestamp_ms for r in records if r.timestamp_ms is not None]
    items = [f"d{n}" for n in range(12)]
    files = random_files(rng, sorted(times)[len(times) // 3], items)
    machines = [
        JudgedMachine(rng, number, logs, files, config)
        for number, logs in logs_of(records, names).items()
    ]
    assert any([graded_as_by_the_oracle(one.run(crashes), files, config) for one in machines])


def graded_as_by_the_oracle(machine: JudgedMachine, files: Files, config: OracleConfig) -> int:
    """How many rows there are, which are those of the oracle."""
    of_files = [(entry.start_ms, found.by_query) for entry, found in sorted(files.items())]
    expected, late = oracle_judged.run(
        machine.logs, config, FULL, of_files, lambda event: event.attributes.get("country", "")
    )
    for lane in (machine.claimed.lane, machine.claim().lane):
        limits = {
            span.length_ms // 1000: lane.plan.timing.dropped_before(span, lane.watermark_ms)
            for span in lane.plan.timing.windows
            if lane.watermark_ms is not None
        }
        kept = {k: row for k, row in expected.items() if k[1] * 1000 >= limits.get(k[0], 0)}
        assert rows_of(lane) == kept
        assert lane.counts["judged_late"] == late
    whole = machine.claim(every_key).lane
    assert hours_of(whole) == expected_hours(expected, whole, config)
    return len(expected)


class JudgedLifting(Lifting, JudgedMachine):
    """A lane of all partitions that grades."""


@pytest.mark.parametrize("make", [random_records, paged_records])
@pytest.mark.parametrize("seed", SEEDS)
def test_judged_rows_of_a_lane_of_all_partitions_are_those_of_the_oracle(
    seed: int, make: Callable[..., list[Record]]
) -> None:
    rng = random.Random(seed)
    config = replace(CONFIG, lateness_s=rng.choice((2, 20, 60)))
    records = make(rng, topics=2, partitions=ONE["impressions"], config=config)
    logs = as_one_lane(with_queries(records, rng, texts=8), rng)
    files = random_files(rng, START_MS + HOUR_MS // 4, [f"d{n}" for n in range(12)])
    machine = JudgedLifting(rng, 0, logs, files, config=config).run(crashes=True)
    assert graded_as_by_the_oracle(machine, files, config)
    assert machine.claimed.lane.lifts and not machine.claimed.lane.counts["behind_lift"]


@pytest.mark.parametrize("small_run", [1, 1000])
def test_an_impression_too_late_for_judged_rows_is_known_to_its_pages(small_run: int) -> None:
    rng = random.Random(1)
    files = random_files(rng, 0, [f"d{n}" for n in range(12)])
    machine = JudgedMachine(rng, 0, {"events/0": [], "events/1": []}, files)
    lane, final_ms = machine.claimed.lane, int(machine.plan.timing.judged_until(START_MS))
    lane.lifts["events/1"] = final_ms
    shown = impressions_in("events/1", START_MS, START_MS + 60_000, START_MS + 1)
    process_batch(lane, shown, {}, machine.decode, small_run)
    assert lane.counts["impression_outcomes"] == {"accepted": 3}
    assert lane.open.late == {0: final_ms, 2: START_MS + 60_000}


@pytest.mark.parametrize("topics", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_queries_and_judgements_together_are_what_each_is_alone(seed: int, topics: int) -> None:
    rng, names = random.Random(seed), topic_names(topics)
    records = random_records(rng, topics=topics, partitions=1, events=500, config=CONFIG)
    (logs,) = logs_of(with_queries(records, rng, texts=30), names).values()
    queries = QueryPlan(by="country", kept=rng.choice((2, 5)), min_users=2, examples=2)
    files = random_files(rng, HOUR_MS, [f"d{n}" for n in range(12)])
    both = JudgedMachine(rng, 0, logs, files, queries=queries).run(crashes=True)
    searched = QueryMachine(random.Random(1), 0, logs, queries).run(crashes=False)
    judged = JudgedMachine(random.Random(2), 0, logs, files).run(crashes=False)
    tables = [
        {start: decoded(of_hour) for start, of_hour in tables_of(m.store, m.plan).items()}
        for m in (both, searched)
    ]
    assert tables[0] == tables[1] and tables[0]
    found = stored_examples(both.store)
    assert found == stored_examples(searched.store) and found
    over = [k for k in searched.store.blobs if k.startswith(("queries:", "examples:"))]
    for key in (key for key in over if ":part:" not in key):
        assert both.store.blobs[key] == searched.store.blobs[key], "an hour that is over"
    assert rows_of(both.claimed.lane) == rows_of(judged.claimed.lane)
    hours = [hours_of(m.claim(every_key).lane) for m in (both, judged)]
    assert hours[0] == hours[1] and hours[0]
    assert both.claimed.lane.counts["judged_late"] == judged.claimed.lane.counts["judged_late"]


def test_judgements_change_nothing_else_that_is_stored() -> None:
    rng, names = random.Random(11), topic_names(1)
    records = random_records(rng, topics=1, partitions=1, events=600, config=CONFIG)
    logs = logs_of(with_queries(records, rng, texts=8), names)[0]
    files = random_files(rng, HOUR_MS, [f"d{n}" for n in range(12)])
    on, off = JudgedMachine(random.Random(1), 0, logs, files), Machine(
        random.Random(1), 0, logs, CONFIG
    )
    for machine in (on, off):
        while not machine.done():
            machine.step(crashes=False)
    assert any(key.startswith("judged:") for key in on.store.blobs)
    apart = ("judged:", "open:", "layouts")  # the machine names its layouts
    for kind in ("names", "blobs", "listed"):
        with_them, without = (dict(getattr(machine.store, kind)) for machine in (on, off))
        kept = {k: v for k, v in with_them.items() if not k.startswith(apart)}
        assert kept == {k: v for k, v in without.items() if not k.startswith(apart)}, kind
    assert {JUDGED.field, JUDGEMENTS_FIELD}.isdisjoint(off.store.fields)
    assert "judged_late" not in off.store.fields["counts"].decode()


@pytest.mark.parametrize("seed", seeds(12))
def test_numbers_follow_from_the_files_that_were_adopted(seed: int) -> None:
    rng, names = random.Random(seed), topic_names(2)
    records = random_records(rng, topics=2, partitions=1, events=500, config=CONFIG)
    records = with_queries(records, rng, texts=8)
    times = sorted(r.timestamp_ms for r in records if r.timestamp_ms is not None)
    files: Files = {}
    for part in (0, 3, 5, 7):
        more = random_files(rng, times[len(times) * part // 8], [f"d{n}" for n in range(12)])
        files |= {entry: found for entry, found in more.items() if entry.start_ms in times}
    (logs,) = logs_of(records, names).values()
    machine = TwoWorkers(rng, 0, logs, files)
    machine.listed = ({min(files)}, set())
    machine.claimed = machine.claim()
    lane = machine.run(crashes=True).claimed.lane
    assert lane.judged is not None and lane.judged.files.timeline is not None
    adopted = sorted((*lane.judged.files.past, *lane.judged.files.timeline.entries))
    expected, late = oracle_judged.run(
        logs,
        CONFIG,
        FULL,
        [(entry.start_ms, files[entry].by_query) for entry in adopted],
        lambda event: event.attributes.get("country", ""),
    )
    whole = machine.claim(every_key).lane
    assert hours_of(whole) == expected_hours(expected, whole, CONFIG) and expected
    assert whole.counts["judged_late"] == late
    assert set(adopted).isdisjoint(lane.judged.files.timeline.refused)


@pytest.mark.parametrize("seed", seeds(6))
def test_rows_that_begin_in_mid_life_begin_with_a_whole_hour(seed: int) -> None:
    rng, names = random.Random(seed), topic_names(1)
    config = replace(CONFIG, hour_s=60)
    records = random_records(rng, topics=1, partitions=1, events=500, config=config)
    records = with_queries(records, rng, texts=8)
    (logs,) = logs_of(records, names).values()
    files = dict(list(random_files(rng, HOUR_MS, [f"d{n}" for n in range(12)]).items())[:1])
    machine = JudgedMachine(rng, 0, logs, files, config)
    judged, off = machine.plan, replace(machine.plan, judged=None)
    (topic,) = logs
    for share, plan in ((0.2, off), (0.4, judged), (0.6, off), (0.7, judged), (1.0, judged)):
        machine.plan = plan
        machine.relay()
        while machine.claimed.lane.offsets[topic] < share * len(logs[topic]):
            machine.step(crashes=False)
        assert (JUDGED.field in machine.store.fields) <= (share >= 0.4)
        has_rows = any(key.startswith("judged:") for key in machine.store.blobs)
        assert has_rows <= (plan.judged is not None)
    whole = machine.claim(every_key).lane
    assert whole.judged is not None and whole.judged.since_ms > 0
    expected, _ = oracle_judged.run(
        logs,
        config,
        FULL,
        [(entry.start_ms, found.by_query) for entry, found in files.items()],
        lambda event: event.attributes.get("country", ""),
    )
    since_s = whole.judged.since_ms // 1000
    hours = expected_hours(expected, whole, config)
    assert hours_of(whole) == {key: row for key, row in hours.items() if key[0] >= since_s}
