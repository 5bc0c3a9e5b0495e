"""`relevanced`, with a wall clock that somebody else can step while it runs.

    python tests/chaos/clocked.py STEP_FILE run --config FILE

STEP_FILE holds the seconds by which the clock is wrong, as eight bytes that are read at every look
at it. Only the wall clock is stepped, as an administrator or NTP would.
"""

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

STEP = struct.Struct("<d")


def step(path: Path, seconds: float) -> None:
    """From now on the clock of the process with this file is wrong by so much."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(STEP.pack(seconds))


def wrap_clock(path: Path) -> None:
    """Step this process's wall clock by what stands in the file."""
    with path.open("rb") as file:
        seen = mmap.mmap(file.fileno(), STEP.size, access=mmap.ACCESS_READ)
    true_time, true_time_ns = time.time, time.time_ns
    time.time = lambda: true_time() + STEP.unpack(seen[:])[0]
    time.time_ns = lambda: true_time_ns() + int(STEP.unpack(seen[:])[0] * 1e9)


if __name__ == "__main__":
    wrap_clock(Path(sys.argv[1]))
    sys.argv = ["relevanced", *sys.argv[2:]]
    # Only now: modules keep the functions that they find when they are imported.
    runpy.run_module("relevanced.daemon", run_name="__main__")
