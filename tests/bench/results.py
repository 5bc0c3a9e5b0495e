"""What was found, kept as JSON beside the benchmark: what later runs are compared with."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.findings import Curve, Finding, Found

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results.json"
PLOT: Final = HERE / "growth.svg"


@dataclass(frozen=True)
class Results:
    """Of the last run of each part at full scale."""

    cores: int
    python: str
    findings: dict[str, Finding] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    """Part → what could not be measured."""
    told_by: dict[str, list[str]] = field(default_factory=dict)
    """Part → its findings and curves, so that what it does not find any more goes."""


def merged(known: Results | None, found: Mapping[str, Found]) -> Results:
    """What is known, with these parts renewed."""
    results = Results(os.cpu_count() or 0, platform.python_version())
    if known is not None:
        results.findings.update(known.findings)
        results.curves.update(known.curves)
        results.notes.update(known.notes)
        results.told_by.update(known.told_by)
    for part, one in found.items():
        for name in results.told_by.get(part, ()):
            results.findings.pop(name, None)
            results.curves.pop(name, None)
        results.told_by[part] = [told.name for told in (*one.findings, *one.curves)]
        results.findings.update({finding.name: finding for finding in one.findings})
        results.curves.update({curve.name: curve for curve in one.curves})
        results.notes[part] = list(one.notes)
    return results


def read(path: Path) -> Results | None:
    """What a file holds; None where there is none."""
    return decode(path.read_bytes()) if path.exists() else None


def decode(data: bytes) -> Results:
    """Results from JSON."""
    return msgspec.json.decode(data, type=Results)


def write(path: Path, results: Results) -> None:
    """As lines, so that a change of one number is a change of one line."""
    encoded = msgspec.json.format(msgspec.json.encode(results, order="sorted"), indent=1)
    path.write_bytes(encoded + b"\n")
