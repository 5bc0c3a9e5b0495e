"""Commands, flags, series, settings, files and paths named in the documents exist, what commands
print is what stands below them, and no document grows beyond its size."""

import re
import shlex
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from deploy import query_examples
from relevanced.daemon.commands.cli import cli
from relevanced.daemon.config import SETTINGS
from relevanced.daemon.telemetry import FAMILIES
from tests.bench import findings, live_cost, results, sizing
from tests.deploy.commands import parsed, served_paths
from tests.test_layout import project_files

ROOT: Final = Path(__file__).parent.parent
DOCUMENTS: Final = sorted(name for name in project_files() if name.endswith(".md"))
GUIDE: Final = "deploy/guide/"
MADE: Final = frozenset(f"{GUIDE}{name}.md" for name in ("settings", "metrics", "api"))
"""Pages that are mostly made of the code."""
VALUES: Final = "deploy/kubernetes/relevanced/README.md"
"""Of the chart, not of the configuration."""
LIMITS: Final = (
    (re.compile(r"README\.md"), 12 * 1024),
    (re.compile(r"CHANGELOG\.md"), 5 * 1024),
    (re.compile(rf"{GUIDE}.*|metrics/README\.md|\.github/.*"), 8 * 1024),
    (re.compile(r"daemon/http/runbook\.md"), 45 * 1024),
    (re.compile(r"daemon/README\.md|deploy/README\.md"), 3 * 1024),
    (re.compile(r"daemon/\w+/README\.md"), 6 * 1024),
)
"""(documents, the most bytes of each)."""
MOST_BYTES: Final = 200 * 1024
"""Of all documents together: each sentence stands once."""
EXAMPLE: Final = str(ROOT / "deploy/relevanced.toml")

FENCE: Final = re.compile(r"^(?:> )?```\w*\n(.*?)^```", re.M | re.S)
EVENTS: Final = re.compile(r"^```json\n(.*?)^```", re.M | re.S)
PIECE: Final = re.compile(
    r"`(?P<name>[\w-]+\.[a-z]+)`[^`\n]*:\n\n```\w+\n(?P<content>.*?)^```$"
    r"|(?P<commands>(?:^    (?:relevanced|curl -s) [^\n]*\n)+)\n```text\n(?P<output>.*?)^```$",
    re.M | re.S,
)
"""A file that a sentence names, or commands and what the last of them prints."""
SCRAPE: Final = re.compile(r"curl -s '?http://127.0.0.1:9465(/[^' ]+)'?(?: \| grep '(.*)')?$")
INDENTED: Final = re.compile(r"^ {4}(\S.*)$", re.M)
INLINE: Final = re.compile(r"`([^`\n]+)`")
COMMAND: Final = re.compile(r"(?:^|/)relevanced ([a-z][a-z-]*(?: [^|#>]*|$))")
RECORDED: Final = re.compile(r"\.(?:jsonl|txt|gz)$|FILE…?$|QRELS|RUN…?$")
FLAG: Final = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")
SERIES: Final = re.compile(r"(?:\brelevanced_|…_)[a-z0-9_…]*[a-z0-9…]")
SETTING: Final = re.compile(r"^([a-z_]+)\.([a-z_]+)\b(?!\.)")
TARGET: Final = re.compile(r"\bmake ([a-z-]+)")
MEASURED: Final = re.compile(r"^\| (.+?) \| ([\d.]+) × \|", re.M)
POWER: Final = re.compile(r"no more than the ([\d.]+)th power")
MODEL_ERRORS: Final = re.compile(r"fits the curves within (\d+) %, live traffic within (\d+) %")
LINK: Final = re.compile(r"\]\(([^)#\s]+)?(?:#([^)\s]+))?\)")
FILE: Final = re.compile(
    r"^(?:(?:tests|deploy|daemon|metrics|prometheus|grafana)/[\w./*-]+|[a-z]+/[\w/]+\.(?:py|lua))$"
)
PLACEHOLDER: Final = re.compile(r"NAME|ROOM|GROUP")
"""A part of a path that the reader fills in."""
PATH: Final = re.compile(r"^/(?:livez|readyz|metrics|api/\S+)$")
FOREIGN_FLAGS: Final = frozenset(
    ("--file", "--tag", "--build-arg", "--values", "--install", "--now")
    + ("--series-weeks", "--trials", "--require-hashes", "--no-deps", "--requirement")
    + ("--add", "--allow-principal", "--operation", "--group", "--resource-pattern-type")
    + ("--describe", "--members")
    + ("--alter", "--entity-type", "--entity-name", "--add-config")
    + ("--appendonly", "--daemonize", "--no-block")
)
"""Flags of Docker, Helm, pip, systemd, Redis and Kafka's tools, and of `make bench-alerts`."""


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


