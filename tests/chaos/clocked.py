"""`relevanced` with a wall clock that another process can step while it runs.

    python tests/chaos/clocked.py STEP_FILE run --config FILE

STEP_FILE contains the offset of the clock in seconds, as eight bytes that are read whenever the
clock is. Only the wall clock is stepped, as an administrator or NTP would. Owners check their lanes
every VERIFY_EVERY_S, and stages say every ENDS_EVERY_S what is at its end: rounds are short.
"""

import importlib
import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

VERIFY_EVERY_S = 2.0
ENDS_EVERY_S = 1.0
STEP = struct.Struct("<d")


def step(path: Path, seconds: float) -> None:
    """Set the offset of the wall clock of the process that uses this file."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(STEP.pack(seconds))


def wrap_clock(path: Path) -> None:
    """Add the offset in the file to the wall clock of this process."""
    with path.open("rb") as file:
        offset = mmap.mmap(file.fileno(), STEP.size, access=mmap.ACCESS_READ)
    true_time, true_time_ns = time.time, time.time_ns
    time.time = lambda: true_time() + STEP.unpack(offset[:])[0]
    time.time_ns = lambda: true_time_ns() + int(STEP.unpack(offset[:])[0] * 1e9)


if __name__ == "__main__":
    wrap_clock(Path(sys.argv[1]))
    sys.argv = ["relevanced", *sys.argv[2:]]
    # After wrap_clock: imported modules would keep references to the original functions.
    memory_repair = importlib.import_module("relevanced.daemon.worker.memory_repair")
    setattr(memory_repair, "VERIFY_EVERY_S", VERIFY_EVERY_S)
    stage = importlib.import_module("relevanced.daemon.kafka.stage")
    setattr(stage, "ENDS_EVERY_S", ENDS_EVERY_S)
    runpy.run_module("relevanced.daemon", run_name="__main__")
