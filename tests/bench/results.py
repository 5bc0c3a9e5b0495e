"""The results of the benchmark as a JSON file, with which later runs are compared."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.findings import Curve, Finding, PartResult, together

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results.json"
PLOT: Final = HERE / "growth.svg"


@dataclass(frozen=True)
class Results:
    """The results of the last run of each part at full scale."""

    cores: int
    python: str
    findings: dict[str, Finding] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    """Part → notes on what could not be measured."""
    names_by_part: dict[str, list[str]] = field(default_factory=dict)
    """Part → names of its findings and curves, to remove those that it no longer has."""


def merged(stored: Results | None, found: Mapping[str, PartResult]) -> Results:
    """The stored results, updated with the results of these parts."""
    results = Results(os.cpu_count() or 0, platform.python_version())
    if stored is not None:
        results.findings.update(stored.findings)
        results.curves.update(stored.curves)
        results.notes.update(stored.notes)
        results.names_by_part.update(stored.names_by_part)
    for part, result in found.items():
        for name in results.names_by_part.get(part, ()):
            results.findings.pop(name, None)
            results.curves.pop(name, None)
        results.names_by_part[part] = [named.name for named in (*result.findings, *result.curves)]
        results.findings.update({finding.name: finding for finding in result.findings})
        results.curves.update({curve.name: curve for curve in result.curves})
        results.notes[part] = list(result.notes)
    return results


def combined(runs: Sequence[Results]) -> Results:
    """The results of several runs as one: of each part, the runs that measured it."""
    parts = dict.fromkeys(part for run in runs for part in run.names_by_part)
    return merged(
        None,
        {
            part: together([_part(run, part) for run in runs if part in run.names_by_part])
            for part in parts
        },
    )


def _part(run: Results, part: str) -> PartResult:
    names = run.names_by_part[part]
    return PartResult(
        [run.findings[name] for name in names if name in run.findings],
        [run.curves[name] for name in names if name in run.curves],
        run.notes[part],
    )


def read(path: Path) -> Results | None:
    """The results in a file; None where it does not exist."""
    return decode(path.read_bytes()) if path.exists() else None


def decode(data: bytes) -> Results:
    """Results from JSON."""
    return msgspec.json.decode(data, type=Results)


def write(path: Path, results: Results) -> None:
    """Write the results one value per line, so that a changed number is a one-line diff."""
    encoded = msgspec.json.format(msgspec.json.encode(results, order="sorted"), indent=1)
    path.write_bytes(encoded + b"\n")
