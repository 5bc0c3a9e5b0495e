"""The cost of `relevanced replay` against a plain decode of the same file, and its peak memory.

    python -m tests.bench.replay_cost decode|replay|as_is|changes FILE

measures one of them in its own process and prints JSON.
"""

import io
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.config import Config
from relevanced.daemon.recompute.over_time_output import Asked, print_over_time
from relevanced.daemon.recompute.replay_files import read_lane, report_of
from relevanced.daemon.recompute.replay_pipeline import replayed
from tests.bench.effort import Effort
from tests.bench.findings import Finding, PartResult, number, ratio
from tests.bench.floor import Feedback, Impression
from tests.bench.stage import Stage, run_python
from tests.bench.traffic import SEED, Traffic, records

LINES: Final = (200_000, 1_000_000)
ROUNDS: Final = 3
GOAL_RATIO: Final = 4.5
GOAL_GROWTH: Final = 1.5
EVENTS_PER_SECOND: Final = 100.0
"""So few that the larger file lasts for five attribution windows: most of its impressions settle,
and no more of them are open at once than in the smaller file."""
SPANS_S: Final = {"1h": 3_600, "1d": 86_400, "7d": 604_800}
"""In which as many events lie: at a busy site, and at sites where most are alone in their pane."""
SPARSE_EVENTS: Final = 100_000
GOAL_SPARSE: Final = 1.3
DISORDER_MS: Final = 5_000
"""Lines are so much out of order: each arrives up to so much later than its event."""
END_MS: Final = 1_795_176_000_000
MIB: Final = 1 << 20


class Measured(msgspec.Struct):
    """What reading one file took."""

    cpu_s: float
    events: int
    peak_bytes: int

    @property
    def per_event_us(self) -> float:
        """CPU time per event."""
        return self.cpu_s / self.events * 1e6


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """The ratios to a plain decode and the peak memory, for each size of file."""
    findings, peaks = list[Finding](), dict[int, list[float]]()
    for lines in effort.first(LINES):
        path = stage.directory / f"events-{lines}.jsonl"
        write(path, effort.of(lines))
        rounds = [await _round(path) for _ in range(effort.rounds(ROUNDS))]
        path.unlink()
        peaks[lines] = [of["replay"].peak_bytes / MIB for of in rounds]
        findings += _ratios(lines, rounds)
        findings.append(
            number(
                f"replay.lines_{lines}.peak", f"replay, peak, {lines:,} lines", peaks[lines], "MiB"
            )
        )
    if len(peaks) > 1:
        few, many = peaks[LINES[0]], peaks[LINES[-1]]
        words = f"replay, peak memory, {LINES[-1]:,} ÷ {LINES[0]:,} lines"
        pairs = list(zip(many, few, strict=True))
        findings.append(ratio("replay.peak_growth", words, pairs, GOAL_GROWTH))
    return PartResult([*findings, *await _sparse(stage, effort)])


async def _sparse(stage: Stage, effort: Effort) -> list[Finding]:
    """What an event costs in a sparse recording against one of as many in an hour."""
    dense, *longer = SPANS_S
    sparse, count = effort.first(longer), effort.of(SPARSE_EVENTS)
    paths = {span: stage.directory / f"sparse-{span}.jsonl" for span in (dense, *sparse)}
    for span, path in paths.items():
        write(path, count, count / SPANS_S[span])
    found = list[Finding]()
    rounds = [
        {span: (await _measured("replay", path)).per_event_us for span, path in paths.items()}
        for _ in range(effort.rounds(ROUNDS))
    ]
    for span in sparse:
        told = f"replay, CPU per event, {count:,} events in {span} ÷ in {dense}"
        pairs = [(of[span], of[dense]) for of in rounds]
        found.append(ratio(f"replay.sparse_{span}", told, pairs, GOAL_SPARSE))
        cpu_s = [(await _measured("changes", paths[span])).cpu_s]
        told = f"replay --changes, CPU, {count:,} events in {span}"
        found.append(number(f"replay.changes_{span}", told, cpu_s, "s"))
    for path in paths.values():
        path.unlink()
    return found


def _ratios(lines: int, rounds: list[dict[str, Measured]]) -> list[Finding]:
    key, found = f"replay.lines_{lines}", list[Finding]()
    for way, words in (("replay", "replay"), ("as_is", "replay --as-is")):
        pairs = [(of[way].cpu_s, of["decode"].cpu_s) for of in rounds]
        goal = GOAL_RATIO if lines == LINES[-1] else None
        found.append(ratio(f"{key}.{way}", f"{words} ÷ decode, {lines:,} lines", pairs, goal))
    per_event = [of["replay"].per_event_us for of in rounds]
    found.append(number(f"{key}.us", f"replay, CPU per event, {lines:,} lines", per_event, "µs"))
    return found


async def _round(path: Path) -> dict[str, Measured]:
    return {way: await _measured(way, path) for way in ("decode", "replay", "as_is")}


async def _measured(way: str, path: Path) -> Measured:
    printed = await run_python("-m", "tests.bench.replay_cost", way, str(path))
    return msgspec.json.decode(printed, type=Measured)


def write(path: Path, lines: int, events_per_second: float = EVENTS_PER_SECOND) -> None:
    """A recorded file of so many events, in the order in which a log gathers them."""
    traffic = Traffic(records=lines, events_per_second=events_per_second)
    generated = list(records(traffic, END_MS))
    times_ms = np.fromiter((record.timestamp for record in generated), np.int64, len(generated))
    late_ms = np.random.default_rng(SEED).integers(0, DISORDER_MS, len(generated))
    with path.open("wb") as file:
        for index in np.argsort(times_ms + late_ms, kind="stable").tolist():
            file.write(generated[index].value + b"\n")


def decode(path: str) -> int:
    """Decode each line into typed structs, and nothing else; returns their number."""
    read = msgspec.json.Decoder(Impression | Feedback).decode
    lines = 0
    with open(path, "rb") as file:
        for line in file:
            read(line)
            lines += 1
    return lines


def replay(path: str, *, as_is: bool = False) -> int:
    """Replay the file as far as its report; returns its number of events."""
    bars = Progress(console=Console(file=io.StringIO(), quiet=True))
    events = report_of(read_lane([path], Config(), bars, as_is=as_is)).events
    return events.impressions + events.feedback


def replay_as_is(path: str) -> int:
    """The same in the order of the file."""
    return replay(path, as_is=True)


def changes(path: str) -> int:
    """Say which scores of the file fell; returns its number of events."""
    bars, config = Progress(console=Console(file=io.StringIO(), quiet=True)), Config()
    asked = Asked(changes=True)
    found = replayed([path], config, bars, as_is=False, every_ms=asked.bucket_ms)
    with redirect_stdout(io.StringIO()):
        print_over_time(found, config, asked, "table")
    return found.lane.counts["events"].total()


WAYS: Final[Mapping[str, Callable[[str], int]]] = {
    "decode": decode,
    "replay": replay,
    "as_is": replay_as_is,
    "changes": changes,
}


def peak_bytes(pid: int | Literal["self"] = "self") -> int:
    """The most memory that a process had resident."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def main() -> None:
    way, path = sys.argv[1:]
    begun_s = time.process_time()
    events = WAYS[way](path)
    cpu_s = time.process_time() - begun_s
    sys.stdout.buffer.write(msgspec.json.encode(Measured(cpu_s, events, peak_bytes())))


if __name__ == "__main__":
    main()
