"""What `relevanced verify` does: it reads lanes from Redis, then their logs up to the same offsets.

A lane goes on meanwhile. The read of it takes several calls, in which a page that is written comes
again: after the last call everything is as of its head. What only its writer reads is read of the
same commit, or the lane is read on. The log is then read up to the offsets in
that head, and no further.
"""

import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, Final

from rich.progress import Progress

from ..config import Config, Layout, layout_of, read, under_layout
from ..errors import Damaged, Lost
from ..judgements import Library, T, Timeline
from ..kafka import LaneLogs, kafka_settings
from ..storage import (
    DamagedLane,
    Head,
    LaneDelta,
    LaneStore,
    Namespace,
    QueryStore,
    layouts_of,
    missing_keys,
    namespace,
)
from ..telemetry import logs as process_log
from ..worker import LogChanged, configure_allocator
from .from_kafka import Show, read_log
from .libraries import class_libraries, library_of
from .proof import (
    NO_DIRECTORY,
    Classing,
    Files,
    Grading,
    Outcome,
    Proof,
    StoredLane,
    WriterValues,
    begin_of,
    classing_of,
    grading_of,
    not_provable,
    query_keys_of,
    stored_lane,
    writer_keys,
)
from .record_reader import record_reader
from .redis_client import connected

SHOW_EVERY_S: Final = 0.25
UNKNOWN_SCHEMA: Final = "unknown_schema"


async def lanes_of(config: Config) -> int:
    """Return how many lanes the namespace of a configuration has. Raises Unavailable."""
    async with connected(config) as client:
        return await Namespace(client, config.redis.namespace, namespace(config)).lanes()


def prepare_process() -> None:
    """Set up a process that verifies: its log goes to the error stream."""
    process_log.configure("warning", "auto", sys.stderr)
    configure_allocator()


def verified(
    config_file: str | None, lanes: Sequence[int], parallel: int, bars: Progress
) -> list[Outcome]:
    """Verify lanes, so many at a time, each in a process of its own where there are several.
    Raises Unavailable and StartError."""
    bar, shares = bars.add_task("verify", total=len(lanes)), dict.fromkeys(lanes, 0.0)

    def shown(lane: int, share: float) -> None:
        shares[lane] = share
        bars.update(bar, completed=sum(shares.values()))

    if parallel > 1 and len(lanes) > 1:
        return _in_processes(config_file, lanes, parallel, shown)
    config = read(config_file, os.environ)

    async def verify(lane: int) -> Outcome:
        async def show(share: float) -> None:
            shown(lane, share)

        return await _verify(config, lane, show)

    return [asyncio.run(verify(lane)) for lane in lanes]


_shares: Any = None
"""In a process of its own: shared memory for the share of each lane that was read."""


def _begin_process(shares: Any) -> None:
    global _shares
    _shares = shares
    prepare_process()


def _verify_here(config_file: str | None, lane: int, place: int) -> Outcome:
    async def show(share: float) -> None:
        _shares[place] = share

    return asyncio.run(_verify(read(config_file, os.environ), lane, show))


def _in_processes(
    config_file: str | None, lanes: Sequence[int], parallel: int, show: Callable[[int, float], None]
) -> list[Outcome]:
    spawning = multiprocessing.get_context("spawn")
    shares = spawning.Array("d", len(lanes))
    workers = min(parallel, len(lanes))
    with ProcessPoolExecutor(workers, spawning, _begin_process, (shares,)) as pool:
        tasks = [
            pool.submit(_verify_here, config_file, lane, place) for place, lane in enumerate(lanes)
        ]
        while not all(map(Future.done, tasks)):
            time.sleep(SHOW_EVERY_S)
            for place, lane in enumerate(lanes):
                show(lane, shares[place])
            if failed := [task for task in tasks if task.done() and task.exception() is not None]:
                pool.shutdown(cancel_futures=True)
                failed[0].result()
    return [task.result() for task in tasks]


READ_AGAIN: Final = 10
"""So often a lane is read on to find no commit between its pages and what its writer reads."""


async def _verify(config: Config, lane: int, show: Show) -> Outcome:
    """Verify one lane. Raises Unavailable and StartError."""
    name = namespace(config)
    try:
        async with connected(config) as client:
            # Asked first: a lane that begins meanwhile has a head by the time it is noted.
            begun = await Namespace(client, config.redis.namespace, name).begun()
            delta, writer = await _read(LaneStore(client, name), lane)
            queries = await _queries_of(QueryStore(client, name), lane, delta)
        if delta is None:
            return _without_head(lane, lane in begun)
        config = _under_its_layout(config, delta.pages)
        read = delta.names, delta.pages, config.plan
        queries |= {} if writer is None else writer.blobs
        stored = stored_lane(lane, delta.head, *read, queries, writer)
    except Damaged as error:
        return not_provable(lane, str(error))
    if passed_over := stored.head.counts.get("rejected", {}).get("stalls"):
        which = "which they are is not stored"
        return not_provable(lane, f"{passed_over} records were passed over (stalls): {which}")
    try:
        return await _proven(config, stored, show)
    except (LogChanged, Damaged, OverflowError) as error:
        return not_provable(lane, str(error))


