"""The index of a directory: read as it is written, and every fault by line and value."""

import numpy as np
import pytest

from relevanced.daemon.judgements import (
    HOUR_MS,
    LEAD_MS,
    FaultyIndex,
    IndexEntry,
    earliest_start_ms,
    file_name,
    from_now,
    parse,
    text_of,
)

HASH = "0" * 64
GOOD = f"2026-11-20T0000Z-a.csv 2026-11-20T00:00:00Z {HASH}"
LATER = f"2026-11-20T0100Z-b.csv 2026-11-20T01:00:00Z {HASH}"


def test_index_is_read_as_written(rng: np.random.Generator) -> None:
    starts = rng.choice(400_000, 50, replace=False) * HOUR_MS + 10**12 // HOUR_MS * HOUR_MS
    entries = [
        IndexEntry(start, file_name(start, f"f{number}.csv"), bytes(rng.bytes(32)).hex())
        for number, start in enumerate(starts.tolist())
    ]
    assert parse(text_of(entries)) == sorted(entries)
    assert parse(b"") == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a.csv\n", "i:1: 'a.csv': must be 3 fields, name start SHA-256"),
        (GOOD[:-1], f"i:1: sha256='{'0' * 63}': must be 64 hexadecimal digits"),
        (GOOD.replace(HASH, "F" * 64), "must be 64 hexadecimal digits"),
        (GOOD.replace("0Z-", "0-"), "i:1: name='2026-11-20T0000-a.csv': must be a time such as"),
        (GOOD.replace("a.csv", "../a"), "letters, digits, dots, dashes and underscores"),
        (GOOD.replace("-20", "-31"), "i:1: 2026-11-31T0000: is no date and time"),
        (GOOD.replace("00:00:00Z", "00:30:00Z"), "i:1: start='2026-11-20T00:30:00Z': must be a"),
        (GOOD.replace("00:00:00Z", "01:00:00Z"), "must be the time at which 2026-11-20T0000Z-a"),
        (f"{GOOD}\n\n{LATER}", "i:2: '': must be 3 fields"),
        (f"{GOOD}\n{GOOD}", "i:2: 2026-11-20T0000Z-a.csv: is listed twice"),
        (
            f"{GOOD}\n{GOOD.replace('a.csv', 'c.csv')}",
            "i:2: 2026-11-20T0000Z-c.csv: starts when 2026-11-20T0000Z-a.csv does",
        ),
    ],
)
def test_fault_names_line_value_and_rule(text: str, fault: str) -> None:
    with pytest.raises(FaultyIndex) as raised:
        parse(text.encode(), "i")
    assert fault in str(raised.value)


def test_any_bytes_are_an_index_or_faults(rng: np.random.Generator) -> None:
    for _ in range(300):
        damaged = bytearray(f"{GOOD}\n{LATER}\n".encode())
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        try:
            parse(bytes(damaged[: int(rng.integers(len(damaged)))]))
        except FaultyIndex as error:
            assert error.faults


@pytest.mark.parametrize("name", ["", "a b.csv", "a/b", "ü.csv", "x" * 101])
def test_name_that_no_index_could_list_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be a time such as"):
        file_name(0, name)


def test_earliest_start_leaves_time_to_read_the_index(rng: np.random.Generator) -> None:
    for _ in range(200):
        now_ms, max_future_ms = (int(value) for value in rng.integers(0, 10**12, 2))
        start_ms = earliest_start_ms(now_ms, max_future_ms)
        assert start_ms % HOUR_MS == 0
        assert 0 <= start_ms - (now_ms + LEAD_MS + max_future_ms) < HOUR_MS


def test_every_process_needs_what_is_in_force_now_and_what_starts_later() -> None:
    entries = [IndexEntry(start, str(start), "") for start in (30, 10, 20)]
    assert [entry.start_ms for entry in from_now(entries, 25)] == [20, 30]
    assert [entry.start_ms for entry in from_now(entries, 20)] == [20, 30]
    assert [entry.start_ms for entry in from_now(entries, 5)] == [10, 20, 30]
    assert [entry.start_ms for entry in from_now(entries, 99)] == [30]
    assert from_now([], 5) == []
