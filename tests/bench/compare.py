"""`make bench-compare`: checks whether a ratio is worse than in the last commit.

python -m tests.bench.compare [--before FILE] [--now FILE]

Compares by default results.json of HEAD with the current one. Only ratios inside one run and
counted sizes are compared: times and rates depend on the machine.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.findings import Finding, formatted
from tests.bench.results import RESULTS, Results, decode

TOLERATED: Final = 1.15


def verdicts(before: Results, now: Results) -> list[tuple[bool, str]]:
    """(whether it is too much worse, a line of text) for every finding that is compared."""
    lines = []
    for name, old in before.findings.items():
        if not old.compared:
            continue
        new = now.findings.get(name)
        if new is None:
            lines.append(
                (True, f"{old.words}: {formatted(old.value)} {old.unit} before, not measured")
            )
            continue
        change = worsening(old, new)
        text = f"{old.words}: {formatted(old.value)} → {formatted(new.value)} {new.unit}"
        lines.append((change > TOLERATED, f"{text} ({change - 1:+.0%} worse)"))
    return lines


def worsening(old: Finding, new: Finding) -> float:
    """The ratio by which the new finding is worse: 1 means no change."""
    return old.value / new.value if new.higher_is_better else new.value / old.value


def committed() -> bytes | None:
    """results.json of the last commit; None where there is none."""
    command = ["git", "show", f"HEAD:./{RESULTS.name}"]
    shown = subprocess.run(command, cwd=RESULTS.parent, capture_output=True)
    return shown.stdout if shown.returncode == 0 else None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench-compare", description="Compares two results of the benchmark."
    )
    parser.add_argument("--before", type=Path, help="default: the committed results")
    parser.add_argument("--now", type=Path, default=RESULTS)
    given = parser.parse_args()
    before = committed() if given.before is None else given.before.read_bytes()
    if before is None:
        print(f"no committed {RESULTS.name}: name a file with --before", file=sys.stderr)
        return 2
    if not given.now.exists():
        print(f"{given.now}: does not exist: run make bench first", file=sys.stderr)
        return 2
    now = given.now.read_bytes()
    if before == now:
        print("the results are unchanged: run make bench first", file=sys.stderr)
        return 2
    lines = verdicts(decode(before), decode(now))
    for bad, line in lines:
        print(f"{'WORSE' if bad else 'ok':6}{line}")
    return int(any(bad for bad, _ in lines))


if __name__ == "__main__":
    sys.exit(main())
