"""`relevanced map` prints native events, and the first record of each reason of refusal."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.events import Limits, decoder
from tests.daemon.mapping.preset_records import EXAMPLES

SOURCES = f'[[sources]]\ntopic = "events"\npreset = "segment"\n{EXAMPLES["segment"].config}'


def invoked(tmp_path: Path, lines: list[Any], *options: str, sources: str = SOURCES) -> Result:
    config, events = tmp_path / "relevanced.toml", tmp_path / "events.jsonl"
    config.write_text(sources)
    events.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    command = [options[0], str(events), "--config", str(config), *options[1:]]
    return CliRunner().invoke(cli, command, env={"RELEVANCED_CONFIG": None})


def test_records_come_out_as_native_events(tmp_path: Path) -> None:
    result = invoked(tmp_path, list(EXAMPLES["segment"].records), "map")
    assert result.exit_code == 0
    read = decoder("native", Limits())
    events = [read(line.encode(), None)[0] for line in result.stdout.splitlines()]
    expected = [event for event in EXAMPLES["segment"].events if not hasattr(event, "skipped")]
    assert events[1:] == expected[1:]
    assert result.stderr.splitlines()[0] == "3 records: 1 impressions, 3 feedback"


def test_each_reason_is_printed_with_its_first_record(tmp_path: Path) -> None:
    bad = {"event": "Product List Viewed", "timestamp": "yesterday", "properties": {}}
    bad["properties"] = {"search_id": "s", "products": []}
    result = invoked(tmp_path, [{"event": "Page"}, bad, {"event": "Other"}], "map")
    assert result.exit_code == 1
    path = tmp_path / "events.jsonl"
    assert result.stderr.splitlines() == [
        "3 records: 0 impressions, 0 feedback",
        f'skipped not_mapped 2, the first in {path}, line 1:  in {{"event": "Page"}}',
        f"refused bad_timestamp 1, in {path}, line 2: sources[0].impression.time"
        " (timestamp)='yesterday': must be an ISO 8601 date-time with a zone, or s, ms or µs,"
        f" since 1970 in {json.dumps(bad)[:120]}",
        "not_mapped: no where or kinds takes event='Page' 1, event='Other' 1",
    ]


def test_what_no_table_takes_is_named_with_its_path(tmp_path: Path) -> None:
    """Names in lower case are others."""
    lines = [{"event": "product list viewed", "properties": {"search_id": "s"}}] * 3
    lines += [{"batch": [{"event": f"e{n}"} for n in range(12)]}]
    said = invoked(tmp_path, lines, "map").stderr.splitlines()[-1]
    assert said.startswith("not_mapped: no where or kinds takes event='product list viewed' 3, ")
    assert said.endswith(", and 3 more")


def test_recordings_of_kcat_are_mapped_by_topic(tmp_path: Path) -> None:
    lines = [
        {"topic": "events", "ts": 1795176010000, "payload": json.dumps(record)}
        for record in EXAMPLES["segment"].records
    ]
    result = invoked(tmp_path, lines, "map", "--kcat")
    assert result.stderr.splitlines()[0] == "3 records: 1 impressions, 3 feedback"


def test_several_sources_need_a_topic(tmp_path: Path) -> None:
    sources = SOURCES + '[[sources]]\ntopic = "others"\npreset = "native"\n'
    result = invoked(tmp_path, [], "map", sources=sources)
    assert result.exit_code == 2
    assert "Name it with --topic (events, others)" in result.stderr


def test_replay_reads_sources(tmp_path: Path) -> None:
    result = invoked(tmp_path, list(EXAMPLES["segment"].records), "replay", "--output", "json")
    assert result.exit_code == 0, result.stderr
    events = json.loads(result.stdout)["events"]
    assert events["impression_outcomes"]["accepted"] == events["impressions"] == 1
    assert events["feedback_outcomes"]["joined"] == events["feedback"] == 3


@pytest.mark.parametrize("command", ["propensities"])
def test_a_command_that_maps_nothing_says_so(command: str, tmp_path: Path) -> None:
    result = invoked(tmp_path, [], command)
    assert result.exit_code == 2
    assert "this command does not map records of other formats" in result.stderr
