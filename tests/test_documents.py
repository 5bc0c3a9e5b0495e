"""What the READMEs and the runbook name, there is: commands, flags, series, settings, paths."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config.settings import SETTINGS
from relevanced.daemon.telemetry.families import BY_NAME
from tests.bench import findings, results
from tests.deploy.commands import parsed, served_paths

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = (
    *("README.md", ".github/CONTRIBUTING.md", "daemon/README.md"),
    *("deploy/README.md", "deploy/runbook.md"),
)
EXAMPLE: Final = str(ROOT / "deploy/relevanced.toml")

FENCE: Final = re.compile(r"^(?:> )?```\w*\n(.*?)^```", re.M | re.S)
INDENTED: Final = re.compile(r"^ {4}(\S.*)$", re.M)
INLINE: Final = re.compile(r"`([^`\n]+)`")
COMMAND: Final = re.compile(r"(?:^|/)relevanced ([a-z][a-z-]*(?: [^|#>]*|$))")
RECORDED: Final = re.compile(r"\.(?:jsonl|txt|gz)$|FILE…|QRELS|RUN$")
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
"""Stands for whatever the reader adds."""
PATH: Final = re.compile(r"^/(?:livez|readyz|metrics|api/\S+)$")
OF_OTHERS: Final = frozenset(
    ("--file", "--tag", "--values", "--install", "--constraint", "--now")
    + ("--series-weeks", "--trials")
)
"""Flags of Docker, Helm, pip and systemd in deploy/README.md, and of `make bench-alerts`."""


def texts() -> list[tuple[str, str]]:
    return [(name, (ROOT / name).read_text()) for name in DOCUMENTS]


def code() -> Iterator[tuple[str, str]]:
    """What stands as code, a line each, by its document."""
    for name, text in texts():
        plain = FENCE.sub("", text)
        yield from ((name, line) for block in FENCE.findall(text) for line in block.splitlines())
        yield from ((name, line) for line in INDENTED.findall(plain))
        yield from ((name, piece) for piece in INLINE.findall(plain))


def test_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside files of the names that they show. One without arguments may be named alone."""
    monkeypatch.chdir(tmp_path)
    commands = [found for _, line in code() for found in COMMAND.findall(line.strip())]
    assert len(commands) > 12
    for command in commands:
        name, *words = shlex.split(command)
        for word in filter(RECORDED.search, words):
            (tmp_path / word).touch()
        if words:
            parsed([name, *(EXAMPLE if word.endswith(".toml") else word for word in words)])
        else:
            assert name in commands_by_name(), command


def commands_by_name() -> dict[str, click.Command]:
    with click.Context(cli) as context:
        names = cli.list_commands(context)
        return {name: command for name in names if (command := cli.get_command(context, name))}


def flags() -> set[str]:
    """Of all commands of the program."""
    given = [one for command in commands_by_name().values() for one in command.params]
    return {"--help", *(flag for one in given for flag in (*one.opts, *one.secondary_opts))}


def test_flags_exist() -> None:
    named = {(name, flag) for name, line in code() for flag in FLAG.findall(line)}
    assert {flag for _, flag in named} >= {"--as-is", "--experiment", "--role"}
    assert not [one for one in named if one[1] not in flags() | OF_OTHERS]


def test_series_exist() -> None:
    """`…` stands for any part of a name."""
    named = {(name, found) for name, line in code() for found in SERIES.findall(line)}
    known = {f"{name}{end}" for name in BY_NAME for end in ("", "_sum", "_count", "_bucket")}
    assert len(named) > 40
    for name, series in named:
        pattern = re.compile(re.escape(series).replace("…", ".*"))
        assert any(pattern.fullmatch(one) for one in known), (name, series)


def test_settings_exist() -> None:
    known = {f"{one.section}.{one.name}" for one in SETTINGS}
    sections = {one.section for one in SETTINGS}
    named = {
        (name, ".".join(found.groups()))
        for name, line in code()
        if (found := SETTING.match(line)) and found[1] in sections
    }
    assert {setting for _, setting in named} >= {"kafka.start", "worker.max_memory_mib"}
    assert not [one for one in named if one[1] not in known]


def test_targets_of_make_exist() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {(name, target) for name, line in code() for target in TARGET.findall(line)}
    assert {target for _, target in named} >= {"demo", "test", "bench-alerts"}
    assert not [one for one in named if one[1] not in made]


def test_links_and_files_lead_somewhere() -> None:
    for name, text in texts():
        here = (ROOT / name).parent
        for target, anchor in LINK.findall(text):
            assert (here / (target or Path(name).name)).exists(), (name, target)
            if anchor and not target:
                headings = re.findall(r"^#+ (.+)$", text, re.M)
                assert anchor in {one.lower().replace(" ", "-") for one in headings}, (name, anchor)
    for name, piece in code():
        if FILE.match(piece):
            places = (ROOT, ROOT / "deploy", (ROOT / name).parent)
            pattern = PLACEHOLDER.sub("*", piece)
            assert any(list(place.glob(pattern)) for place in places), (name, piece)


def test_the_walk_names_each_file_once() -> None:
    text = (ROOT / "daemon/README.md").read_text()
    walk = text[text.index("## One walk") : text.index("## The rules of the join")]
    named = [piece for piece in INLINE.findall(walk) if FILE.match(piece)]
    assert len(named) > 25
    assert sorted(named) == sorted(set(named))


def test_paths_are_served() -> None:
    named = {(name, piece) for name, piece in code() if PATH.match(piece) and "…" not in piece}
    assert {path for _, path in named} >= {"/livez", "/readyz", "/api/v1/openapi.json"}
    assert not [one for one in named if one[1] not in served_paths()]


def test_the_readme_says_what_was_measured() -> None:
    text, kept = (ROOT / "README.md").read_text(), results.read(results.RESULTS)
    assert kept is not None
    found = {one.words: findings.formatted(one.value) for one in kept.findings.values()}
    told = dict(MEASURED.findall(text))
    assert len(told) > 8
    assert told == {words: found.get(words) for words in told}
    [power] = POWER.findall(text)
    assert max(curve.slope for curve in kept.curves.values()) <= float(power)
