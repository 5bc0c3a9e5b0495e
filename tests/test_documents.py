"""Commands, flags, series, settings, files and paths named in the documents exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config.settings import SETTINGS
from relevanced.daemon.telemetry.families import BY_NAME
from tests.bench import findings, results
from tests.deploy.commands import parsed, served_paths

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = (
    *("README.md", ".github/CONTRIBUTING.md", "daemon/README.md"),
    *("deploy/README.md", "deploy/operations.md", "deploy/runbook.md"),
    *("deploy/privacy-and-cost.md", "deploy/doctor.md"),
)
EXAMPLE: Final = str(ROOT / "deploy/relevanced.toml")

FENCE: Final = re.compile(r"^(?:> )?```\w*\n(.*?)^```", re.M | re.S)
EVENTS: Final = re.compile(r"^```json\n(.*?)^```", re.M | re.S)
INDENTED: Final = re.compile(r"^ {4}(\S.*)$", re.M)
INLINE: Final = re.compile(r"`([^`\n]+)`")
COMMAND: Final = re.compile(r"(?:^|/)relevanced ([a-z][a-z-]*(?: [^|#>]*|$))")
RECORDED: Final = re.compile(r"\.(?:jsonl|txt|gz|test|trunc)$|FILE…|QRELS|RUN$")
FLAG: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")
SERIES: Final = re.compile(r"(?:\brelevanced_|…_)[a-z0-9_…]*[a-z0-9…]")
SETTING: Final = re.compile(r"^([a-z_]+)\.([a-z_]+)\b(?!\.)")
TARGET: Final = re.compile(r"\bmake ([a-z-]+)")
MEASURED: Final = re.compile(r"^\| (.+?) \| ([\d.]+) × \|", re.M)
POWER: Final = re.compile(r"no more than the ([\d.]+)th power")
LINK: Final = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")
FILE: Final = re.compile(
    r"^(?:(?:tests|deploy|daemon|metrics|prometheus|grafana)/[\w./*-]+|[a-z]+/[\w/]+\.(?:py|lua))$"
)
PLACEHOLDER: Final = re.compile(r"NAME|ROOM|GROUP")
"""A part of a path that the reader fills in."""
PATH: Final = re.compile(r"^/(?:livez|readyz|metrics|api/\S+)$")
FOREIGN_FLAGS: Final = frozenset(
    ("--file", "--tag", "--values", "--install", "--now")
    + ("--series-weeks", "--trials", "--require-hashes", "--no-deps", "--requirement")
    + ("--add", "--allow-principal", "--operation", "--group", "--resource-pattern-type")
)
"""Flags of Docker, Helm, pip, systemd and Kafka's tools in deploy/, and of `make bench-alerts`."""


def texts() -> list[tuple[str, str]]:
    return [(name, (ROOT / name).read_text()) for name in DOCUMENTS]


def code() -> Iterator[tuple[str, str]]:
    """(document, line) of all code, in blocks and inline."""
    for name, text in texts():
        plain = FENCE.sub("", text)
        yield from ((name, line) for block in FENCE.findall(text) for line in block.splitlines())
        yield from ((name, line) for line in INDENTED.findall(plain))
        yield from ((name, piece) for piece in INLINE.findall(plain))


