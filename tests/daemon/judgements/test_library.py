"""What a process has read of a directory: what is listed, whole, and needed by a lane."""

from pathlib import Path
from typing import Final

import pytest

from relevanced.daemon.judgements import (
    HOUR_MS,
    IndexEntry,
    Judgements,
    Library,
    Reader,
    Timeline,
    add,
    directory as module,
    prepared,
    read,
    read_entry,
)

START: Final = 1_795_132_800_000
"""2026-11-20T00:00:00Z."""
GOOD: Final = "query,docid,rating\nshoes,d7,2\nshoes,d8,1\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "judgements").mkdir()
    return tmp_path / "judgements"


def put(directory: Path, hour: int, text: str = GOOD) -> IndexEntry:
    source = directory.parent / "a.csv"
    source.write_text(text)
    entry, _ = add(directory, source, START + hour * HOUR_MS, START)
    return entry


def test_listed_files_are_read_once(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = put(directory, 1), put(directory, 2)
    entries: list[IndexEntry] = []

    def counted(directory: Path, entry: IndexEntry, read: Reader[Judgements]) -> object:
        entries.append(entry)
        return read_entry(directory, entry, read)

    monkeypatch.setattr(module, "read_entry", counted)
    found = Library(directory, read)
    for _ in range(3):
        found.refresh([])
    assert found.index == (first, second) == tuple(entries)
    assert found.readable[first].by_query == {"shoes": {"d7": 2.0, "d8": 1.0}}
    third = put(directory, 3)
    found.refresh([])
    assert entries == [first, second, third] and third in found.readable


def test_half_a_file_is_read_once_it_is_whole(directory: Path) -> None:
    """Half a CSV file is a good CSV file: the hash tells."""
    entry = put(directory, 1)
    (directory / entry.name).write_text(GOOD[:-10])
    found = Library(directory, read)
    found.refresh([])
    assert not found.readable and "must be " + entry.sha256 in found.faults[0].reason
    waiting = prepared(Timeline(), found.index, found.readable, START)
    assert waiting.unread == (entry,) and not waiting.takes(entry.start_ms)
    (directory / entry.name).write_text(GOOD)
    found.refresh([])
    assert [*found.readable] == [entry] and not found.faults


def test_lane_waits_while_a_file_of_its_timeline_is_changed(directory: Path) -> None:
    entry = put(directory, 1)
    timeline = Timeline((entry,))
    found = Library(directory, read)
    found.refresh([timeline])
    assert prepared(timeline, found.index, found.readable, START).takes(START)
    (directory / entry.name).write_text(GOOD.replace("2", "3"))
    found.refresh([timeline])
    assert prepared(timeline, found.index, found.readable, START).missing == (entry,)
    (directory / entry.name).unlink()
    found.refresh([timeline])
    assert "No such file" in found.faults[0].reason
    (directory / entry.name).write_text(GOOD)
    found.refresh([timeline])
    assert prepared(timeline, found.index, found.readable, START).takes(START)


def test_file_that_all_lanes_have_passed_is_forgotten(directory: Path) -> None:
    first, second, third = (put(directory, hour) for hour in (1, 2, 3))
    found = Library(directory, read)
    found.refresh([Timeline((first, second)), Timeline((second,))])
    assert set(found.readable) == {first, second, third}
    found.refresh([Timeline((second,)), Timeline((third,))])
    assert set(found.readable) == {second, third}
    found.refresh([Timeline((third,)), Timeline()])
    assert set(found.readable) == {first, second, third}, "a lane without a timeline takes all"


def test_faulty_or_missing_index_keeps_what_was_listed(directory: Path) -> None:
    entry = put(directory, 1)
    found = Library(directory, read)
    found.refresh([])
    index = directory / "index"
    good = index.read_text()
    index.write_text(good + "half a")
    found.refresh([Timeline((entry,))])
    assert found.index == (entry,) and entry in found.readable
    assert str(found.index_faults[0]).startswith(f"{index}:2: 'half a': must be 3 fields")
    index.write_text(good)
    found.refresh([])
    assert not found.index_faults


def test_timeline_whose_index_lost_it_is_still_read(directory: Path) -> None:
    entry = put(directory, 1)
    (directory / "index").unlink()
    found = Library(directory, read)
    found.refresh([Timeline((entry,))])
    assert found.index == () and entry in found.readable


def test_missing_directory_is_a_fault(tmp_path: Path) -> None:
    found = Library(tmp_path / "nowhere", read)
    found.refresh([])
    assert "No such file" in found.index_faults[0].reason
