"""How much slower this machine is now than the one for which limits on CPU time are stated.

CPU time leaves out what other processes compute, but not that they share a core, its caches and the
memory with this one.
"""

import gc
import json
import time
from typing import Final

import msgspec

REFERENCE_S: Final = 0.016
"""CPU time of the work below on the machine for which the limits are stated, while it is idle."""
TEXT: Final = json.dumps(
    [{"id": n, "items": [f"item-{n}-{i}" for i in range(20)]} for n in range(4_000)]
).encode()


def slowdown() -> float:
    """2 where the work takes twice as long as on the reference machine; never below 1."""
    gc.disable()  # what else the process holds is none of the machine's slowness
    try:
        return max(1.0, min(_work_s() for _ in range(3)) / REFERENCE_S)
    finally:
        gc.enable()


def _work_s() -> float:
    """CPU time of a fixed piece of work, of the kinds that fill a batch: decoding, many small
    objects, large dictionaries."""
    began_s = time.thread_time()
    seen: dict[str, int] = {}
    for record in msgspec.json.decode(TEXT):
        for rank, item in enumerate(record["items"]):
            seen[item] = seen.get(item, 0) + rank
    return time.thread_time() - began_s
