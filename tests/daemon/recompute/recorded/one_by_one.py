"""The slow replay: all events in memory, sorted as objects, applied one by one."""

import gzip
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from relevanced.daemon.attribution import join_rules
from relevanced.daemon.config import Config
from relevanced.daemon.events import Decoded, Feedback, Rejected, decoder
from relevanced.daemon.lane import Lane, new_lane
from relevanced.daemon.worker import batch
from tests.replica import arms_of, counts_of, open_of, row_dicts, rows_of

TOPIC = "replay"


def slow_lane(paths: Sequence[str], config: Config, *, as_is: bool) -> Lane:
    """One lane to which all events of the files were applied."""
    events = [event for _, event in slow_events(paths, config)]
    if not as_is:
        events.sort(key=time_order)
    lane = new_lane(0, replace(config.plan, history_hours=0), {TOPIC: 0}, [TOPIC])
    for first in range(0, len(events), 100):
        lane.forget_unused()
        join_rules.apply(lane, TOPIC, events[first : first + 100])
        batch.advance(lane)
        lane.start_batch()
    return lane


def slow_events(paths: Sequence[str], config: Config) -> Iterator[tuple[tuple[str, int], Decoded]]:
    """((file, line), event) of everything in the files, in their order."""
    decode = decoder(config.events.format, config.limits)
    for path in paths:
        data = Path(path).read_bytes()
        text = gzip.decompress(data) if path.endswith(".gz") else data
        lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for number, line in enumerate(lines, 1):
            if line and not line.isspace():
                for event in decode(line, None):
                    yield (path, number), event


def time_order(event: Decoded) -> tuple[int, int]:
    if isinstance(event, Rejected):
        return (-1, 0)
    return (event.time_ms, int(isinstance(event, Feedback)))


def slow_refusals(paths: Sequence[str], config: Config) -> dict[str, tuple[int, str, int, str]]:
    """Reason → (count, file, line and detail of the first)."""
    found: dict[str, tuple[int, str, int, str]] = {}
    for (path, line), event in slow_events(paths, config):
        if isinstance(event, Rejected):
            count, *first = found.get(event.reason, (0, path, line, event.detail))
            found[event.reason] = (count + 1, *first)
    return found


def slow_kinds(paths: Sequence[str], config: Config) -> Counter[str]:
    """Kind without a grade → count."""
    events = (event for _, event in slow_events(paths, config))
    return Counter(
        str(event.kind)
        for event in events
        if isinstance(event, Feedback) and event.grade is None
        if event.kind not in config.plan.grades
    )


def state_of(lane: Lane) -> object:
    """Everything that a report is made of."""
    return (
        counts_of(lane),
        rows_of(lane),
        row_dicts(lane.totals.pages, lane.segments.names, lane.plan),
        open_of(lane),
        arms_of(lane),
        lane.watermark_ms,
        sorted(map(repr, lane.waiting.by_serial.values())),
    )
