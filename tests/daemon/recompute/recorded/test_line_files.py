"""Lines of files are numbered, whatever their blocks, ends and compression, and too long ones are
not kept."""

import gzip
import io
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from rich.console import Console
from rich.progress import Progress

from relevanced.daemon.recompute.files import file_and_line, line_files, lines_of, read_lines
from tests.fuzz.settings import examples

Found = list[tuple[int, int, bytes | int]]


def bars() -> Progress:
    return Progress(console=Console(file=io.StringIO(), quiet=True))


def lines(*paths: Path, most_bytes: int = 1_000) -> Found:
    """(file, line, what is in it or how long it is) of all lines."""
    found: Found = []
    for part in read_lines(list(map(str, paths)), bars(), most_bytes):
        assert len(part) == len(part.split())
        values = part.split() if part.too_long is None else [part.too_long]
        for place, value in enumerate(values, part.place):
            found.append((*file_and_line(place), value))
    return found


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes, str], Path]:
    def written(data: bytes, name: str) -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return written


def test_lines_are_numbered_in_each_file(write: Callable[[bytes, str], Path]) -> None:
    first, second = write(b"a\n\nb\n", "1"), write(gzip.compress(b"c\nd"), "2.gz")
    assert lines(first, second) == [
        (0, 1, b"a"),
        (0, 2, b""),
        (0, 3, b"b"),
        (1, 1, b"c"),
        (1, 2, b"d"),
    ]


def test_gzip_is_known_by_its_first_bytes(write: Callable[[bytes, str], Path]) -> None:
    assert lines(write(gzip.compress(b"a\nb\n"), "events.jsonl")) == [(0, 1, b"a"), (0, 2, b"b")]


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(
    name: str, write: Callable[[bytes, str], Path]
) -> None:
    data = BOM_UTF8 + b"a\n" + BOM_UTF8 + b"b\n"
    path = write(gzip.compress(data) if name == "a.gz" else data, name)
    assert lines(path) == [(0, 1, b"a"), (0, 2, BOM_UTF8 + b"b")]


def test_only_lines_that_are_not_empty_are_lines_of_text(
    write: Callable[[bytes, str], Path],
) -> None:
    path = write(b"\na\n \r\n" + b"x" * 5_000 + b"\nb", "a")
    assert list(lines_of([str(path)], bars(), 1 << 20)) == [b"a", b"x" * 5_000, b"b"]


@examples(200)
@given(
    st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"")), min_size=1, max_size=9),
    st.integers(1, 9),
    st.integers(1, 12),
)
def test_any_blocks_give_the_same_lines(
    texts: list[bytes], block_bytes: int, most_bytes: int
) -> None:
    data = b"\n".join(texts)
    splitter = line_files._Splitter(0, most_bytes)
    splitter._is_start = False
    parts = []
    for start in range(0, len(data), block_bytes):
        parts += splitter.split(data[start : start + block_bytes])
    parts += splitter.rest()
    found: dict[int, bytes | int] = {}
    for part in parts:
        values = part.split() if part.too_long is None else [part.too_long]
        found.update(enumerate(values, part.place))
    for line, text in enumerate(texts, 1):
        if text or line < len(texts):  # no line follows the last end of one
            value = found.pop(line)
            assert value == text or (value == len(text) > most_bytes)
    assert not found


def test_no_more_of_a_long_line_is_kept_than_allowed(write: Callable[[bytes, str], Path]) -> None:
    long = 3 * line_files.BLOCK_BYTES
    path = write(b"a\n" + b"x" * long + b"\nb\n" + b"y" * long, "a")
    assert lines(path, most_bytes=5) == [(0, 1, b"a"), (0, 2, long), (0, 3, b"b"), (0, 4, long)]


def test_a_cut_off_file_is_named_with_the_last_whole_line(
    write: Callable[[bytes, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_files, "BLOCK_BYTES", 100)
    path = write(gzip.compress(b"12345678\n" * 1_000, compresslevel=0)[:5_000], "a.gz")
    with pytest.raises(OSError, match="not a whole gzip file: .*after line 5[0-9][0-9]") as raised:
        lines(path)
    assert raised.value.filename == str(path)