async def _read(store: LaneStore, lane: int) -> tuple[LaneDelta | None, WriterValues | None]:
    """The whole lane as readers follow it, and what its writer reads of the same commit; None where
    a commit came between each time."""
    delta = await store.read(lane, "", None, 1)
    for _ in range(READ_AGAIN):
        if delta is None or not delta.head.sequence:
            break
        try:
            names, blobs = await store.load(lane, delta.head, lambda head, _: writer_keys(head))
            wanted = writer_keys(delta.head)
            return delta, WriterValues(names, {key: blobs[key] for key in wanted})
        except Lost:
            head, known = delta.head, len(delta.names) + 1
            more = await store.read(lane, head.token, head.sequence, known)
            delta = more if more is None or more.whole else _joined(delta, more)
    return delta, None


def _joined(before: LaneDelta, more: LaneDelta) -> LaneDelta:
    """A whole lane with what has changed of it since."""
    names, pages = [*before.names, *more.names], {**before.pages, **more.pages}
    return LaneDelta(more.head, True, names, pages)


async def _queries_of(
    store: QueryStore, lane: int, delta: LaneDelta | None
) -> dict[str, bytes | None]:
    """Key → value of the tables of queries that a lane has. Raises Damaged where one is missing
    that the lane still has."""
    if delta is None:
        return {}
    found = await store.values(lane, query_keys_of(delta.head))
    gone = [key for key, value in found.items() if value is None]
    if gone and (head := await store.head(lane)) is not None:
        if missing := sorted({*gone} & {*query_keys_of(head)}):
            raise Damaged(missing_keys(missing))
    return found


def _under_its_layout(config: Config, pages: Mapping[str, bytes]) -> Config:
    """The configuration with the layout that a lane works under."""
    layouts = layouts_of(pages)
    if layouts is None or layouts.last.digest == layout_of(config).digest:
        return config
    return under_layout(config, Layout(layouts.last.digest, layouts.last.text))


def _without_head(lane: int, has_begun: bool) -> Outcome:
    if has_begun:
        return not_provable(lane, str(DamagedLane(lane, "its head is gone")))
    return Outcome(lane, "not begun")


def _grading(config: Config, head: Head) -> Grading:
    """By which files the lane is graded again, as they are in the directory now."""
    library = library_of(config)
    if library is None:
        return Files(obstacle=NO_DIRECTORY)
    history = None if head.judgements is None else head.judgements.history
    obstacle = _refreshed(library, history)
    if obstacle:
        return Files(obstacle=obstacle)
    return grading_of(head, library.index, library.readable, library.faults)


def _classing(config: Config, head: Head) -> Mapping[str, Classing]:
    """The same of the files of classes, by attribute."""
    timelines = {} if head.classes is None else head.classes.timelines
    found = dict[str, Classing]()
    for name, library in class_libraries(config).items():
        obstacle = _refreshed(library, timelines[name].history if name in timelines else None)
        seen = library.index, library.readable, library.faults
        found[name] = Files(obstacle=obstacle) if obstacle else classing_of(name, head, *seen)
    return found


def _refreshed(library: Library[T], history: Timeline | None) -> str:
    """Read a directory for a lane; returns what is wrong with its index."""
    library.refresh([] if history is None else [history])
    return "; ".join(map(str, library.index_faults))


async def _proven(config: Config, stored: StoredLane, show: Show) -> Outcome:
    head = stored.head
    grading = await asyncio.to_thread(_grading, config, head)
    classing = await asyncio.to_thread(_classing, config, head)
    begin = begin_of(head)
    async with LaneLogs(kafka_settings(config)) as logs:
        log = await logs.open(stored.lane, begin, head.offsets, head.logs)
        is_whole = begin.keys() == head.offsets.keys() and all(
            span.is_whole for span in log.spans.values()
        )
        if config.is_rekeyed and not is_whole:
            text = f"the topic {next(iter(log.spans))} has lost its first messages"
            return not_provable(stored.lane, f"{text}: what lanes had taken of them is not known")
        most_ms = config.limits.max_future_ms
        async with record_reader(config) as reader:
            seen = reader.decoder, log.next_offsets, not is_whole, most_ms
            proof = Proof(stored, config.lane_plan, *seen, grading, classing)
            await read_log(log, reader, proof.replay, show)
    refused = [
        counts.get("rejected", {}).get(UNKNOWN_SCHEMA, 0)
        for counts in (head.counts, proof.replay.driver.lane.counts)
    ]
    if is_whole and refused[0] != refused[1]:
        which = "which schemas the registry had then is not stored"
        text = f"{refused[0]} records were refused as {UNKNOWN_SCHEMA}, now {refused[1]} would be"
        return not_provable(stored.lane, f"{text}: {which}")
    outcome, behind = proof.outcome(), sum(head.counts.get("behind_lift", {}).values())
    if behind and outcome.result == "differs":
        text = f"{behind} events came behind the lift of an idle partition"
        return not_provable(stored.lane, f"{text}: where it stood by then is not stored")
    return outcome
