"""A batch in one call: what a worker does to a lane, without its pauses between chunks."""

from collections.abc import Mapping, Sequence

from relevanced.daemon.attribution import vectorized
from relevanced.daemon.events import Decoder, LogRecord
from relevanced.daemon.lane import Lane
from relevanced.daemon.worker import MAX_CHUNK_RECORDS, DeadLetter, batch


def process_batch(
    lane: Lane,
    by_topic: Mapping[str, Sequence[LogRecord]],
    next_offsets: Mapping[str, int],
    decoder: Decoder,
    small_run: int = vectorized.SMALL_RUN,
) -> list[DeadLetter]:
    """Apply a batch to the lane; returns its dead letters. Runs of fewer than `small_run` events
    are applied one by one."""
    batch.begin(lane)
    letters: list[DeadLetter] = []
    for topic, records in batch.chunks(by_topic, MAX_CHUNK_RECORDS):
        for _ in batch.steps(lane, topic, records, decoder, letters, small_run):
            pass
    batch.end(lane, next_offsets)
    return letters
