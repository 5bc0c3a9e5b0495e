"""Where a worker spends its time: the standard library's profiler over the benchmark's topic.

The profiler makes each call dearer, so its shares lean towards small functions; the ratio to the
floor is measured without it.
"""

import io
import pstats
import signal
from typing import Final

from tests.bench.effort import Effort
from tests.bench.findings import Found
from tests.bench.stage import Job, Stage
from tests.bench.traffic import Traffic

RECORDS: Final = 500_000
SHOWN: Final = 45


async def measure(stage: Stage, effort: Effort) -> Found:
    """No numbers: the functions in which most time was spent, themselves and with all they call."""
    traffic = Traffic(records=effort.of(RECORDS))
    topic, path = await stage.topic(traffic), stage.directory / "worker.profile"
    under = ("-m", "cProfile", "-o", str(path))
    with stage.worker(Job(traffic), topic, stage.name(), under=under) as worker:
        await worker.follow(traffic.records)
        worker.daemon.terminate(signal.SIGTERM)
    told = io.StringIO()
    for order in ("tottime", "cumulative"):
        pstats.Stats(str(path), stream=told).strip_dirs().sort_stats(order).print_stats(SHOWN)
    return Found([], notes=[told.getvalue()])
