"""The bound of this process's memory. When it is met nothing more is read: no impression may be
forgotten before its time, so there is nothing else to give up.

What the process holds then stands still, because time in the log stands still. It goes on as soon
as there is room again: lanes went to another worker, or the bound was raised by a restart.
"""

import ctypes
import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger(__name__)

MIB: Final = 1 << 20
SHARE_OF_CONTAINER: Final = 0.85
"""What is bounded is seen between batches only: the rest is room for the batch in hand."""
GOES_ON_BELOW: Final = 0.95
"""The share of the bound below which reading goes on."""
UNLIMITED_FROM: Final = 1 << 60
"""What the first kind of control groups calls no limit is a number beyond this."""
CONTAINER_FILES: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
MALLOC_TRIM_THRESHOLD: Final = -1
MALLOC_MMAP_THRESHOLD: Final = -3
MALLOC_HEAPS: Final = -8
"""The options' numbers in the C library of Linux; the last is its M_ARENA_MAX."""
LARGE_BYTES: Final = 12 * MIB
"""More than most answers to a fetch (`fetch_max_bytes`): they come and go like batches."""
KEPT_BYTES: Final = 32 * MIB
MUCH_WORK: Final = 5000
"""Records that take memory worth giving back."""
OVER_AFTER_S: Final = 1.0
"""Without any record."""
ADVICE: Final = "start another worker, raise worker.max_memory_mib, or shorten attribution.window"


def bound_of(max_memory_mib: int | None, container_bytes: int | None) -> int | None:
    """The bytes that this process may hold; None where nobody set a bound."""
    if max_memory_mib is not None:
        return max_memory_mib * MIB
    return None if container_bytes is None else int(container_bytes * SHARE_OF_CONTAINER)


def is_met(resident: int, bound: int, met_before: bool) -> bool:
    """Whether there is no room for more. Once met, some must come free before it is not."""
    return resident >= bound * (GOES_ON_BELOW if met_before else 1)


def told(resident: int, bound: int) -> str:
    """What is the matter, the rule, and what to do."""
    return (
        f"{resident / MIB:.0f} MiB in memory: must be < {bound / MIB:.0f} MiB"
        f" (worker.max_memory_mib, or {SHARE_OF_CONTAINER:.0%} of what the container may have),"
        f" so nothing is read: {ADVICE}"
    )


def container_bytes(files: Sequence[Path] = CONTAINER_FILES) -> int | None:
    """What the container that this runs in may hold; None without a limit."""
    for file in files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdecimal() and int(text) < UNLIMITED_FROM:
            return int(text)
    return None


def resident_bytes() -> int | None:
    """What this process holds in memory now; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGESIZE")


def keep_memory_together() -> None:
    """Tell the C library of Linux to hold what is free once; others have no such options.

    One heap for all threads: each of its own would keep what its busiest moment took. And pages of
    their own for large pieces, which grow without being copied and go back whole. But what each
    batch takes and gives back is smaller, and stays until there is nothing to do (`Leisure`): to
    get its pages from the system anew, and zeroed, costs a tenth of all the work.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(MALLOC_HEAPS, 1)
        set_option(MALLOC_MMAP_THRESHOLD, LARGE_BYTES)
        set_option(MALLOC_TRIM_THRESHOLD, KEPT_BYTES)


def give_back() -> None:
    """Let the C library of Linux give the system all that is free, holes too."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Leisure:
    """Gives memory back when work is over.

    That takes milliseconds, and so does to take it again: not in the middle of work, and not after
    each of the few records of a quiet topic.
    """

    def __init__(self, give: Callable[[], None] = give_back) -> None:
        self._give = give
        self._records = 0
        """Taken since memory was last given back."""
        self._worked_s = 0.0

    def after(self, records: int, now_s: float) -> None:
        """A turn took so many records."""
        self._records += records
        if records:
            self._worked_s = now_s
        elif self._records >= MUCH_WORK and now_s - self._worked_s >= OVER_AFTER_S:
            self._records = 0
            self._give()


def leave_what_stays() -> None:
    """Let the garbage collector look at what comes from now on only: programs stay as they are."""
    gc.collect()
    gc.freeze()


class MemoryBound:
    """Watches the bound of this process."""

    def __init__(
        self, bound: int | None, resident: Callable[[], int | None] = resident_bytes
    ) -> None:
        self.bytes = bound
        self.reason = ""
        """Why nothing is read; "" where there is room."""
        self._resident = resident
        if bound is not None and resident() is None:
            log.warning("memory is not bounded: this system does not tell how much is taken")

    def look(self) -> bool:
        """Whether the bound is met now; says so once, and once that it is over."""
        resident = None if self.bytes is None else self._resident()
        if self.bytes is None or resident is None:
            return False
        before = bool(self.reason)
        met = is_met(resident, self.bytes, before)
        self.reason = told(resident, self.bytes) if met else ""
        if met and not before:
            log.error("memory bound met", reason=self.reason)
        if before and not met:
            log.info("memory bound no longer met: reading goes on", resident_mib=resident // MIB)
        return met


def bounded(max_memory_mib: int | None) -> MemoryBound:
    """The bound by the setting, else by the container."""
    return MemoryBound(bound_of(max_memory_mib, container_bytes()))
