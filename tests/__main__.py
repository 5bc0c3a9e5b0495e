"""`make test`, `make test-rest` and `make test-all`: one run of pytest more than processors.

    python -m tests [--rest | --all] [--renew-durations] [arguments for pytest]

`targets.py` says which tests belong to which. Each run gets the files that take its share of the
time, by `durations.json`; all get the arguments. The output of the first run is shown as it comes,
that of the others when all have ended; then what was not run, and how to run it.

If the arguments name tests, these are run, all of them and in one run. `--renew-durations` writes
what was measured to `durations.json`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from tests import durations as measured
from tests.run_report import PATH, RunReport, Seconds
from tests.targets import MARKS, Target, has_quick_tests, test_files

ROOT: Final = Path(__file__).parent.parent
PYTEST: Final = (sys.executable, "-m", "pytest")
NOTHING_COLLECTED: Final = 5
MOST_RUNS: Final = 4
"""More would start more servers than they save time."""
MORE_RUNS: Final = 1
"""Than processors: tests wait for servers a third of their time."""
LONGER: Final = "make chaos, make fuzz, make soak, make trial, make bench, make mutants"
"""What searches further than the tests do, and takes as long as one lets it."""


def target_of(arguments: list[str]) -> Target:
    """The target that the arguments ask for; takes what says so out of them."""
    for target in ("rest", "all"):
        if f"--{target}" in arguments:
            arguments.remove(f"--{target}")
            return target
    return "test"


def names_tests(arguments: Sequence[str]) -> bool:
    return any(argument.startswith("tests") for argument in arguments)


def runs(
    arguments: Sequence[str],
    target: Target,
    files: Sequence[str],
    processors: int,
    seconds: Mapping[str, Seconds],
) -> list[list[str]]:
    """The arguments of each run of pytest."""
    if names_tests(arguments):
        return [[*arguments]]
    selected = [file for file in files if target != "test" or has_quick_tests(file)]
    shares = measured.shares(selected, min(processors + MORE_RUNS, MOST_RUNS), target, seconds)
    marks = ["-m", MARKS[target]] if MARKS[target] else []
    # Each run has its own cache, so that `--last-failed` works for all.
    return [
        [*share, "-o", f"cache_dir=.pytest_cache/{number}", *marks, *arguments]
        for number, share in enumerate(shares)
    ]


def verdict(codes: Sequence[int]) -> int:
    """The exit code of all runs; a run without tests counts only if no run has any."""
    with_tests = [code for code in codes if code != NOTHING_COLLECTED]
    return next((code for code in with_tests if code), 0) if with_tests else NOTHING_COLLECTED


def run_all(commands: Sequence[Sequence[str]], folder: Path) -> tuple[list[int], list[RunReport]]:
    """Run pytest with each of these arguments at the same time: exit codes, and what each says."""
    paths = [folder / f"{number}.json" for number in range(len(commands))]
    environments = [{**os.environ, PATH: str(path)} for path in paths]
    (first, *others), (environment, *of_others) = commands, environments
    with tempfile.TemporaryFile() as output:
        processes = [
            subprocess.Popen([*PYTEST, *one], stdout=output, stderr=subprocess.STDOUT, env=env)
            for one, env in zip(others, of_others, strict=True)
        ]
        try:
            codes = [subprocess.call([*PYTEST, *first], env=environment)]
        finally:  # Ctrl-C reaches all runs, and each stops its servers
            codes_of_others = [process.wait() for process in processes]
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout.buffer)
        sys.stdout.flush()
    reports = [
        msgspec.json.decode(path.read_bytes(), type=RunReport) for path in paths if path.exists()
    ]
    return [*codes, *codes_of_others], reports


def summary(target: Target, reports: Sequence[RunReport], took_s: float, rest_s: float) -> str:
    """What was run, what was not and why, and which command runs it."""
    outcomes = sum((Counter(report.outcomes) for report in reports), Counter[str]())
    counted = ", ".join(f"{outcomes[name]:,} {name}" for name in sorted(outcomes)) or "no test"
    skipped = sum((Counter(report.skipped) for report in reports), Counter[str]())
    lines = [f"{counted} in {took_s / 60:.1f} minutes. Not run:"]
    lines += [f"  {number:,} tests: {reason}" for reason, number in sorted(skipped.items())]
    if target == "test":
        minutes = max(round(rest_s / 60), 1)
        lines.append(
            f"  the rest, some {minutes} minutes: make test-rest (make test-all runs both)"
        )
    if target == "rest":
        lines.append("  the quick tests: make test")
    return "\n".join([*lines, f"  what takes longer: {LONGER}"])


def main() -> int:
    arguments = sys.argv[1:]
    target, is_renewal = target_of(arguments), "--renew-durations" in arguments
    if is_renewal:
        arguments.remove("--renew-durations")
    processors, seconds, files = os.cpu_count() or 1, measured.load(), test_files(ROOT)
    commands = runs(arguments, target, files, processors, seconds)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        codes, reports = run_all(commands, Path(folder))
    took_s = time.monotonic() - started_s
    if not names_tests(arguments):
        rest_s = sum(measured.seconds_of(file, "rest", seconds) for file in files) / len(commands)
        print(summary(target, reports, took_s, rest_s))
    if is_renewal:
        found = {file: one for report in reports for file, one in report.seconds.items()}
        measured.PATH.write_bytes(measured.encode(measured.renewed(seconds, found, target, files)))
    return verdict(codes)


if __name__ == "__main__":
    sys.exit(main())
