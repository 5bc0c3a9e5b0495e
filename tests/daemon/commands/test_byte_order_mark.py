"""A byte order mark before a text costs nothing, whatever reads it."""

import gzip
import json
from codecs import BOM_UTF8
from pathlib import Path

import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import read
from relevanced.daemon.http import parse
from relevanced.daemon.recompute.files import without_mark
from tests.builders import START_MS

SHOWN = {"type": "impression", "impression_id": "q", "timestamp": START_MS, "items": ["a"]}
CLICKED = SHOWN | {"type": "feedback", "kind": "click", "item": "a"}


def test_only_a_mark_at_the_start_is_removed() -> None:
    text = b"a" + BOM_UTF8
    assert without_mark(BOM_UTF8 + text) == without_mark(text) == text


@pytest.mark.parametrize("name", ["events.jsonl", "events.jsonl.gz"])
def test_first_event_of_a_recording_counts(name: str, tmp_path: Path) -> None:
    text = BOM_UTF8 + b"\n".join(json.dumps(event).encode() for event in (SHOWN, CLICKED))
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    result = CliRunner().invoke(cli, ["replay", str(tmp_path / name), "--output", "json"])
    assert result.exit_code == 0, result.output
    events = json.loads(result.stdout)["events"]
    assert (events["impressions"], events["rejected"]) == (1, {})


def test_configuration_and_its_secret_files_are_read(tmp_path: Path) -> None:
    config, secret = tmp_path / "relevanced.toml", tmp_path / "password"
    secret.write_bytes(BOM_UTF8 + b"pass")
    config.write_bytes(BOM_UTF8 + f'[redis]\npassword_file = "{secret}"'.encode())
    password = read(str(config), {}).redis.password
    assert password is not None and password.reveal() == "pass"
    result = CliRunner().invoke(cli, ["check-config", str(config)])
    assert result.exit_code == 0, result.output


def test_web_configuration_is_read() -> None:
    text = "basic_auth_users: {}\n"
    assert parse((BOM_UTF8 + text.encode()).decode()) == parse(text)
