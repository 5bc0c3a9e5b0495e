"""One batch of one lane, from records to a commit: decode, attribute, score. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..attribution import rules, runs, vectorized
from ..events.types import Decoder, LogRecord, Rejected
from ..lane import scoring
from ..lane.lane import Lane
from .pacing import MOST_PIECE


@dataclass(frozen=True)
class DeadLetter:
    """A record that holds something no event could be made of. One, however much of it is bad:
    it carries all of the record."""

    record: LogRecord
    reason: str
    detail: str


def _dead_letters(single: runs.Single) -> Iterator[DeadLetter]:
    """The record, where any of it is bad."""
    refused = [d for d in single.decoded if isinstance(d, Rejected) and not d.skipped]
    if refused:
        first, others = refused[0], len(refused) - 1
        detail = f"{first.detail} (and {others} more)" if others else first.detail
        yield DeadLetter(single.record, first.reason, detail)


def process(
    lane: Lane,
    batch: Mapping[str, Sequence[LogRecord]],
    next_offsets: Mapping[str, int],
    decoder: Decoder,
    small_run: int = vectorized.SMALL_RUN,
) -> list[DeadLetter]:
    """Take one batch, by topic, into the lane's memory; returns what to dead-letter before it is
    committed. Fewer than `small_run` events in a row are taken one by one."""
    begin(lane)
    dead: list[DeadLetter] = []
    for topic, records in pieces(batch, MOST_PIECE):
        dead += take(lane, topic, records, decoder, small_run)
    end(lane, next_offsets)
    return dead


def pieces(
    batch: Mapping[str, Sequence[LogRecord]], most: int
) -> Iterator[tuple[str, Sequence[LogRecord]]]:
    """A batch in pieces of at most so many records, of one topic each, in order and of about the
    same length; who takes them may rest in between."""
    for topic, records in batch.items():
        count = max(math.ceil(len(records) / most), 1)
        ends = [len(records) * number // count for number in range(count + 1)]
        for start, end in pairwise(ends):
            if end > start:
                yield topic, records[start:end]


def begin(lane: Lane) -> None:
    """Make the lane ready for a batch."""
    lane.forget_what_is_over()


def take(
    lane: Lane,
    topic: str,
    records: Sequence[LogRecord],
    decoder: Decoder,
    small_run: int = vectorized.SMALL_RUN,
) -> list[DeadLetter]:
    """Let one piece of a batch meet the lane; returns what of it to dead-letter."""
    dead: list[DeadLetter] = []
    for part in runs.read(records, decoder, lane.texts):
        if isinstance(part, runs.Run):
            vectorized.apply(lane, topic, part, small_run)
            continue
        rules.apply(lane, topic, part.decoded)
        dead += _dead_letters(part)
    return dead


def end(lane: Lane, next_offsets: Mapping[str, int]) -> None:
    """The whole batch was taken: bring the lane up to date with it."""
    lane.offsets.update(next_offsets)
    advance(lane)


def advance(lane: Lane) -> None:
    """Bring the rows up to date with the events that were applied, and settle what the watermark
    has passed."""
    rules.advance(lane)
    scoring.apply_changes(lane)
    scoring.settle(lane)
    scoring.drop_old_panes(lane)
