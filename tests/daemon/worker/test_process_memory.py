"""The bound of memory: where it comes from, when it is met, and what is logged of it."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.worker import (
    MIB,
    TRIM_AFTER_RECORDS,
    IdleTrim,
    MemoryBound,
    bound_message,
    bound_of,
    container_bytes,
    is_bound_met,
    resident_bytes,
    trim_heap,
)


@pytest.mark.parametrize(
    ("setting_mib", "container", "bound"),
    [(None, None, None), (2, None, 2 * MIB), (2, 100 * MIB, 2 * MIB), (None, 100, 85)],
)
def test_the_setting_goes_before_the_container(
    setting_mib: int | None, container: int | None, bound: int | None
) -> None:
    assert bound_of(setting_mib, container) == bound


def test_reading_goes_on_below_95_percent_of_the_bound() -> None:
    assert [is_bound_met(held, 100, False) for held in (99, 100, 101)] == [False, True, True]
    assert [is_bound_met(held, 100, True) for held in (94, 95, 101)] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "limit"), [("max\n", None), ("9223372036854771712\n", None), ("4096\n", 4096)]
)
def test_limit_of_the_container(text: str, limit: int | None, tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    file.write_text(text)
    assert container_bytes([tmp_path / "missing", file]) == limit


def test_the_message_has_the_value_the_rule_and_what_to_do() -> None:
    text = bound_message(300 * MIB, 200 * MIB)
    assert text.startswith("300 MiB in memory: must be < 200 MiB")
    assert "worker.max_memory_mib" in text and "another worker" in text


def test_met_and_no_longer_met_are_logged_once_each() -> None:
    held = iter([10, 99, 100, 101, 96, 90, 91])
    with capture_logs() as logs:
        bound = MemoryBound(100, lambda: next(held))  # the constructor measures first
        met = [bound.is_reached() for _ in range(6)]
    assert met == [False, True, True, True, False, False]
    assert [line["event"] for line in logs] == [
        "memory bound met",
        "memory bound no longer met: reading goes on",
    ]
    assert bound.reason == ""


def test_without_a_bound_nothing_is_measured() -> None:
    assert not MemoryBound(None, lambda: 1 << 60).is_reached()


def test_this_process_has_resident_memory() -> None:
    assert (resident_bytes() or 0) > 10 * MIB


@pytest.mark.parametrize(
    ("turns", "gives"),
    [
        ([(0.0, TRIM_AFTER_RECORDS), (0.9, 0)], False),
        ([(0.0, TRIM_AFTER_RECORDS), (1.0, 0)], True),
        ([(0.0, TRIM_AFTER_RECORDS - 1), (9.0, 0)], False),
        ([(0.0, TRIM_AFTER_RECORDS - 1), (9.0, 1), (10.0, 0)], True),
        ([(0.0, TRIM_AFTER_RECORDS), (5.0, 1), (5.5, 0)], False),
    ],
)
def test_memory_goes_back_after_much_work_and_a_second_without(
    turns: list[tuple[float, int]], gives: bool
) -> None:
    given: list[None] = []
    idle_trim = IdleTrim(lambda: given.append(None))
    for now_s, records in turns:
        idle_trim.after_turn(records, now_s)
    assert bool(given) == gives
    idle_trim.after_turn(0, 100.0)
    idle_trim.after_turn(0, 200.0)
    assert len(given) <= 1


def test_a_trim_gives_free_memory_back() -> None:
    blocks = [bytes(2048) for _ in range(10_000)]
    kept = blocks[::100]
    held = resident_bytes() or 0
    blocks.clear()
    trim_heap()
    assert (resident_bytes() or 0) <= held and len(kept) == 100
