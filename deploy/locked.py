"""The lock: .constraints.txt, with every package that any extra needs, its version and its hashes.

    python deploy/locked.py requirements [EXTRA …]    # what `pip install --require-hashes` takes
    python deploy/locked.py clean FILE                # pip-compile's output as the lock

The standard library only: it runs before anything is installed. pip refuses hashes in the
constraints of a project folder, which has none itself; so the packages are installed first, then
the project.
"""

import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / ".constraints.txt"
PROJECT: Final = "relevanced"
HEADER: Final = (
    "# The versions that the tests have seen, with the hashes of all their files; made by make"
    " lock.\n"
)
_ENTRY: Final = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]+?))? \\$"
)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAME: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Package:
    """One package of the lock."""

    name: str
    version: str
    marker: str
    """Where it is needed, as in a requirement; empty: everywhere."""
    hashes: tuple[str, ...]
    """SHA-256 of each file of this version, in hexadecimal."""
    via: frozenset[str]
    """The packages that need it, among them perhaps this project."""

    def requirement(self) -> str:
        """The requirement with its hashes."""
        marker = f" ; {self.marker}" if self.marker else ""
        hashes = "".join(f" \\\n    --hash=sha256:{found}" for found in self.hashes)
        return f"{self.name}=={self.version}{marker}{hashes}\n"

    def text(self) -> str:
        """The requirement, and what needs it."""
        return f"{self.requirement()}    # via {', '.join(sorted(self.via))}\n"


def packages(text: str) -> Iterator[Package]:
    """The packages of a lock, or of the output of pip-compile."""
    for block in re.split(r"\n(?=[\w.-]+(?:==| @ ))", f"\n{text}"):
        head, _, rest = block.strip("\n").partition("\n")
        found = _ENTRY.match(head)
        if found is None or canonical(found["name"]) == PROJECT:
            continue
        comments = " ".join(re.findall(r"^ +# *(.*)$", rest, re.MULTILINE))
        via = re.sub(r"\([^)]*\)|^via | -[cr] \S+", " ", f" {comments} ".replace(" via ", " "))
        yield Package(
            canonical(found["name"]),
            found["version"],
            found["marker"] or "",
            tuple(_HASH.findall(rest)),
            frozenset(canonical(name) for name in _NAME.findall(via)),
        )


def canonical(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(project: Mapping[str, object], extras: Iterable[str]) -> frozenset[str]:
    """The packages that the project itself and these extras name."""
    optional = project["optional-dependencies"]
    lists: list[object] = [project["dependencies"]]
    assert isinstance(optional, dict)
    waiting, seen = list(extras), set[str]()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        own = [line for line in optional[extra] if not line.startswith(f"{PROJECT}[")]
        waiting += [
            name
            for line in optional[extra]
            if line not in own
            for name in re.findall(r"[\w-]+", line.partition("[")[2])
        ]
        lists.append(own)
    names = [_NAME.match(line) for part in lists if isinstance(part, list) for line in part]
    return frozenset(canonical(found[0]) for found in names if found)


def needed(locked: Collection[Package], names: Collection[str]) -> list[Package]:
    """These packages, and all that they need. Raises ValueError for one that is not in the lock."""
    missing = set(names) - {package.name for package in locked}
    if missing:
        raise ValueError(f"{', '.join(sorted(missing))}: not in {LOCK.name}: run make lock")
    found = set(names)
    while True:
        more = {package.name for package in locked if package.via & found} - found
        if not more:
            return [package for package in locked if package.name in found]
        found |= more


def project() -> Mapping[str, object]:
    """The table `project` of pyproject.toml."""
    table: Mapping[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


def main(command: str, *arguments: str) -> str:
    """The text that a command prints."""
    if command == "clean":
        (path,) = arguments
        return HEADER + "".join(package.text() for package in packages(Path(path).read_text()))
    locked = list(packages(LOCK.read_text()))
    wanted = needed(locked, direct(project(), arguments))
    return "".join(package.requirement() for package in wanted)


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]))
