"""The variables, paths and ports that deploy/ names exist in the program."""

import re
from collections.abc import Iterator

from relevanced.daemon.config import SETTINGS, load
from tests.deploy.chart import DEPLOY
from tests.deploy.commands import served_paths

PLACEHOLDERS = frozenset(("RELEVANCED_SECTION__KEY", "RELEVANCED_CONFIG"))
VARIABLE = re.compile(r"\bRELEVANCED_[A-Z_]*__[A-Z_]+\b|\bRELEVANCED_CONFIG\b")
OUR_PATH = re.compile(r"(?::9465|\s|`)(/(?:livez|readyz|metrics|-/\w+|api/[\w/]+))")
ADDRESS = re.compile(r"(?:relevanced|localhost|127\.0\.0\.1):(\d{4,5})\b")
GENERATED_SUFFIXES = (".json", ".png", ".pyc")
PORTS_OF_OTHER_SERVERS = frozenset("3000 6379 8080 9090 9092 9093".split())


def texts() -> Iterator[tuple[str, str]]:
    """(path, text) of every file of deploy/ that people write."""
    for path in sorted(DEPLOY.rglob("*")):
        if path.is_file() and path.suffix not in GENERATED_SUFFIXES and not path.is_symlink():
            yield str(path.relative_to(DEPLOY)), path.read_text()


def test_variables_exist() -> None:
    existing = {setting.variable for setting in SETTINGS} | PLACEHOLDERS
    named = {(name, found) for name, text in texts() for found in VARIABLE.findall(text)}
    assert {found for _, found in named} >= {"RELEVANCED_REDIS__URL"}
    assert not [pair for pair in named if pair[1] not in existing]


def test_paths_exist() -> None:
    """Those of the guide are in `tests/test_documents.py`."""
    others = [(name, text) for name, text in texts() if not name.startswith("guide/")]
    named = {(name, found) for name, text in others for found in OUR_PATH.findall(text)}
    assert {found for _, found in named} >= {"/livez", "/readyz", "/metrics"}
    assert not [pair for pair in named if pair[1].rstrip("/") not in served_paths()]


def test_ports_are_those_of_the_program_or_of_other_servers() -> None:
    port = str(load("", {}, "defaults").http.port)
    named = {(name, found) for name, text in texts() for found in ADDRESS.findall(text)}
    assert port in {found for _, found in named}
    assert not [pair for pair in named if pair[1] not in PORTS_OF_OTHER_SERVERS | {port}]
