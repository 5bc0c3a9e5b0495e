"""The bound of memory: which it is, when it is met, and what is said of it."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from relevanced.daemon.worker.memory import (
    MIB,
    MUCH_WORK,
    Leisure,
    MemoryBound,
    bound_of,
    container_bytes,
    give_back,
    is_met,
    resident_bytes,
    told,
)


@pytest.mark.parametrize(
    ("setting_mib", "container", "bound"),
    [(None, None, None), (2, None, 2 * MIB), (2, 100 * MIB, 2 * MIB), (None, 100, 85)],
)
def test_the_setting_goes_before_the_container(
    setting_mib: int | None, container: int | None, bound: int | None
) -> None:
    assert bound_of(setting_mib, container) == bound


def test_reading_goes_on_once_there_is_some_room() -> None:
    assert [is_met(held, 100, False) for held in (99, 100, 101)] == [False, True, True]
    assert [is_met(held, 100, True) for held in (94, 95, 101)] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "limit"), [("max\n", None), ("9223372036854771712\n", None), ("4096\n", 4096)]
)
def test_limit_of_the_container(text: str, limit: int | None, tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    file.write_text(text)
    assert container_bytes([tmp_path / "missing", file]) == limit


def test_what_is_said_has_the_value_and_the_rule_and_what_to_do() -> None:
    text = told(300 * MIB, 200 * MIB)
    assert text.startswith("300 MiB in memory: must be < 200 MiB")
    assert "worker.max_memory_mib" in text and "another worker" in text


def test_met_and_over_are_said_once() -> None:
    held = iter([10, 99, 100, 101, 96, 90, 91])
    with capture_logs() as logs:
        bound = MemoryBound(100, lambda: next(held))  # the first look is at the start
        met = [bound.look() for _ in range(6)]
    assert met == [False, True, True, True, False, False]
    assert [line["event"] for line in logs] == [
        "memory bound met",
        "memory bound no longer met: reading goes on",
    ]
    assert bound.reason == ""


def test_without_a_bound_nobody_looks() -> None:
    assert not MemoryBound(None, lambda: 1 << 60).look()


def test_this_process_holds_some_memory() -> None:
    assert (resident_bytes() or 0) > 10 * MIB


@pytest.mark.parametrize(
    ("turns", "gives"),
    [
        ([(0.0, MUCH_WORK), (0.9, 0)], False),
        ([(0.0, MUCH_WORK), (1.0, 0)], True),
        ([(0.0, MUCH_WORK - 1), (9.0, 0)], False),
        ([(0.0, MUCH_WORK - 1), (9.0, 1), (10.0, 0)], True),
        ([(0.0, MUCH_WORK), (5.0, 1), (5.5, 0)], False),
    ],
)
def test_memory_goes_back_when_much_work_is_over(
    turns: list[tuple[float, int]], gives: bool
) -> None:
    given: list[None] = []
    leisure = Leisure(lambda: given.append(None))
    for now_s, records in turns:
        leisure.after(records, now_s)
    assert bool(given) == gives
    leisure.after(0, 100.0)
    leisure.after(0, 200.0)
    assert len(given) <= 1


def test_what_is_free_goes_back() -> None:
    pieces = [bytes(2048) for _ in range(10_000)]
    kept = pieces[::100]
    held = resident_bytes() or 0
    pieces.clear()
    give_back()
    assert (resident_bytes() or 0) <= held and len(kept) == 100
