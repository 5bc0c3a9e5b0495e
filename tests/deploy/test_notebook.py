"""The example notebook runs as it is printed, and computes the interval that the daemon serves."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from relevanced.daemon.http import HttpServer
from relevanced.daemon.telemetry import Telemetry
from tests.arms import dealt_arms, finding
from tests.conftest import ROOT
from tests.daemon.http.api.test_recorded_numbers import reading_with
from tests.lane_views import published_of


async def test_notebook_draws_a_week_and_recomputes_the_interval(tmp_path: Path) -> None:
    arms = dealt_arms()
    server = HttpServer(Telemetry("1"), "all")
    server.published = published_of(reading_with(arms, hours=72))
    await server.start("127.0.0.1", 0)
    picture = tmp_path / "week.png"
    environment = {
        **os.environ,
        "RELEVANCED_URL": f"http://127.0.0.1:{server.port}",
        "METRIC": "P@1",
        "PICTURE": str(picture),
        "MPLBACKEND": "Agg",
    }
    command = [sys.executable, str(ROOT / "deploy" / "notebook.py")]
    try:
        result = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, timeout=120
        )
    finally:
        await server.stop()
    assert result.returncode == 0, result.stderr
    (treatment,) = (one for one in finding(arms).variants if one.variant == "treatment")
    (stated,) = (one for one in treatment.metrics if one.metric == "P@1")
    assert result.stdout.splitlines() == [
        "71 complete hours of P@1",
        f"treatment: {stated.lower:+.4f} to {stated.upper:+.4f} in P@1",
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")
