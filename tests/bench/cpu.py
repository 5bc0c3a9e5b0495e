"""CPU time of processes as the kernel counts it, with the progress of their work."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WARM_UP: Final = 0.1
"""The share of the records that is read before the measurement begins."""
ONE_THREAD: Final = {
    name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
}
"""Environment of every measured process: numpy's helper threads would inflate its CPU time."""


@dataclass(frozen=True)
class Sample:
    """CPU time of a process and of Redis when a number of events was done."""

    events: int
    cpu_s: float
    redis_s: float = 0.0
    at_s: float = 0.0


@dataclass(frozen=True)
class Usage:
    """Events, CPU time and wall time between two samples."""

    events: int
    cpu_s: float
    redis_s: float
    wall_s: float

    @property
    def cpu_us(self) -> float:
        """CPU time per event in µs."""
        return self.cpu_s / self.events * 1e6

    @property
    def redis_us(self) -> float:
        """CPU time of Redis per event in µs."""
        return self.redis_s / self.events * 1e6


def processor_s(pid: int) -> float:
    """User and system time of all threads of a running process, including those that have ended.

    The id of the clock is computed as in clock_getcpuclockid. Unlike the fields of /proc, which
    count in ticks of 10 ms, this clock is precise.
    """
    return time.clock_gettime(~pid << 3 | 2)


def usage_between(samples: Sequence[Sample], upto: int) -> Usage:
    """The usage of a run over `upto` events, from the end of the warm-up until it is done. Both
    ends are the first sample after a commit. Raises ValueError where they are the same commit."""
    first = next(sample for sample in samples if sample.events >= upto * WARM_UP)
    last = next(sample for sample in samples if sample.events >= upto)
    if first.events >= last.events:
        raise ValueError(f"{upto} events were done in one step: must be many batches")
    return Usage(
        last.events - first.events,
        last.cpu_s - first.cpu_s,
        last.redis_s - first.redis_s,
        last.at_s - first.at_s,
    )
