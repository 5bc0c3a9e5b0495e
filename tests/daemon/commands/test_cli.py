"""The command line: the arguments of each command, what it prints, and its exit code."""

import json
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from relevanced.daemon.commands import options
from relevanced.daemon.commands.cli import LAZY_COMMANDS, ORDER, cli
from relevanced.daemon.config import Config
from relevanced.daemon.judgements import add, read_classes, start_text
from relevanced.daemon.panes import HOUR_MS
from relevanced.daemon.recompute.over_time_output import LATEST_MS, SCORES, Asked
from relevanced.daemon.recompute.replay_files import DEFAULT_PORT
from relevanced.daemon.tools.traffic import SendingSpan, span_of

HEAVY = ("numpy", "aiokafka", "redis", "aiohttp", "msgspec", "rich", "structlog")
START = "2026-11-20T12:00:00Z"


def relevanced(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env=environment)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments that the functions behind the commands got; each of them returns 1."""
    calls: list[Any] = []

    def answer(*arguments: Any, **named: Any) -> int:
        calls.append((arguments, named))
        return 1

    for name in ("commands.run", "tools.demonstration", "recompute.replay_files"):
        module = SimpleNamespace(
            run=answer,
            demo=answer,
            replay=answer,
            Asked=Asked,
            DEFAULT_PORT=DEFAULT_PORT,
            LATEST_MS=LATEST_MS,
        )
        monkeypatch.setitem(sys.modules, f"relevanced.daemon.{name}", module)
    return calls


def config_file(folder: Path, text: str, name: str = "config.toml") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_help_names_every_command_without_loading_any() -> None:
    code = (
        "import sys; from click.testing import CliRunner\n"
        "from relevanced.daemon.commands.cli import cli\n"
        "print(CliRunner().invoke(cli, ['--help']).output)\n"
        f"print('loaded:', [name for name in {HEAVY} if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.endswith("loaded: []\n")
    assert all(f"\n  {name} " in answer.stdout for name in ORDER)


@pytest.mark.parametrize("command", ORDER)
def test_every_command_has_help(command: str) -> None:
    result = relevanced(command, "--help")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: cli {command}")


def test_commands_are_listed_once() -> None:
    assert set(ORDER) == set(LAZY_COMMANDS) | set(cli.commands)


def test_module_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "relevanced.daemon", "--version"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.stdout.startswith("relevanced, version ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["run", "--role", "boss"],
        ["run", "--config", "missing.toml"],
        ["replay"],
        ["replay", "missing.jsonl"],
        ["replay", "--kafka", "--from", START],
        ["replay", "--kafka", "--from", START, "--to", START],
        ["replay", "--kafka", "--from", START, "--to", "2026-11-20T12:30:00Z"],
        ["replay", "--kafka", "--from", START, "--to", "2026-11-21T00:00:00Z", "--changes"],
        ["replay", "--from", START, "--to", "2026-11-21T00:00:00Z"],
        ["verify", "--lane", "-1"],
        ["verify", "--parallel", "0"],
        ["verify", "--config", "missing.toml"],
        ["check-config"],
        ["simulate"],
        ["simulate", "--out", "x.jsonl"],
        ["simulate", "--out", "x", "--kafka", "a:1"],
        ["simulate", "--kafka", "a:1", "--start", START],
        ["simulate", "--kafka", "a"],
        ["simulate", "--out", "x", "--backfill", "1 hour"],
        ["simulate", "--out", "x", "--start", "2026-11-20T12:00:00"],
        ["simulate", "--out", "x", "--backfill", "1h", "--effect", "0.9"],
        ["simulate", "--out", "x", "--backfill", "1h", "--regression-segment", "country=XX"],
        ["simulate", "--out", "x", "--backfill", "1h", "--regression-segment", "DE"],
    ],
)
def test_bad_usage_exits_2(arguments: list[str]) -> None:
    result = relevanced(*arguments)
    assert result.exit_code == 2
    assert result.stderr
    assert not result.stdout


def test_run_passes_the_configuration_and_the_role(given: list[Any], tmp_path: Path) -> None:
    file = config_file(tmp_path, 'windows = ["10m"]')
    result = relevanced("run", "--config", file, "--role", "worker", RELEVANCED_LOG__LEVEL="error")
    (config, role), _ = given[0]
    assert (config.windows, config.log.level, role) == ((("10m", 600),), "error", "worker")
    assert result.exit_code == 1


def test_configuration_file_may_come_from_a_variable(given: list[Any], tmp_path: Path) -> None:
    relevanced("run", RELEVANCED_CONFIG=config_file(tmp_path, 'windows = ["10m"]'))
    assert given[0][0][0].windows == (("10m", 600),)


def test_demo_passes_seconds(given: list[Any]) -> None:
    relevanced("demo", "--port", "0", "--regression-after", "2m", "--duration", "90s")
    expected = {"port": 0, "seed": 1, "rate": 100, "regression_after_s": 120, "max_seconds": 90}
    assert given == [((), expected | {"repair_after_s": 360})]


def test_demo_repairs_never_after_0_seconds(given: list[Any]) -> None:
    relevanced("demo", "--repair-after", "90s")
    relevanced("demo", "--repair-after", "0s")
    assert [named["repair_after_s"] for _, named in given] == [90, None]


def test_replay_takes_the_format_from_the_command(given: list[Any], tmp_path: Path) -> None:
    file = config_file(tmp_path, "", "events.jsonl")
    relevanced("replay", file, file, "--format", "ubi", "--output", "json", "--as-is")
    (paths, config, output, asked), named = given[0]
    assert (paths, config.events.format, output) == ([file, file], "ubi", "json")
    assert asked == SCORES and named == {
        "as_is": True,
        "progress": False,
        "kcat": False,
        "topic": None,
    }


def test_replay_takes_buckets_and_a_span(given: list[Any], tmp_path: Path) -> None:
    file = config_file(tmp_path, "", "events.jsonl")
    relevanced("replay", file, "--every", "10m", "--from", "1970-01-01T00:00:01Z")
    relevanced("replay", file, "--changes", "--to", "1970-01-01T00:00:02Z")
    every, changes = (arguments[3] for arguments, _ in given)
    assert every == Asked(every_ms=600_000, from_ms=1_000)
    assert changes == Asked(changes=True, to_ms=2_000) and changes.bucket_ms == 60_000


def test_replay_takes_a_port_and_a_picture(given: list[Any], tmp_path: Path) -> None:
    file = config_file(tmp_path, "", "events.jsonl")
    relevanced("replay", file, "--serve")
    relevanced("replay", file, "--serve", "--port", "0")
    relevanced("replay", file, "--plot", "x.svg")
    served, anywhere, drawn = (arguments[3] for arguments, _ in given)
    assert served == Asked(serve_at=DEFAULT_PORT) and anywhere == Asked(serve_at=0)
    assert drawn == Asked(plot="x.svg") and drawn.bucket_ms == 600_000


def test_faults_exit_2_and_are_printed_to_the_error_stream(
    given: list[Any], tmp_path: Path
) -> None:
    file = config_file(tmp_path, '[log]\nlevel = "loud"\nformat = "loud"')
    for arguments in (["run", "--config", file], ["check-config", file]):
        result = relevanced(*arguments)
        assert (result.exit_code, result.stdout, given) == (2, "", [])
        assert [line.partition("=")[0] for line in result.stderr.splitlines()] == [
            "log.level",
            "log.format",
        ]


def test_check_config_prints_toml_without_secrets(tmp_path: Path) -> None:
    file = config_file(tmp_path, '[redis]\npassword = "hunter2"')
    result = relevanced("check-config", file)
    printed = tomllib.loads(result.stdout)
    assert result.exit_code == 0
    assert printed["redis"]["password"] == "***"
    assert printed["attribution"]["grades"] == Config().attribution.grades
    assert "namespace in Redis: relevanced-" in result.stdout


def test_check_in_place_without_redis_names_the_way_out(tmp_path: Path) -> None:
    file = config_file(tmp_path, '[redis]\nurl = "redis://127.0.0.1:1"')
    result = relevanced("check-config", "--in-place", file)
    assert result.exit_code == 1
    assert "--in-place: Redis: " in result.output and "upgradeCheck.enabled=false" in result.output


def test_check_config_states_what_a_change_restarts(tmp_path: Path) -> None:
    old = config_file(tmp_path, "", "old.toml")
    new = config_file(tmp_path, '[attribution]\nwindow = "1h"\n[log]\nlevel = "debug"')
    result = relevanced("check-config", new, "--against", old)
    assert '# attribution.window: "30m" -> "1h" (starts a fresh namespace)' in result.stdout
    assert '# log.level: "info" -> "debug"\n' in result.stdout
    assert "\n# fresh namespace: relevanced-" in result.stdout
    assert relevanced("check-config", old, "--against", old).stdout.endswith("# no difference\n")


def test_check_config_names_each_changed_setting_of_an_experiment(tmp_path: Path) -> None:
    """Also those under which it goes on."""
    section = "[experiments.ranker-v2]\n"
    old = config_file(tmp_path, section, "old.toml")
    changed = 'end = 2026-11-20T00:00:00Z\nweights = { control = 19, treatment = 1 }\nunit = "a"'
    new = config_file(tmp_path, section + changed)
    lines = relevanced("check-config", new, "--against", old).stdout.splitlines()
    assert "# experiments.ranker-v2.end: not set -> 2026-11-20T00:00:00.000Z" in lines
    weights = [
        line for line in lines if line.startswith("# experiments.ranker-v2.weights: {} -> {")
    ]
    assert len(weights) == 1 and "# experiments.ranker-v2: starts to count anew" in lines
    assert '# experiments.ranker-v2.unit: "user_id" -> "a"' in lines
    assert "# no difference" not in lines


def test_a_file_does_not_differ_from_itself_where_it_drops_events(tmp_path: Path) -> None:
    file = config_file(
        tmp_path,
        """[[sources]]
