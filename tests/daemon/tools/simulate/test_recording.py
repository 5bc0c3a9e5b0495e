"""`simulate --kcat` writes what `kcat -J` would have read of the topic."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from relevanced.daemon.kafka import PARTITIONERS
from relevanced.daemon.recompute.files import RecordedRecord, record_of
from relevanced.daemon.tools.simulate import simulate_command

GIVEN = "--start 2026-11-20T12:00:00Z --duration 2m --rate 5 --topic shop"


def written(path: Path, *more: str) -> list[bytes]:
    result = CliRunner().invoke(simulate_command, [*GIVEN.split(), "--out", str(path), *more])
    assert result.exit_code == 0, result.output
    return path.read_bytes().splitlines()


def recorded(path: Path, *more: str) -> list[RecordedRecord]:
    return [record_of(line) for line in written(path, "--kcat", *more)]


def test_values_are_those_of_the_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    plain, records = written(path), recorded(path)
    assert len(plain) > 100 and [record.value for record in records] == plain
    assert {record.topic for record in records} == {"shop"}
    assert [r.timestamp for r in records] == sorted(r.timestamp for r in records)


def test_keys_stand_in_the_partitions_of_the_java_client(tmp_path: Path) -> None:
    records = recorded(tmp_path / "shop.jsonl", "--partitions", "3")
    keys = [record.key or b"" for record in records]
    assert [r.partition for r in records] == [PARTITIONERS["murmur2"](key) % 3 for key in keys]
    for partition in range(3):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(len(offsets))) and offsets


def test_both_topics_of_algolia_are_of_one_traffic(tmp_path: Path) -> None:
    parts = [
        recorded(tmp_path / "shop.jsonl", "--format", name)
        for name in ("algolia-search-log", "algolia-insights")
    ]
    whole = recorded(tmp_path / "shop.jsonl")
    assert all(parts) and sum(map(len, parts)) == len(whole)
    assert {record.key for record in parts[1]} <= {record.key for record in whole}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--kafka", "localhost:1", "--kcat"], "--kcat: only allowed with --out"),
        (["--out", "x", "--duration", "1s", "--format", "algolia-insights"], "one of two topics"),
    ],
)
def test_what_cannot_be_written_is_a_wrong_call(given: list[str], says: str) -> None:
    result = CliRunner().invoke(simulate_command, given)
    assert result.exit_code == 2 and says in result.output
