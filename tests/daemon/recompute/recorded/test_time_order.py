"""Records come back in the order of their keys, equal ones in that of their addition, with memory
for a buffer of them; nothing is left of the temporary file."""

import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from relevanced.daemon.recompute.files import (
    NoRoom,
    Ordered,
    OrderedRecords,
    TimeOrder,
    time_order,
)
from tests.fuzz.settings import examples

PATIENCE_S: Final = 30.0
PROGRAM: Final = """
import signal, tempfile
from relevanced.daemon.recompute.files import time_order
from relevanced.daemon.commands.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts the tests may ignore it
tempfile.tempdir, time_order.BUFFER_BYTES = {!r}, 1 << 16
main()
"""
LINE: Final = (
    b'{"type":"impression","impression_id":"q1","timestamp":1795176000000,"items":["a"]}\n'
)


def records(keys: Sequence[int], first: int = 0) -> OrderedRecords:
    """Each record's line tells its number. Two of them have one place, as elements of an array."""
    numbers = range(first, first + len(keys))
    places = first + np.arange(len(keys)) // 2
    text = b"\n".join(b"%d" % number for number in numbers)
    return OrderedRecords(np.array(keys, np.int64), places, text)


def ordered(parts: Sequence[Sequence[int]]) -> list[tuple[int, int, bytes]]:
    """(key, place, line) of all records, in the order they come back in."""
    found = list[tuple[int, int, bytes]]()
    with TimeOrder() as order:
        for part in parts:
            order.add(records(part, order.count))
        for some in order.in_order():
            assert isinstance(some, Ordered) and len(some)
            found += zip(some.keys.tolist(), some.places.tolist(), some.lines, strict=True)
    return found


@examples(200)
@given(
    st.lists(st.lists(st.integers(0, 6), max_size=12), max_size=12),
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_any_records_come_back_sorted(
    parts: list[list[int]], buffer_records: int, block_bytes: int, overlapping: int
) -> None:
    firsts = [0, *accumulate(map(len, parts))]
    pairs = [(first, n) for first, part in zip(firsts, parts) for n in range(len(part))]
    keys = [key for part in parts for key in part]
    unsorted = [(key, first + n // 2, first + n) for key, (first, n) in zip(keys, pairs)]
    expected = [(key, place, b"%d" % number) for key, place, number in sorted(unsorted)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_order, "BUFFER_BYTES", buffer_records * time_order.RECORD_BYTES)
        patch.setattr(time_order, "BLOCK_BYTES", block_bytes)
        patch.setattr(time_order, "MOST_OVERLAPPING", overlapping)
        assert ordered(parts) == expected


@pytest.mark.parametrize("disorder", [0, 60])
def test_few_records_of_input_in_order_are_loaded_at_once(
    disorder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are they sorted before they are written."""
    monkeypatch.setattr(time_order, "BUFFER_BYTES", 300 * time_order.RECORD_BYTES)
    keys = np.arange(3_000) + np.random.default_rng(1).integers(0, disorder + 1, 3_000)
    merged, most = time_order._merged, list[int]()

    def counted(parts: Sequence[Ordered]) -> Ordered:
        most.append(sum(map(len, parts)))
        return merged(parts)

    monkeypatch.setattr(time_order, "_merged", counted)
    with TimeOrder() as order:
        for start in range(0, 3_000, 50):
            order.add(records(keys[start : start + 50].tolist(), start))
        assert not most
        assert sum(map(len, order.in_order())) == 3_000
    assert max(most) <= 150 if disorder else max(most) == 50


def test_memory_is_that_of_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records there are, in order or in none."""
    monkeypatch.setattr(time_order, "BUFFER_BYTES", 1 << 18)
    monkeypatch.setattr(time_order, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(time_order, "MOST_OVERLAPPING", 2)
    rng, text = np.random.default_rng(1), b"\n".join([b"x" * 99] * 500)

    def peak(parts: int, *, shuffled: bool) -> int:
        tracemalloc.start()
        with TimeOrder() as order:
            for n in range(parts):
                keys = rng.integers(0, 10**9, 500) if shuffled else np.arange(500) + 500 * n
                order.add(OrderedRecords(keys, np.arange(500), text))
            assert sum(map(len, order.in_order())) == 500 * parts
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    for shuffled in (False, True):
        few, many = peak(20, shuffled=shuffled), peak(120, shuffled=shuffled)
        assert many < 2 * few < 3 << 20, (few, many)


def limit_files() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def command(path: Path, folder: Path) -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(str(folder)), "replay", str(path)]


def test_a_full_disk_ends_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(LINE * 30_000)
    ended = subprocess.run(
        command(path, tmp_path), capture_output=True, text=True, preexec_fn=limit_files
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"{tmp_path}: no room to put the events in order of time, ")
    assert "File too large" in ended.stderr and "TMPDIR" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_no_folder_for_temporary_files_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    monkeypatch.setattr(time_order, "BUFFER_BYTES", 1)
    with TimeOrder() as order, pytest.raises(NoRoom, match="gone: no room .* No such file"):
        order.add(records([1]))


def test_nothing_is_left_after_an_interrupt(tmp_path: Path) -> None:
    """The file has no name while it is used: not even a kill leaves it behind."""
    folder, pipe = tmp_path / "temporary", tmp_path / "events"
    folder.mkdir()
    subprocess.run(["mkfifo", str(pipe)], check=True)
    with (tmp_path / "errors").open("w+") as errors:
        process = subprocess.Popen(command(pipe, folder), stderr=errors)
        with process, pipe.open("wb") as events:
            events.write(LINE * 20_000)
            events.flush()
            wait_for_file(process.pid, folder)
            assert not list(folder.iterdir())
            process.send_signal(signal.SIGINT)
            try:
                ended = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                ended = None
        errors.seek(0)
        assert ended == 128 + signal.SIGINT, errors.read()
    assert not list(folder.iterdir())


def wait_for_file(pid: int, folder: Path) -> None:
    """Wait until the process has a file without a name open in the folder."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        opened = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        if any(name.startswith(str(folder)) and "(deleted)" in name for name in opened):
            return
        time.sleep(0.02)
    raise AssertionError("the process wrote no temporary file")
