"""The memory of this process: its bound, and how the C library's allocator is set.

At the bound the worker reads nothing more: no impression may be dropped before its time, so there
is nothing else to give up. The state then neither grows nor shrinks, because event time stands
still while nothing is read. Reading goes on once memory is free again: lanes moved to another
worker, or a restart raised the bound.
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
"""The bound, as a share of the container's limit. Memory is measured between batches only: the rest
is for the batch in hand."""
RESUME_BELOW: Final = 0.95
"""The share of the bound below which reading goes on."""
UNLIMITED_FROM: Final = 1 << 60
"""Control groups of version 1 write "no limit" as a number beyond this."""
CONTAINER_FILES: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
CGROUP_ROOT: Final = Path("/sys/fs/cgroup")
OWN_CGROUP: Final = Path("/proc/self/cgroup")
MALLOC_TRIM_THRESHOLD: Final = -1
MALLOC_MMAP_THRESHOLD: Final = -3
MALLOC_ARENA_MAX: Final = -8
"""The options' numbers in glibc's malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX."""
MAPPED_FROM_BYTES: Final = 12 * MIB
"""Blocks from this size on get pages of their own. Most answers to a fetch stay below it (Kafka
sends at most 8 MiB where `fetch_max_bytes` is not changed): they come and go like batches."""
KEPT_BYTES: Final = 32 * MIB
"""Free memory at the end of the heap that stays with the process while it works."""
TRIM_AFTER_RECORDS: Final = 5000
"""Fewer records than this take too little memory to be worth a trim."""
TRIM_AFTER_IDLE_S: Final = 1.0
ADVICE: Final = "start another worker, raise worker.max_memory_mib, or shorten attribution.window"


def bound_of(max_memory_mib: int | None, container_bytes: int | None) -> int | None:
    """The bytes of memory at which reading stops; None where neither setting nor container sets a
    bound."""
    if max_memory_mib is not None:
        return max_memory_mib * MIB
    return None if container_bytes is None else int(container_bytes * SHARE_OF_CONTAINER)


def is_bound_met(resident: int, bound: int, met_before: bool) -> bool:
    """Whether the bound is reached; once it was, memory must fall below RESUME_BELOW of it."""
    return resident >= bound * (RESUME_BELOW if met_before else 1)


def bound_message(resident: int, bound: int) -> str:
    """The value, the rule, and what to do."""
    return (
        f"{resident / MIB:.0f} MiB in memory: must be < {bound / MIB:.0f} MiB"
        f" (worker.max_memory_mib, or {SHARE_OF_CONTAINER:.0%} of what the container may have),"
        f" so nothing is read: {ADVICE}"
    )


def container_bytes(files: Sequence[Path] | None = None) -> int | None:
    """The memory limit of the container or of the systemd unit that this runs in, the smallest of
    several; None without one."""
    limits = []
    for file in (*CONTAINER_FILES, *unit_files()) if files is None else files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdecimal() and int(text) < UNLIMITED_FROM:
            limits.append(int(text))
    return min(limits, default=None)


def unit_files(own: Path = OWN_CGROUP, root: Path = CGROUP_ROOT) -> list[Path]:
    """The limits of the control groups of version 2 that this process is in, the innermost first: a
    unit with MemoryMax, and the slices around it. A container sees its own as the root."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return []
    paths = [line.removeprefix("0::/") for line in lines if line.startswith("0::/")]
    groups = [root / path for path in paths if path and ".." not in path]
    return [
        folder / "memory.max"
        for group in groups
        for folder in (group, *group.parents)
        if folder.is_relative_to(root) and folder != root
    ]


def resident_bytes() -> int | None:
    """The resident memory of this process; None where the system does not report it."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * os.sysconf("SC_PAGESIZE")


def configure_allocator() -> None:
    """Set glibc's malloc for one process that works in batches; other C libraries are left alone.

    * One heap (arena) for all threads. With one per thread, each kept what its busiest moment took,
      and a worker grew by 4 MB an hour for hours.
    * Pages of their own for blocks from MAPPED_FROM_BYTES on: the large columns. They grow without
      a copy and go back to the system whole.
    * What a batch takes and frees is smaller and stays with the process. To get it from the system
      again, page by page and zeroed, cost a tenth of all the work; answers to fetches alone were
      more than half of all page faults. `IdleTrim` gives it back when the work is over.

    Setting one of the thresholds also ends glibc's own adjusting of both, so both are set.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(MALLOC_ARENA_MAX, 1)
        set_option(MALLOC_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
        set_option(MALLOC_TRIM_THRESHOLD, KEPT_BYTES)


def trim_heap() -> None:
    """Give all free pages of the C library's heap back to the system, those inside it too."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class IdleTrim:
    """Gives memory back when the work is over.

    A trim takes milliseconds, and so does taking the memory again: it is not done in the middle of
    work, and not after each of the few records of a quiet topic.
    """

    def __init__(self, trim: Callable[[], None] = trim_heap) -> None:
        self._trim = trim
        self._records = 0
        """Records since the last trim."""
        self._worked_s = 0.0

    def after_turn(self, records: int, now_s: float) -> None:
        """Note that a turn took so many records, and trim where it is time to."""
        self._records += records
        if records:
            self._worked_s = now_s
        elif self._records >= TRIM_AFTER_RECORDS and now_s - self._worked_s >= TRIM_AFTER_IDLE_S:
            self._records = 0
            self._trim()


def freeze_startup_objects() -> None:
    """Exempt all objects made so far from garbage collection: modules and classes stay for the life
    of the process, and each collection would visit them again."""
    gc.collect()
    gc.freeze()


class MemoryBound:
    """The bound of this process, and whether it is reached."""

    def __init__(
        self, bound: int | None, resident: Callable[[], int | None] = resident_bytes
    ) -> None:
        self.bytes = bound
        self.reason = ""
        """Why nothing is read; "" below the bound."""
        self._resident = resident
        if bound is not None and resident() is None:
            log.warning("memory has no bound: this system does not report how much is in use")

    def is_reached(self) -> bool:
        """Whether the bound is reached now; logs when it is first, and when it is no longer."""
        resident = None if self.bytes is None else self._resident()
        if self.bytes is None or resident is None:
            return False
        before = bool(self.reason)
        met = is_bound_met(resident, self.bytes, before)
        self.reason = bound_message(resident, self.bytes) if met else ""
        if met and not before:
            log.error("memory bound met", reason=self.reason)
        if before and not met:
            log.info("memory bound no longer met: reading goes on", resident_mib=resident // MIB)
        return met


def memory_bound(max_memory_mib: int | None) -> MemoryBound:
    """The bound of the setting, else of the container."""
    return MemoryBound(bound_of(max_memory_mib, container_bytes()))
