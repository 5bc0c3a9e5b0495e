"""What an earlier version wrote still works: its configuration, its state, a recorded file.

`compatibility/` was written by the version before the modules were moved into rooms, its state
again with version 5 of the schema, and the report since experiments count undefined lists.
`events.jsonl.gz` is recorded traffic with duplicates, disorder, orphans and bad records.
`state.json.gz` contains the state in Redis after the first `records_before` records, digests of it
and of the state after all of them, and what `relevanced replay` printed. `python -m
tests.daemon.test_compatibility` writes the state, the digests and the report anew, for a new
`SCHEMA_VERSION`.
"""

import gzip
import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config.loading import Config, read
from relevanced.daemon.events.decoder import decoder
from relevanced.daemon.storage.layouts import InForce, Layouts
from relevanced.daemon.storage.commit import ClaimedLane, confirm, plan_commit
from relevanced.daemon.storage.restore import rebuild
from relevanced.daemon.storage.schema import namespace
from tests.fakes import MemoryLane
from tests.whole_batch import process_batch

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FOLDER: Final = Path(__file__).parent / "compatibility"
WRITTEN: Final[Mapping[str, Any]] = json.loads(
    gzip.decompress((FOLDER / "state.json.gz").read_bytes())
)
RECORDS: Final = gzip.decompress((FOLDER / "events.jsonl.gz").read_bytes()).splitlines()
TOPIC: Final = "search-events"
BATCH: Final = 200
KINDS: Final = ("fields", "names", "blobs")


def configured() -> Config:
    return read(str(FOLDER / "relevanced.toml"), {})


def written_store() -> MemoryLane:
    """The state as the earlier version left it."""
    stored = WRITTEN["stored"]
    parts = ({key: b64decode(data) for key, data in stored[kind].items()} for kind in KINDS)
    return MemoryLane(*parts, stored["listed"])


def owner(store: MemoryLane, token: str) -> ClaimedLane:
    head = store.claim(token, msgspec.json.encode({TOPIC: 0}))
    return rebuild(
        0, Layouts(InForce(configured().plan)), [TOPIC], head, store.names, store.load(head)
    )


def process(store: MemoryLane, claimed: ClaimedLane, start: int, stop: int) -> None:
    """Commit the records from `start` to before `stop`, in the batches of the earlier version."""
    decode = decoder("native", configured().limits)
    for first in range(start, stop, BATCH):
        offsets = range(first, min(first + BATCH, stop))
        records = [
            SimpleNamespace(
                topic=TOPIC, partition=0, offset=n, timestamp=-1, key=b"k", value=RECORDS[n]
            )
            for n in offsets
        ]
        process_batch(claimed.lane, {TOPIC: records}, {TOPIC: offsets.stop}, decode)
        commit = plan_commit(claimed)
        assert store.commit(commit) == "applied"
        confirm(claimed, commit)


def digests(store: MemoryLane) -> dict[str, Mapping[str, object]]:
    """Of all that is stored. Compressed values count by what they contain: another version of the
    compressor may choose other bytes."""
    kinds = {
        kind: {key: sha256(plain(data).hex().encode()).hexdigest()[:16] for key, data in of.items()}
        for kind, of in zip(KINDS, (store.fields, store.names, store.blobs), strict=True)
    }
    return {**kinds, "listed": store.listed}


def plain(data: bytes) -> bytes:
    try:
        return bytes(zstd.decompress(data))
    except zstd.ZstdError:
        return data


def test_same_records_are_stored_as_the_same_bytes() -> None:
    store = MemoryLane()
    process(store, owner(store, "before"), 0, WRITTEN["records_before"])
    assert digests(store) == WRITTEN["stored_digests"]


def test_stored_state_is_read_and_continued() -> None:
    store = written_store()
    assert digests(store) == WRITTEN["stored_digests"]
    process(store, owner(store, "after"), WRITTEN["records_before"], len(RECORDS))
    assert digests(store) == WRITTEN["final_digests"]


def test_same_configuration_has_the_same_namespace() -> None:
    assert namespace(configured()) == WRITTEN["namespace"]