def test_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run beside files of the names in them; a command may also be named without arguments."""
    monkeypatch.chdir(tmp_path)
    commands = [command for _, line in code() for command in COMMAND.findall(line.strip())]
    assert len(commands) > 12
    for command in commands:
        name, *words = shlex.split(command)
        for word in filter(RECORDED.search, words):
            (tmp_path / word).touch()
        if words:
            parsed([name, *(EXAMPLE if word.endswith(".toml") else word for word in words)])
        else:
            assert name in commands_by_name(), command


def test_the_replay_in_the_readme_is_the_output_of_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    start = text.index("    relevanced simulate --out")
    output = ""
    for line in text[start : text.index("```", start)].split("\n\n")[0].splitlines():
        output = printed_by(line)
    check_stated(FENCE.findall(text[start:])[0], output)


def test_the_events_in_the_readme_can_be_pasted_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones give the numbers that stand below them; all of them are accepted."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    command = "    relevanced replay searches.jsonl\n"
    pasted, (first, *others) = Path("searches.jsonl"), EVENTS.findall(text)
    pasted.write_text(first)
    check_stated(FENCE.findall(text[text.index(command) :])[0], printed_by(command))
    pasted.write_text(events := "".join((first, *others)))
    shown, clicks = (events.count(f'"type":"{kind}"') for kind in ("impression", "feedback"))
    whole = f"{shown} impressions: accepted {shown}\n{clicks} feedback: joined {clicks}\n"
    assert others and printed_by(command).endswith(whole)


def printed_by(line: str) -> str:
    result = CliRunner().invoke(cli, shlex.split(line)[1:])
    assert result.exit_code == 0, result.output
    return result.stdout


def check_stated(block: str, output: str) -> None:
    """Its lines in their order; `…` and the line under the heading stand for others."""
    printed = iter([" ".join(line.split()) for line in output.splitlines()])
    stated = [" ".join(line.split()) for line in block.splitlines()]
    stated = [line for line in stated if not re.fullmatch("[…─]*", line)]
    assert len(stated) > 6
    for line in stated:
        assert line in printed, line


def commands_by_name() -> dict[str, click.Command]:
    with click.Context(cli) as context:
        names = cli.list_commands(context)
        return {name: command for name in names if (command := cli.get_command(context, name))}


def flags() -> set[str]:
    """The flags of all commands, and of those in groups."""
    commands = list(commands_by_name().values())
    groups = [command for command in commands if isinstance(command, click.Group)]
    commands += [command for group in groups for command in group.commands.values()]
    parameters = [p for command in commands for p in command.params]
    return {"--help", *(flag for p in parameters for flag in (*p.opts, *p.secondary_opts))}


def test_flags_exist() -> None:
    named = {(name, flag) for name, line in code() for flag in FLAG.findall(line)}
    assert {flag for _, flag in named} >= {"--as-is", "--experiment", "--role"}
    assert not [pair for pair in named if pair[1] not in flags() | FOREIGN_FLAGS]


def test_series_exist() -> None:
    """`…` stands for any part of a name."""
    named = {(name, series) for name, line in code() for series in SERIES.findall(line)}
    existing = {f"{name}{end}" for name in BY_NAME for end in ("", "_sum", "_count", "_bucket")}
    assert len(named) > 40
    for name, series in named:
        pattern = re.compile(re.escape(series).replace("…", ".*"))
        assert any(pattern.fullmatch(one) for one in existing), (name, series)


def test_settings_exist() -> None:
    existing = {f"{setting.section}.{setting.name}" for setting in SETTINGS}
    sections = {setting.section for setting in SETTINGS}
    named = {
        (name, ".".join(match.groups()))
        for name, line in code()
        if (match := SETTING.match(line)) and match[1] in sections
    }
    assert {setting for _, setting in named} >= {"kafka.start", "worker.max_memory_mib"}
    assert not [pair for pair in named if pair[1] not in existing]


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {(name, target) for name, line in code() for target in TARGET.findall(line)}
    assert {target for _, target in named} >= {"demo", "test", "bench-alerts"}
    assert not [pair for pair in named if pair[1] not in targets]


def test_links_and_files_exist() -> None:
    for name, text in texts():
        here = (ROOT / name).parent
        for target, anchor in LINK.findall(text):
            assert (here / (target or Path(name).name)).exists(), (name, target)
            if anchor and not target:
                headings = re.findall(r"^#+ (.+)$", text, re.M)
                assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, (
                    name,
                    anchor,
                )
    for name, piece in code():
        if FILE.match(piece):
            folders = (ROOT, ROOT / "deploy", (ROOT / name).parent)
            pattern = PLACEHOLDER.sub("*", piece)
            assert any(list(folder.glob(pattern)) for folder in folders), (name, piece)


def test_the_walk_names_each_file_once() -> None:
    text = (ROOT / "daemon/README.md").read_text()
    walk = text[text.index("## One walk") : text.index("## The rules of the join")]
    named = [piece for piece in INLINE.findall(walk) if FILE.match(piece)]
    assert len(named) > 25
    assert sorted(named) == sorted(set(named))


def test_paths_are_served() -> None:
    named = {(name, piece) for name, piece in code() if PATH.match(piece) and "…" not in piece}
    assert {path for _, path in named} >= {"/livez", "/readyz", "/api/v1/openapi.json"}
    assert not [p for p in named if p[1].replace("NAME", "{experiment}") not in served_paths()]


def test_ratios_in_the_readme_are_those_measured() -> None:
    text, measured = (ROOT / "README.md").read_text(), results.read(results.RESULTS)
    assert measured is not None
    values = {f.words: findings.formatted(f.value) for f in measured.findings.values()}
    stated = dict(MEASURED.findall(text))
    assert len(stated) > 8
    assert stated == {words: values.get(words) for words in stated}
    [power] = POWER.findall(text)
    assert max(curve.slope for curve in measured.curves.values()) <= float(power)