topic = "a"
preset = "segment"
[sources.impression]
id = "properties.search_id"
[sources.feedback]
id = "properties.search_id"
[[sources.drop]]
reason = "bots"
where = "context.bot"
""",
    )
    assert relevanced("check-config", file, "--against", file).stdout.endswith("# no difference\n")


@pytest.mark.parametrize(
    ("text", "verdict"),
    [('[log]\nlevel = "debug"', "namespace stays"), ('[redis]\nnamespace = "b"', "fresh name")],
)
def test_check_config_gives_a_verdict(tmp_path: Path, text: str, verdict: str) -> None:
    old = config_file(tmp_path, "", "old.toml")
    result = relevanced("check-config", config_file(tmp_path, text), "--against", old)
    assert verdict in result.stdout.splitlines()[-1]


def refusal(config: str) -> str:
    """What `check-config` says of a faulty configuration."""
    refused = relevanced("check-config", config)
    assert refused.exit_code == 2 and not refused.stdout
    return refused.stderr


def test_check_config_says_which_judgements_are_in_force(tmp_path: Path) -> None:
    directory, grades = tmp_path / "judgements", tmp_path / "grades.csv"
    directory.mkdir()
    config = config_file(tmp_path, f'[judgements]\ndirectory = "{directory}"\n')
    assert "# judgements: the index lists no file" in relevanced("check-config", config).stdout
    grades.write_text("query,docid,rating\nred shoes,d1,3\n")
    now_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
    coming = add(directory, grades, now_ms + 2 * HOUR_MS, 0)[0]
    assert "# judgements: no file is in force yet" in relevanced("check-config", config).stdout
    for back in (3, 2, 1):
        current = add(directory, grades, now_ms - back * HOUR_MS, 0)[0]
    lines = relevanced("check-config", config).stdout.splitlines()
    found = [line for line in lines if line.startswith("# judgements: ")]
    assert len(found) == 3 and found[2] == "# judgements: 2 earlier, for late events only"
    assert found[0].startswith(f"# judgements: {current.name}: in force from ")
    assert found[0].endswith(f"1 query, 1 judgement, until {start_text(coming.start_ms)}")
    assert found[1].startswith(f"# judgements: {coming.name}: ") and "until" not in found[1]
    (directory / coming.name).write_text("query,docid,rating\nred")
    assert f"{directory / coming.name}: sha256=" in refusal(config)
    with (directory / "index").open("ab") as index:
        index.write(b"half\n")
    assert f"{directory / 'index'}:5: 'half': must be 3 fields" in refusal(config)
    elsewhere = relevanced("check-config", config, "--no-secret-files")
    assert elsewhere.exit_code == 0 and "# judgements: " not in elsewhere.stdout


def test_check_config_says_which_classes_are_in_force(tmp_path: Path) -> None:
    directory, classes = tmp_path / "classes", tmp_path / "classes.csv"
    directory.mkdir()
    text = '[segments]\ngroupings = [["tier"]]\n[[derive]]\nattribute = "tier"\nfrom = "query"\n'
    text += f'directory = "{directory}"\n'
    config = config_file(tmp_path, text)
    classes.write_text("query,class\nred shoes,head\n")
    now_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
    entry = add(directory, classes, now_ms - HOUR_MS, 0, read_classes)[0]
    lines = relevanced("check-config", config).stdout.splitlines()
    found = f"# classes of tier: {entry.name}: in force from "
    (line,) = [line for line in lines if line.startswith("# classes of ")]
    assert line.startswith(found) and line.endswith(", 1 query head")
    (directory / entry.name).write_text("query,class\nred shoes,tail\n")
    assert entry.name in refusal(config)


def test_check_config_names_the_file_of_each_fault(tmp_path: Path) -> None:
    old = config_file(tmp_path, "a = 1", "old.toml")
    new = config_file(tmp_path, "b = 1", "new.toml")
    result = relevanced("check-config", new, "--against", old)
    assert result.stderr == f"{new}: b: unknown key\n{old}: a: unknown key\n"


def test_check_config_leaves_secret_files_unread(tmp_path: Path) -> None:
    file = config_file(tmp_path, '[redis]\npassword_file = "/missing"')
    assert relevanced("check-config", file).exit_code == 2
    assert relevanced("check-config", "--no-secret-files", file).exit_code == 0


def test_simulate_writes_the_same_file_again(tmp_path: Path) -> None:
    out = tmp_path / "events.jsonl"
    arguments = ["simulate", "--out", str(out), "--backfill", "1m", "--start", START]
    result = relevanced(*arguments)
    written = out.read_bytes()
    assert (result.exit_code, relevanced(*arguments).exit_code) == (0, 0)
    assert written == out.read_bytes()
    events = [json.loads(line) for line in written.splitlines()]
    assert f"{len(events):,} events sent" in result.stderr
    assert events[0]["timestamp"] // 60_000 == events[-1]["timestamp"] // 60_000 == 29_919_600


def test_simulate_names_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    result = relevanced("simulate", "--out", str(tmp_path / "no" / "x"), "--backfill", "1m")
    assert result.exit_code == 1
    assert "No such file" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_simulate_ends_cleanly_on_a_signal(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "relevanced.daemon", "simulate", "--out", "-"]
    with subprocess.Popen(
        [*command, "--duration", "1000h"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors.decode().endswith(" events sent\n")
    assert output.endswith(b"}\n")


@pytest.mark.parametrize(
    ("start_ms", "backfill_ms", "duration_ms", "paced", "expected"),
    [
        (None, 0, None, True, SendingSpan(100, 100, None, True)),
        (None, 30, None, True, SendingSpan(70, 100, None, True)),
        (None, 30, 0, True, SendingSpan(70, 100, 100, True)),
        (None, 0, 50, True, SendingSpan(100, 100, 150, True)),
        (None, 30, None, False, SendingSpan(70, 100, 100, False)),
        (5, 30, 50, False, SendingSpan(5, 35, 85, False)),
    ],
)
def test_history_comes_before_the_present(
    start_ms: int | None,
    backfill_ms: int,
    duration_ms: int | None,
    paced: bool,
    expected: SendingSpan,
) -> None:
    assert span_of(100, start_ms, backfill_ms, duration_ms, paced) == expected


def test_backfill_waits_for_kafka_and_live_traffic_until_its_end() -> None:
    assert span_of(100, None, 30, 0, True).waits_until_ms is None
    assert span_of(100, None, 30, 50, True).waits_until_ms == 150
    assert span_of(100, None, 30, None, True).waits_until_ms is None


def test_fault_of_an_option_names_the_option(tmp_path: Path) -> None:
    file = config_file(tmp_path, "", "events.jsonl")
    result = relevanced("replay", file, "--format", "ubii", RELEVANCED_EVENTS__FORMAT="native")
    assert result.stderr == "events.format=ubii: must be one of native, ubi (from --format)\n"
    result = relevanced("simulate", "--kafka", "here")
    assert "kafka.bootstrap_servers=here: must be host:port (from --kafka)" in result.stderr


def test_invalid_values_of_options_state_their_rule() -> None:
    assert options.segment("country=DE, device=ios") == {"country": "DE", "device": "ios"}
    assert options.instant("1970-01-01T01:00:00+01:00") == 0
    with pytest.raises(click.BadParameter, match="x: must be a time with its zone"):
        options.instant("x")


def test_a_machine_without_a_place_for_temporary_files_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/nowhere"])
    result = relevanced("demo")
    said = "No usable temporary directory found in ['/proc/nowhere']: give one that is writable"
    assert result.exit_code == 1
    assert result.stderr == f"Error: {said}: TMPDIR=/PATH before the command\n"
