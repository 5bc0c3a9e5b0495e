"""Whatever deploy/ names of the program, the program has: variables, commands, flags, paths."""

import re
import shlex
from collections.abc import Iterator

from relevanced.daemon.config.loading import load
from relevanced.daemon.config.settings import SETTINGS
from tests.deploy.chart import DEPLOY
from tests.deploy.commands import parsed, served_paths

EXAMPLE = str(DEPLOY / "relevanced.toml")
PLACEHOLDERS = frozenset(("RELEVANCED_SECTION__KEY", "RELEVANCED_CONFIG"))
VARIABLE = re.compile(r"\bRELEVANCED_[A-Z_]*__[A-Z_]+\b|\bRELEVANCED_CONFIG\b")
COMMAND = re.compile(r"^(?:\S*/)?relevanced ([a-z-]+(?: [^|#>`\n]*)?)", re.M)
CODE = re.compile(r"^ {4}(.+)$|`([^`\n]+)`", re.M)
OUR_PATH = re.compile(r"(?::9465|\s|`)(/(?:livez|readyz|metrics|-/\w+|api/[\w/]+))")
ADDRESS = re.compile(r"(?:relevanced|localhost|127\.0\.0\.1):(\d{4,5})\b")
NOT_BY_HAND = (".json", ".png", ".pyc")
PORTS_OF_OTHERS = frozenset("3000 6379 9090 9092 9093".split())


def texts() -> Iterator[tuple[str, str]]:
    """Every file of deploy/ that people write, by its path."""
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and path.suffix not in NOT_BY_HAND and not path.is_symlink():
            yield str(path.relative_to(DEPLOY)), path.read_text()


def typed(text: str) -> str:
    """What a README shows to be typed: its code, in blocks and in lines."""
    return "\n".join(block or inline for block, inline in CODE.findall(text))


def test_variables_exist() -> None:
    known = {setting.variable for setting in SETTINGS} | PLACEHOLDERS
    named = {(name, found) for name, text in texts() for found in VARIABLE.findall(text)}
    assert {found for _, found in named} >= {"RELEVANCED_REDIS__URL"}
    assert not [pair for pair in named if pair[1] not in known]


def test_paths_exist() -> None:
    named = {(name, found) for name, text in texts() for found in OUR_PATH.findall(text)}
    assert {found for _, found in named} >= {"/livez", "/readyz", "/metrics"}
    assert not [pair for pair in named if pair[1].rstrip("/") not in served_paths()]


def test_ports_are_the_program_s_or_known() -> None:
    port = str(load("", {}, "defaults").http.port)
    named = {(name, found) for name, text in texts() for found in ADDRESS.findall(text)}
    assert port in {found for _, found in named}
    assert not [pair for pair in named if pair[1] not in PORTS_OF_OTHERS | {port}]


def test_commands_that_are_to_be_typed_exist() -> None:
    commands = COMMAND.findall(typed((DEPLOY / "README.md").read_text()))
    assert commands
    for command in commands:
        words = [EXAMPLE if word.endswith(".toml") else word for word in shlex.split(command)]
        assert parsed(words).info_name == words[0]