@pytest.mark.parametrize("name", [name for name, text in texts() if PIECE.search(text)])
def test_commands_print_what_stands_below_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of the files that the page shows before; `query_examples` has those that ask a
    daemon."""
    monkeypatch.chdir(tmp_path)
    for piece in PIECE.finditer((ROOT / name).read_text()):
        if piece["name"]:
            Path(piece["name"]).write_text(piece["content"])
            continue
        commands = [line.strip() for line in piece["commands"].splitlines()]
        if commands[-1] in query_examples.SHOWN or commands[-1].startswith("curl"):
            continue
        check_stated(piece["output"], [printed_by(command) for command in commands][-1])


def test_what_is_served_of_the_events_in_the_readme_is_what_stands_in_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("searches.jsonl").write_text(EVENTS.findall((ROOT / "README.md").read_text())[0])
    pieces = [piece for _, text in texts() for piece in PIECE.finditer(text) if piece["commands"]]
    shown = [(SCRAPE.search(piece["commands"].strip()), piece["output"]) for piece in pieces]
    asked = [(found, output) for found, output in shown if found]
    assert len(asked) > 1
    with query_examples.served("relevanced replay searches.jsonl --serve") as url:
        for found, output in asked:
            with urllib.request.urlopen(url + found[1]) as answer:
                lines = answer.read().decode().splitlines()
            pattern = found[2] or ""
            check_stated(output, "\n".join(line for line in lines if re.search(pattern, line)))


def test_the_events_of_the_guide_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / GUIDE / "events.md").read_text()
    Path("events.jsonl").write_text(EVENTS.findall(text)[0])
    output = printed_by("relevanced replay events.jsonl")
    assert output.endswith("1 impressions: accepted 1\n1 feedback: joined 1\n")


def printed_by(line: str) -> str:
    """What a command prints, also where it finds faults."""
    return CliRunner().invoke(cli, shlex.split(line)[1:]).output


def check_stated(block: str, output: str) -> None:
    """Its lines one after the other. `…` on a line of its own stands for any lines, at the end of a
    line for the rest of it."""
    printed = iter(_lines(output))
    passing = False
    for line in _lines(block):
        if line == "…":
            passing = True
            continue
        following = printed if passing else [next(printed, "nothing more")]
        assert any(_is_stated(one, line) for one in following), line
        passing = False
    assert passing or not list(printed)


def _lines(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line and not re.fullmatch("─+", line)]


def _is_stated(line: str, stated: str) -> bool:
    beginning = stated.removesuffix("…")
    return line.startswith(beginning) if beginning != stated else line == stated


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
    existing = {f"{name}{end}" for name in FAMILIES for end in ("", "_sum", "_count", "_bucket")}
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
        if name != VALUES and (match := SETTING.match(line)) and match[1] in sections
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
            linked = here / target if target else ROOT / name
            assert linked.exists(), (name, target)
            if anchor:
                assert anchor in anchors(linked.read_text()), (name, target, anchor)
    for name, piece in code():
        if FILE.match(piece):
            folders = (ROOT, ROOT / "deploy", (ROOT / name).parent)
            pattern = PLACEHOLDER.sub("*", piece)
            assert any(list(folder.glob(pattern)) for folder in folders), (name, piece)


def anchors(text: str) -> set[str]:
    """Of the headings outside of blocks."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_leads_to_every_page_of_the_guide() -> None:
    linked = {target for target, _ in LINK.findall((ROOT / "README.md").read_text())}
    pages = {name for name in DOCUMENTS if name.startswith(GUIDE)}
    assert len(pages) > 12 and pages <= linked


def test_every_test_that_holds_a_promise_exists() -> None:
    """The page of guarantees names them in each section, that of statements in each row."""
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.M)
    }
    sections = (ROOT / GUIDE / "guarantees.md").read_text().split("\n## ")[1:]
    statements = (ROOT / GUIDE / "statements.md").read_text().split("\n| `")[1:]
    assert len(statements) > 20
    for text in (*sections, *statements):
        named = {piece for piece in re.findall(r"`(test_\w+)`", text)}
        assert named and named <= defined, (text.splitlines()[0], named - defined)


def test_documents_stay_short() -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in DOCUMENTS}
    too_long = {
        name: (size, most)
        for name, size in sizes.items()
        for pattern, most in LIMITS
        if name not in MADE and pattern.fullmatch(name) and size > most
    }
    assert not too_long
    assert sum(sizes.values()) <= MOST_BYTES


def test_paths_are_served() -> None:
    named = {(name, piece) for name, piece in code() if PATH.match(piece) and "…" not in piece}
    assert {path for _, path in named} >= {"/livez", "/readyz", "/api/v1/openapi.json"}
    assert not [p for p in named if p[1].replace("NAME", "{experiment}") not in served_paths()]


def test_ratios_in_the_guide_are_those_measured() -> None:
    text, measured = (ROOT / GUIDE / "cost-and-privacy.md").read_text(), results.read(
        results.RESULTS
    )
    assert measured is not None
    values = {f.words: findings.formatted(f.value) for f in measured.findings.values()}
    stated = dict(MEASURED.findall(text))
    assert len(stated) > 8
    assert stated == {words: values.get(words) for words in stated}
    assert sizing.table(measured) in text
    [(of_curves, of_live)] = MODEL_ERRORS.findall(text)
    errors = [sizing.fit(measured.curves[name]).error for name in sizing.FITTED]
    assert max(errors) <= int(of_curves) / 100
    busy, modelled = measured.findings["live.busy"].value, sizing.size_of(live_cost.RATE, measured)
    assert modelled.cores == pytest.approx(busy, rel=int(of_live) / 100)
    [power] = POWER.findall(text)
    assert max(curve.slope for curve in measured.curves.values()) <= float(power)
