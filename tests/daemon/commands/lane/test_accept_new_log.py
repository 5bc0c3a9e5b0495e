"""`relevanced lane accept-new-log`: what it refuses before it asks any server. On real servers,
`tests/services/test_recreated_topic.py` runs it."""

from pathlib import Path

from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from tests.services.processes import free_port

COMMAND = ["lane", "accept-new-log"]


def config(tmp_path: Path) -> list[str]:
    """A configuration without servers behind it."""
    path = tmp_path / "relevanced.toml"
    kafka = f'[kafka]\nbootstrap_servers = ["127.0.0.1:{free_port()}"]\ntopics = ["events"]\n'
    path.write_text(f'{kafka}[redis]\nurl = "redis://127.0.0.1:{free_port()}/0"\n')
    return ["--config", str(path)]


def test_a_topic_that_is_not_configured_is_bad_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*COMMAND, "other", *config(tmp_path)])
    assert result.exit_code == 2
    assert "other: not among kafka.topics (events)" in result.output


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    environment = {"RELEVANCED_KAFKA__TOPICS": '["changed"]'}
    result = CliRunner(env=environment).invoke(cli, [*COMMAND, "events", *config(tmp_path)])
    assert result.exit_code == 2
    assert "events: not among kafka.topics (changed)" in result.output


def test_without_servers_it_fails_and_says_which_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*COMMAND, "events", *config(tmp_path)])
    assert result.exit_code == 1
    assert "Redis" in result.output and "Traceback" not in result.output
