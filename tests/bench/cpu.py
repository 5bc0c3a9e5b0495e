"""Processor time of other processes, as the kernel counts it, and progress beside it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WARM_UP: Final = 0.1
"""The part of the records that is read before the measured stretch begins."""
ONE_THREAD: Final = {
    name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
}
"""Environment of everything that is measured: numpy's helpers would inflate processor time."""


@dataclass(frozen=True)
class Sample:
    """What a process had used when it had finished so many events."""

    events: int
    cpu_s: float
    redis_s: float = 0.0
    at_s: float = 0.0


@dataclass(frozen=True)
class Stretch:
    """From one sample to another."""

    events: int
    cpu_s: float
    redis_s: float
    wall_s: float

    @property
    def cpu_us(self) -> float:
        """Per event."""
        return self.cpu_s / self.events * 1e6

    @property
    def redis_us(self) -> float:
        """Of the server, per event."""
        return self.redis_s / self.events * 1e6


def processor_s(pid: int) -> float:
    """User and system time of all threads of a running process, those that ended included.

    Linux names the clock of a process by this arithmetic (clock_getcpuclockid); unlike the fields
    of /proc it does not count in ticks of 10 ms.
    """
    return time.clock_gettime(~pid << 3 | 2)


def stretch(samples: Sequence[Sample], upto: int) -> Stretch:
    """What is measured of a run over `upto` events: without its start-up, and up to the moment when
    it was done. Both ends are the first look after a commit."""
    first = next(sample for sample in samples if sample.events >= upto * WARM_UP)
    last = next(sample for sample in samples if sample.events >= upto)
    if first.events >= last.events:
        raise ValueError(f"{upto} events were done in one step: must be many batches")
    return Stretch(
        last.events - first.events,
        last.cpu_s - first.cpu_s,
        last.redis_s - first.redis_s,
        last.at_s - first.at_s,
    )
