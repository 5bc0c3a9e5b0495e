"""Prometheus' own linter reads what is exposed, and finds nothing to say."""

import shutil
import subprocess

import pytest

from relevanced.daemon.telemetry import Telemetry
from tests.lane_views import Shown, exposed, lane_view

HOSTILE = ('"', "\\", "\n", "a,b", "\x00\r", "\u2028\U0001f50d", "other")


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool: apt-get install prometheus")
    return found


def check(promtool: str, text: bytes) -> tuple[int, str]:
    """Exit code and findings of `promtool check metrics`."""
    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, timeout=30, check=False
    )
    return done.returncode, (done.stdout + done.stderr).decode()


def page(shown: list[Shown]) -> bytes:
    telemetry = Telemetry("1.2.3")
    telemetry.set_eviction_policy("noeviction")
    telemetry.batch_duration_s.observe(1)
    for gauge in (telemetry.lag_records, telemetry.watermark_s, telemetry.watermark_ahead_s):
        gauge.labels("topic", "0").set(1)
    for gauge in (telemetry.open_impressions, telemetry.waiting_feedback, telemetry.lane_stopped):
        gauge.labels("0").set(1)
    counts = {"events": {"impression": len(shown)}, "gap_records": {"topic": 1}}
    counts["ahead_events"] = {"topic": 1}
    text = exposed([lane_view(shown, counts=counts)]).text
    return b"".join((*text, telemetry.render(False)))


def test_every_series_passes_the_linter(promtool: str) -> None:
    shown = [Shown(country=name, values=(1.0, 0.5, 0.25)) for name in "AABBCDD"]
    assert check(promtool, page(shown)) == (0, "")


@pytest.mark.parametrize("country", HOSTILE, ids=ascii)
def test_hostile_segments_pass_the_linter(promtool: str, country: str) -> None:
    assert check(promtool, page([Shown(country=country)])) == (0, "")


def test_the_linter_would_find_a_fault(promtool: str) -> None:
    code, findings = check(promtool, b'# TYPE a counter\na{b="c"} 1\n')
    assert code != 0 and "counter metrics should have" in findings
