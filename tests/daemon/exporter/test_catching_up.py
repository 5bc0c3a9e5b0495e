"""Whether a fresh namespace has caught up, and how far it is."""

import pytest

from relevanced.daemon.exporter import WITHIN_MS, CatchUp

NOW_MS = 1_795_176_000_000
HOUR_MS = 3_600_000


def test_every_lane_counts_and_minutes_do_not() -> None:
    near, far = NOW_MS - WITHIN_MS, NOW_MS - WITHIN_MS - 1
    assert CatchUp().progress([near, NOW_MS], NOW_MS) is None
    assert CatchUp().progress([NOW_MS + HOUR_MS], NOW_MS) is None, "a wrong clock"
    progress = CatchUp().progress([NOW_MS, far], NOW_MS)
    assert progress is not None and progress.behind_ms == WITHIN_MS + 1


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([NOW_MS, None, None], "nothing has been read yet of lanes 1, 2"),
        ([None] * 7, "nothing has been read yet of lanes 0, 1, 2, 3, 4, …"),
        ([], "no lane has begun"),
    ],
)
def test_a_lane_of_which_nothing_was_read_is_named(times: list[int | None], words: str) -> None:
    progress = CatchUp().progress(times, NOW_MS)
    assert progress is not None and progress.behind_ms is None and progress.words() == words


def test_the_end_is_estimated_by_the_speed_of_the_last_minute() -> None:
    """27 h behind, 6.5 h less in each minute."""
    catching, said = CatchUp(), []
    for second in range(0, 241, 10):
        behind_ms = 27 * HOUR_MS - second * 390_000
        progress = catching.progress([NOW_MS + second * 1000 - behind_ms], NOW_MS + second * 1000)
        assert progress is not None
        said.append(progress.words())
        if second:
            left_s = (behind_ms - WITHIN_MS) / 390_000
            assert progress.remaining_ms == pytest.approx(1000 * left_s, abs=1)
    assert said[0] == "27 h behind, no speed known yet, or none"
    assert said[1] == "26 h behind, done in about 4 min"


def test_without_progress_no_end_is_stated() -> None:
    catching = CatchUp()
    for second in range(0, 100, 10):
        progress = catching.progress([NOW_MS - HOUR_MS], NOW_MS + second * 1000)
    assert progress is not None and progress.remaining_ms is None