def test_recorded_file_gives_the_same_scores(tmp_path: Path) -> None:
    """In another order, and with more said about the events."""
    before, now = json.loads(WRITTEN["scores"]), json.loads(replayed(tmp_path, "--output", "json"))
    assert {score.pop("since") for score in now["scores"]} == {None}
    assert sorted(map(str, now.pop("scores"))) == sorted(map(str, before.pop("scores")))
    outcomes = before["events"].pop("feedback_outcomes")
    assert outcomes.items() <= now["events"]["feedback_outcomes"].items()
    assert before["events"].items() <= now["events"].items()
    assert now["as_of"] == before["as_of"]


def test_recorded_file_gives_the_same_scores_as_is(tmp_path: Path) -> None:
    """But for a column more, which is empty."""
    now = replayed(tmp_path, "--output", "csv", "--as-is").splitlines()
    before = WRITTEN["scores_as_is"].splitlines()
    assert now[0] == before[0] + ",since"
    assert sorted(now[1:]) == sorted(f"{line}," for line in before[1:])


def test_recorded_file_gives_the_same_findings(tmp_path: Path) -> None:
    """But for the sentences for people, and the last digits of floats."""
    report = replayed(tmp_path, "--experiment", "ranker-v2", "--output", "json")
    check_same(numbers(json.loads(report)), numbers(json.loads(WRITTEN["report"])))


def check_same(now: Any, before: Any, where: str = "report") -> None:
    """Floats nearly, all else exactly: numpy's logarithms differ by the instructions of the CPU."""
    assert type(now) is type(before), where
    if isinstance(now, dict):
        assert now.keys() == before.keys(), where
        for key in now:
            check_same(now[key], before[key], f"{where}.{key}")
    elif isinstance(now, list):
        assert len(now) == len(before), where
        for place, (one, other) in enumerate(zip(now, before, strict=True)):
            check_same(one, other, f"{where}[{place}]")
    elif isinstance(now, float):
        assert now == pytest.approx(before, rel=1e-9, abs=1e-12), where
    else:
        assert now == before, where


@pytest.mark.parametrize("other", [{"a": [1.0, 3]}, {"a": [1.000001, 2]}, {"a": [1.0]}, {"b": 1}])
def test_other_findings_are_told_apart(other: object) -> None:
    check_same({"a": [1.0 + 1e-12, 2]}, {"a": [1.0, 2]})
    with pytest.raises(AssertionError, match="report"):
        check_same({"a": [1.0, 2]}, other)


def numbers(report: Any) -> Any:
    """The report without its sentences; of warnings only how many there are."""
    if isinstance(report, list):
        return [numbers(element) for element in report]
    if not isinstance(report, dict):
        return report
    report["warnings"] = len(report.get("warnings", ()))
    return {key: numbers(value) for key, value in report.items() if key != "words"}


def replayed(tmp_path: Path, *arguments: str) -> str:
    """What `relevanced replay` prints of the recorded file."""
    recorded = tmp_path / "events.jsonl"
    recorded.write_bytes(b"\n".join(RECORDS) + b"\n")
    config = str(FOLDER / "relevanced.toml")
    result = CliRunner().invoke(cli, ["replay", str(recorded), "--config", config, *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def write_anew() -> None:
    """Write `state.json.gz` as this version stores it: for a new `SCHEMA_VERSION`."""
    store = MemoryLane()
    process(store, owner(store, "before"), 0, WRITTEN["records_before"])
    kinds = zip(KINDS, (store.fields, store.names, store.blobs), strict=True)
    stored = {kind: {k: b64encode(v).decode() for k, v in of.items()} for kind, of in kinds}
    written = {**WRITTEN, "stored": {**stored, "listed": dict(store.listed)}}
    written |= {"stored_digests": deepcopy(digests(store)), "namespace": namespace(configured())}
    process(store, owner(store, "after"), WRITTEN["records_before"], len(RECORDS))
    written["final_digests"] = digests(store)
    with TemporaryDirectory() as folder:
        report = ("--experiment", "ranker-v2", "--output", "json")
        written["report"] = replayed(Path(folder), *report)
    text = json.dumps(written).encode()
    (FOLDER / "state.json.gz").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    write_anew()
