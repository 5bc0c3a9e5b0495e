"""The directory of judgements: a file is in place whole or not at all."""

import errno
import hashlib
import os
import threading
from pathlib import Path
from typing import Final

import pytest

from relevanced.daemon.judgements import (
    HOUR_MS,
    FaultyIndex,
    FaultyJudgements,
    GradeCounts,
    IndexEntry,
    NotAdded,
    add,
    directory as door,
    look,
    read,
    read_entry,
    read_index,
)

START: Final = 1_795_132_800_000
"""2026-11-20T00:00:00Z."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "judgements").mkdir()
    return tmp_path / "judgements"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "quepid.csv"
    path.write_text("query,docid,rating\nshoes,d7,2\n")
    return path


def put(directory: Path, source: Path, hour: int = 0) -> IndexEntry:
    entry, _ = add(directory, source, START + hour * HOUR_MS, START)
    return entry


def test_added_file_is_listed_and_read(directory: Path, source: Path) -> None:
    assert read_index(directory) == ()
    second, first = put(directory, source, 5), put(directory, source, 2)
    assert read_index(directory) == (first, second)
    assert first.name == "2026-11-20T0200Z-quepid.csv"
    assert first.sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert (directory / first.name).read_bytes() == source.read_bytes()
    found = look(directory)
    assert found.entries == (first, second) and not found.faults and not found.unlisted
    assert found.counts[first] == GradeCounts(1, 1, 0, highest=2.0)


@pytest.mark.parametrize(
    ("hour", "earliest_hour", "fault"),
    [
        (0.5, 0, "start=2026-11-20T00:30:00Z: must be a whole hour"),
        (1, 2, "start=2026-11-20T01:00:00Z: must be a whole hour, and not before 2026-11-20T02"),
    ],
)
def test_start_is_a_whole_hour_with_a_lead(
    directory: Path, source: Path, hour: float, earliest_hour: int, fault: str
) -> None:
    with pytest.raises(NotAdded, match=fault):
        add(directory, source, START + int(hour * HOUR_MS), START + earliest_hour * HOUR_MS)
    assert not list(directory.iterdir())


def test_start_that_is_taken_is_refused(directory: Path, source: Path) -> None:
    entry = put(directory, source)
    source.write_text("shoes 0 d7 1\n")
    with pytest.raises(NotAdded, match="2026-11-20T0000Z-quepid.csv starts then"):
        put(directory, source)
    assert (
        read_index(directory) == (entry,)
        and read_entry(directory, entry, read).counts.judgements == 1
    )


def test_name_that_the_index_cannot_list_is_refused(directory: Path, source: Path) -> None:
    with pytest.raises(NotAdded, match="name='my file.csv'"):
        put(directory, source.rename(source.with_name("my file.csv")))


def test_faulty_file_leaves_everything_as_it_was(directory: Path, source: Path) -> None:
    put(directory, source)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    source.write_text("query,docid,rating\nshoes,d7,good\n")
    with pytest.raises(
        FaultyJudgements, match=f"{source}:2: grade='good' of item 'd7' of query 'shoes'"
    ):
        put(directory, source, 1)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_changed_half_and_missing_files_are_faults(directory: Path, source: Path) -> None:
    source.write_text("query,docid,rating\nshoes,d7,2\nshoes,d8,1\n")
    changed, half, missing = (put(directory, source, hour) for hour in range(3))
    (directory / changed.name).write_text("query,docid,rating\nshoes,d7,3\n")
    (directory / half.name).write_text("query,docid,rating\nshoes,d7,2\n")
    (directory / missing.name).unlink()
    found = look(directory)
    assert found.entries == (changed, half, missing) and not found.counts
    assert [fault.file for fault in found.faults] == [
        str(directory / entry.name) for entry in found.entries
    ]
    assert f"must be {changed.sha256}, as the index says" in found.faults[0].reason
    assert "No such file" in found.faults[2].reason


def test_only_what_is_listed_is_read(directory: Path, source: Path) -> None:
    put(directory, source)
    (directory / "2026-11-20T0100Z-half.csv").write_text("query,docid,rating\nshoes")
    found = look(directory)
    assert len(found.entries) == 1 and not found.faults
    assert found.unlisted == ("2026-11-20T0100Z-half.csv",)


def test_faulty_index_is_never_written_over(directory: Path, source: Path) -> None:
    (directory / "index").write_text("2026-11-20T0000Z-a.csv\n")
    with pytest.raises(FaultyIndex, match="index:1: .* must be 3 fields"):
        put(directory, source)
    assert (directory / "index").read_text() == "2026-11-20T0000Z-a.csv\n"
    assert sorted(path.name for path in directory.iterdir()) == [".lock", "index"]


def test_index_is_bounded(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MOST_INDEX_BYTES", 10)
    (directory / "index").write_text("x" * 11)
    with pytest.raises(OSError, match="must have at most 10 bytes"):
        read_index(directory)


def test_file_is_bounded(directory: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = put(directory, source)
    monkeypatch.setattr(door, "MOST_FILE_BYTES", 10)
    with pytest.raises(OSError, match="must have at most 10 bytes"):
        put(directory, source, 1)
    with pytest.raises(FaultyJudgements, match="must have at most 10 bytes"):
        read_entry(directory, entry, read)


def test_missing_directory_is_said(tmp_path: Path, source: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_index(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        put(tmp_path / "nowhere", source)


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_crash_leaves_the_directory_as_before_or_after(
    directory: Path, source: Path, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = put(directory, source)
    rename, done = os.replace, 0

    def full_disk(old: Path, new: Path) -> None:
        nonlocal done
        if done == renames:
            raise OSError(errno.ENOSPC, "No space left on device")
        done += 1
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full_disk)
        if renames < 2:
            with pytest.raises(OSError, match="No space"):
                put(directory, source, 1)
            assert read_index(directory) == (first,)
        else:
            put(directory, source, 1)
    if renames < 2:  # What was left does not stand in the way of the same command.
        put(directory, source, 1)
    found = look(directory)
    assert len(found.entries) == len(found.counts) == 2 and not found.unlisted


def test_other_file_of_the_name_is_not_written_over(directory: Path, source: Path) -> None:
    own = directory / "2026-11-20T0000Z-quepid.csv"
    own.write_text("mine")
    with pytest.raises(NotAdded, match="is there already, not listed and with other bytes"):
        put(directory, source)
    assert own.read_text() == "mine"


def test_two_that_add_at_once_are_both_listed(directory: Path, source: Path) -> None:
    threads = [threading.Thread(target=put, args=(directory, source, hour)) for hour in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(look(directory).counts) == 8
