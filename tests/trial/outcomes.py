"""What the last trial saw of each fault that the guide has in its table, and that table.

A row is of the rules under which it was seen: their expressions and waits, with all that they
record. Once these change, the row must be tried again.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

import yaml

from deploy.tables import renewed
from tests.trial.expected import EXPECTED, Expected
from tests.trial.monitoring import DEPLOY
from tests.trial.sighting import Sighting, Step
from tests.trial.verdict import ends_s, first_told

FILE: Final = Path(__file__).parent / "outcomes.json"
GUIDE: Final = DEPLOY.parent / "guide" / "alerts.md"
HEADING: Final = "## What a fault raises"
_INSTANCE: Final = re.compile(r"[\d.]+:\d+|(?<= )[\w-]+-events\b")
"""What a summary names that is of the trial."""
_WRITING: Final = Lock()
_RECORDED: Final = re.compile(r"\brelevanced:[a-z0-9_:]+")


@dataclass(frozen=True)
class Outcome:
    """What was seen of one scenario."""

    alert: str = ""
    """Empty: nobody was told of anything."""
    severity: str = ""
    says: str = ""
    """The summary of the alert."""
    seconds: int = 0
    """From the fault to the state `firing`; 0 where it fires already."""
    notifications: int = 0
    ends_seconds: int | None = None
    """From the repair to the end of all alerts; None where that was not waited for."""
    rules: str = ""
    """The digest of the rules."""

    @classmethod
    def of(
        cls, seen: Sequence[Sighting], expected: Expected, broken_s: float, repaired_s: float
    ) -> "Outcome":
        """`seen` as for `verdict.faults`, of a scenario in which nothing was wrong."""
        first = first_told(seen, expected, broken_s)
        if first is None:
            return cls()
        ends = ends_s(seen, repaired_s) if expected.ends_minutes else None
        return cls(
            alert=first.name,
            severity=first.labels["severity"],
            says=first.text.split(" | ")[0],
            seconds=max(round(first.at_s - broken_s), 0),
            notifications=sum(each.step is Step.NOTIFIED for each in seen),
            ends_seconds=None if ends is None else round(ends),
            rules=digest(first.name),
        )


def stored() -> dict[str, Outcome]:
    """Scenario → its last outcome."""
    if not FILE.exists():
        return {}
    return {name: Outcome(**row) for name, row in json.loads(FILE.read_text()).items()}


def store(found: Mapping[str, Outcome]) -> None:
    """Keep these, and the last ones of all other scenarios."""
    with _WRITING:
        rows = {**stored(), **found}
        listed: dict[str, Any] = {name: asdict(rows[name]) for name in EXPECTED if name in rows}
        FILE.write_text(json.dumps(listed, indent=1, ensure_ascii=False) + "\n")


def digest(alert: str) -> str:
    """Of the expression and the waits of an alert, and of all recorded rules that it follows
    from."""
    rules = _rules()
    texts, due, known = [], [alert], {alert}
    while due:
        for rule in rules.get(due.pop(), []):
            texts.append(repr([rule.get(key) for key in ("expr", "for", "keep_firing_for")]))
            more = set(_RECORDED.findall(rule["expr"])) - known
            due, known = [*due, *more], known | more
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:12]


def _rules() -> dict[str, list[dict[str, Any]]]:
    """Name of an alert or a recorded series → its rules."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((DEPLOY / "rules").glob("*.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                found.setdefault(rule.get("alert") or rule["record"], []).append(rule)
    return found


def stale() -> list[str]:
    """The scenarios with a row whose outcome is missing, or of other rules than there are."""
    outcomes = stored()
    return [
        name
        for name, expected in EXPECTED.items()
        if expected.fault and (name not in outcomes or _is_stale(outcomes[name], expected))
    ]


def _is_stale(outcome: Outcome, expected: Expected) -> bool:
    if not expected.alerts:
        return bool(outcome.alert)
    wanted, *_ = expected.alerts
    is_late = outcome.seconds > wanted.within_minutes * 60
    return is_late or not outcome.alert or outcome.rules != digest(outcome.alert)


def table() -> str:
    """The table of the guide."""
    lines = ["| fault | who is told what | s | told | over |", "|---|---|---|---|---|"]
    outcomes, silent = stored(), []
    for name, expected in EXPECTED.items():
        row = outcomes.get(name)
        if not expected.fault or row is None:
            continue
        if not row.alert:
            silent.append(expected.fault)
            continue
        says = f"{row.severity}: {_INSTANCE.sub('…', row.says)}"
        ends = "" if row.ends_seconds is None else row.ends_seconds
        cells = (expected.fault, says, row.seconds, row.notifications, ends)
        lines.append(f"|{'|'.join(map(str, cells))}|")
    lines.append(f"| {'; '.join(silent)} | nobody is told | | 0 | |")
    return "\n".join(lines) + "\n"


def renew_guide() -> None:
    """Put the table into the guide."""
    GUIDE.write_text(renewed(GUIDE.read_text(), HEADING, table()))
