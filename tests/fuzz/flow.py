"""One lane from bytes to /metrics, with checks of everything that must hold for any bytes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Final

import msgspec

from relevanced.daemon.events import (
    DROP_REASONS,
    REJECTION_REASONS,
    SKIP_REASONS,
    Decoded,
    Decoder,
    Feedback,
    Impression,
    Limits,
    Rejected,
)
from relevanced.daemon.exporter import label_names
from relevanced.daemon.lane import FEEDBACK_OUTCOMES, IMPRESSION_OUTCOMES, attribute_values
from relevanced.daemon.plan import OTHER, Plan
from relevanced.daemon.recompute.buckets import view_of
from relevanced.daemon.storage import (
    ClaimedLane,
    Commit,
    InForce,
    Layouts,
    confirm,
    plan_commit,
    rebuild,
)
from tests.fakes import MemoryLane
from tests.lane_views import exposed, read_openmetrics, read_text
from tests.replica import counts_of, open_of, row_dicts, rows_of
from tests.whole_batch import process_batch

TOPIC: Final = "events"
LABELS: Final[Mapping[str, frozenset[str]]] = {
    "events": frozenset({"impression", "feedback"}),
    "rejected": frozenset(REJECTION_REASONS + SKIP_REASONS + DROP_REASONS),
    "impression_outcomes": frozenset(IMPRESSION_OUTCOMES),
    "feedback_outcomes": frozenset(FEEDBACK_OUTCOMES),
}
"""Family of counts → the only labels that it may have."""
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Flow:
    """A lane with its store; each call of `take` processes and commits a batch."""

    def __init__(self, plan: Plan, decoder: Decoder) -> None:
        self.plan, self.decoder = plan, decoder
        self.store = MemoryLane()
        self.owned = self.load()

    def load(self) -> ClaimedLane:
        """The lane as the next owner would find it."""
        token = f"t{self.store.fields.get('sequence', b'')!r}{len(self.store.fields)}"
        head = self.store.claim(token, msgspec.json.encode({TOPIC: 0}))
        return rebuild(
            0, Layouts(InForce(self.plan)), [TOPIC], head, self.store.names, self.store.load(head)
        )

    def take(self, *values: bytes | None) -> Commit:
        """Process these records as one batch and commit it."""
        first = self.owned.lane.offsets[TOPIC]
        records = [record(value, first + index) for index, value in enumerate(values)]
        offsets = {TOPIC: first + len(records)}
        process_batch(self.owned.lane, {TOPIC: records}, offsets, self.decoder)
        commit = plan_commit(self.owned)
        assert self.store.commit(commit) == "applied"
        confirm(self.owned, commit)
        return commit

    def accepted(self) -> int:
        return self.owned.lane.counts["impression_outcomes"]["accepted"]

    def check(self) -> None:
        """Check the labels of counts, that the stored state equals the one in memory, and
        /metrics."""
        lane = self.owned.lane
        for family, labels in LABELS.items():
            assert lane.counts[family].keys() <= labels
        stored = self.load().lane
        assert durable_state(stored) == durable_state(lane)
        self.owned = self.load()
        check_metrics(self)


def record(value: bytes | None, offset: int) -> SimpleNamespace:
    return SimpleNamespace(
        topic=TOPIC, partition=0, offset=offset, timestamp=-1, key=b"k", value=value
    )


def durable_state(lane: object) -> object:
    """The state of a lane that must survive a commit and a load."""
    return (
        counts_of(lane),
        rows_of(lane),
        row_dicts(lane.totals.pages, lane.segments.names, lane.plan),
        open_of(lane),
        lane.watermarks,
        lane.pending,
        [msgspec.structs.astuple(waiting) for waiting in lane.waiting.by_serial.values()],
    )


def check_verdicts(verdicts: Sequence[Decoded], limits: Limits) -> None:
    """Check that every verdict is an event within the limits, or a rejection with a listed
    reason."""
    for verdict in verdicts:
        if isinstance(verdict, Rejected):
            assert verdict.reason in LABELS["rejected"]
            assert len(verdict.detail) < 1000 and len(verdict.detail.splitlines()) <= 1
            verdict.detail.encode()
        else:
            assert 0 <= verdict.time_ms < 10**14
            assert all(len(text.encode()) <= 256 for text in texts_of(verdict))
            grades = (
                [verdict.grade or 0.0] if isinstance(verdict, Feedback) else verdict.grades.values()
            )
            assert all(0 <= grade <= limits.max_grade for grade in grades)
            assert not isinstance(verdict, Impression) or len(verdict.items) <= limits.depth


def texts_of(event: Decoded) -> list[str]:
    if isinstance(event, Impression):
        named = (event.attributes, event.experiments)
        texts = [text for values in named for pair in values.items() for text in pair]
        return [event.impression_id, event.user_id or "", *event.items, *event.grades, *texts]
    assert not isinstance(event, Rejected)
    return [event.impression_id, event.kind or "", event.item or ""]


def metrics_of(flow: Flow) -> Samples:
    """The samples of /metrics; both formats must have the same."""
    exposition = exposed([view_of(flow.owned.lane)], flow.plan)
    text = samples(read_text(b"".join(exposition.text)))
    assert text == samples(read_openmetrics(b"".join((*exposition.openmetrics, b"# EOF\n"))))
    return text


def check_metrics(flow: Flow) -> None:
    """Check that the labels of every segment are its values, and that no segment is missing."""
    labels_of = label_names(flow.plan.groupings)
    attributes = dict(zip(flow.plan.grouping_names[1:], flow.plan.groupings, strict=True))
    counted: Counter[str] = Counter()
    for (name, pairs), value in metrics_of(flow).items():
        labels = dict(pairs)
        if name != "relevanced_settled_impressions_total":
            continue
        counted[labels["grouping"]] += int(value)
        if labels["grouping"] in attributes and labels["segment"] != OTHER:
            found = [labels[labels_of[name]] for name in attributes[labels["grouping"]]]
            assert found == attribute_values(labels["segment"])
    whole = row_dicts(flow.owned.lane.totals.pages, flow.owned.lane.segments.names, flow.plan)
    settled = whole.get(("all", "all"), {}).get("impressions", 0)
    assert set(counted.values()) <= {settled, 0}


def samples(families: Sequence[object]) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }
