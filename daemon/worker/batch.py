"""One batch of one lane, from records to a commit: decode, attribute, score. Pure.

The order is `begin`, `apply` for each chunk of `chunks`, `end`: between chunks the caller may let
others run, and the result is the same however a batch is cut.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..attribution import rules, runs, vectorized
from ..events.types import Decoder, LogRecord, Rejected
from ..lane import scoring, settling
from ..lane.lane import Lane


@dataclass(frozen=True)
class DeadLetter:
    """A record of which a part could not be read as an event. There is one for each record, however
    many of its elements are bad: it carries the whole record."""

    record: LogRecord
    reason: str
    detail: str


def _dead_letter(single: runs.Single) -> Iterator[DeadLetter]:
    """The record as a dead letter where a part of it is bad, else nothing."""
    refused = [d for d in single.decoded if isinstance(d, Rejected) and not d.skipped]
    if refused:
        first, others = refused[0], len(refused) - 1
        detail = f"{first.detail} (and {others} more)" if others else first.detail
        yield DeadLetter(single.record, first.reason, detail)


def chunks(
    batch: Mapping[str, Sequence[LogRecord]], most: int
) -> Iterator[tuple[str, Sequence[LogRecord]]]:
    """Cut a batch into chunks of at most `most` records, of one topic each, in order and of about
    the same length. The caller may yield to others between two of them."""
    for topic, records in batch.items():
        count = max(math.ceil(len(records) / most), 1)
        ends = [len(records) * part // count for part in range(count + 1)]
        for start, end in pairwise(ends):
            if end > start:
                yield topic, records[start:end]


def begin(lane: Lane) -> None:
    """Make the lane ready for a batch."""
    lane.forget_unused()


def apply(
    lane: Lane,
    topic: str,
    records: Sequence[LogRecord],
    decoder: Decoder,
    small_run: int = vectorized.SMALL_RUN,
) -> list[DeadLetter]:
    """Apply one chunk of a batch to the lane; returns the dead letters of its records."""
    letters: list[DeadLetter] = []
    for part in runs.read(records, decoder, lane.texts):
        if isinstance(part, runs.Run):
            vectorized.apply(lane, topic, part, small_run)
            continue
        rules.apply(lane, topic, part.decoded)
        letters += _dead_letter(part)
    return letters


def end(lane: Lane, next_offsets: Mapping[str, int]) -> None:
    """Finish a batch of which every chunk was applied: store its offsets, and advance."""
    lane.offsets.update(next_offsets)
    advance(lane)


def advance(lane: Lane) -> None:
    """Bring the rows up to date with the events that were applied, and settle the panes that the
    watermark has passed."""
    rules.advance(lane)
    scoring.apply_changes(lane)
    settling.settle(lane)
    settling.drop_old_panes(lane)
