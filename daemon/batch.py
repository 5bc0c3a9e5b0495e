"""One batch of one lane, from records to a commit: decode, attribute, score. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from relevanced.daemon import attribution, joining, runs, scoring
from relevanced.daemon.events import Decoder, Rejected
from relevanced.daemon.lane import Lane
from relevanced.daemon.runs import LogRecord


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
    small_run: int = joining.SMALL_RUN,
) -> list[DeadLetter]:
    """Take one batch, by topic, into the lane's memory; returns what to dead-letter before it is
    committed. Fewer than `small_run` events in a row are taken one by one."""
    lane.forget_what_is_over()
    dead: list[DeadLetter] = []
    for topic, records in batch.items():
        for part in runs.read(records, decoder, lane.texts):
            if isinstance(part, runs.Run):
                joining.apply(lane, topic, part, small_run)
                continue
            attribution.apply(lane, topic, part.decoded)
            dead += _dead_letters(part)
    lane.offsets.update(next_offsets)
    advance(lane)
    return dead


def advance(lane: Lane) -> None:
    """Bring the rows up to date with the events that were applied, and settle what the watermark
    has passed."""
    attribution.advance(lane)
    scoring.apply_changes(lane)
    scoring.settle(lane)
    scoring.drop_old_panes(lane)
