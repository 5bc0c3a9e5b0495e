"""Where a worker spends its time, by the standard library's profiler.

The profiler makes every call more expensive, so it overstates small functions; the ratio to the
floor is measured without it.
"""

import io
import pstats
import signal
from typing import Final

from tests.bench.effort import Effort
from tests.bench.findings import PartResult
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic

RECORDS: Final = 500_000
SHOWN: Final = 45


async def measure(stage: Stage, effort: Effort) -> PartResult:
    """Notes with the functions that took most time, by their own time and by cumulative time."""
    traffic = Traffic(records=effort.of(RECORDS))
    topic, path = await stage.topic(traffic), stage.directory / "worker.profile"
    under = ("-m", "cProfile", "-o", str(path))
    with stage.worker(Job(traffic), topic, stage.name(), under=under) as worker:
        await worker.follow(traffic.records)
        worker.daemon.terminate(signal.SIGTERM)
    text = io.StringIO()
    for order in ("tottime", "cumulative"):
        pstats.Stats(str(path), stream=text).strip_dirs().sort_stats(order).print_stats(SHOWN)
    return PartResult([], notes=[text.getvalue()])
