"""Hours of event time leave the daemon at its size, and growth is detected."""

from pathlib import Path

import pytest

from tests.services.kafka_server import Broker
from tests.services.redis_server import RedisServer, binaries
from tests.soak.run import Soak, soak
from tests.soak.trend import trend

HOURS = [index / 20 for index in range(100)]


async def test_hours_leave_nothing_behind(kafka: Broker, tmp_path: Path) -> None:
    redis = RedisServer(str(binaries()["valkey"]), tmp_path / "redis")
    redis.start()
    try:
        result = await soak(Soak(hours=5, rate=3.0), tmp_path, kafka, redis)
    finally:
        redis.kill()
    print(result.text())
    assert result.rebalances >= 2
    assert result.passed


@pytest.mark.parametrize(("growth", "grows"), [(0.0, False), (900.0, False), (1100.0, True)])
def test_growth_beyond_the_bound_is_detected(growth: float, grows: bool) -> None:
    noisy = [1e6 + growth * hour + 100 * (index % 7) for index, hour in enumerate(HOURS)]
    line = trend("memory", HOURS, noisy, bound=1000.0)
    assert line.grows is grows
    assert line.slope == pytest.approx(growth, abs=5 * line.error)
    assert ("GROWS" in line.text()) is grows


@pytest.mark.parametrize("size", [5e5, 5e7])
@pytest.mark.parametrize("at_hour", [1, 2, 2.5, 3.3, 4])
def test_single_step_is_no_growth(at_hour: float, size: float) -> None:
    stepped = [1e6 + size * (hour > at_hour) + 100 * (hour % 7) for hour in HOURS]
    assert not trend("memory", HOURS, stepped, bound=1e5).grows
    growing = [value + 2e5 * hour for hour, value in zip(HOURS, stepped, strict=True)]
    assert trend("memory", HOURS, growing, bound=1e5).grows, "beside the step"


def test_few_samples_are_no_trend() -> None:
    stepped = [1e6] * 100
    with pytest.raises(ValueError, match="must be at least 24"):
        trend("memory", HOURS[:23], stepped[:23], bound=0)
