"""`make test`: tests in two runs beside each other.

    python -m tests [arguments for pytest]

Two runs of pytest, for one leaves most of two processors idle while it waits for servers. What
the second says is printed when both have ended. Arguments go to both; where one of them names
tests, or there is one processor only, there is one run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

SECOND: Final = (
    "tests/chaos/test_protocol_model.py",
    "tests/daemon",
    "tests/test_oracle.py",
    "tests/fuzz",
    "tests/metrics",
    "tests/deploy",
)
"""Tests that compute, and those of what is deployed: about half of the time. What is not here is in
the first run."""
PYTEST: Final = (sys.executable, "-m", "pytest")
APART: Final = ("-o", "cache_dir=.pytest_cache/second")
"""Each run remembers its own failures, for `--last-failed`."""
NOTHING_COLLECTED: Final = 5


def runs(arguments: Sequence[str], processors: int) -> list[list[str]]:
    """What to give to pytest, for each of its runs."""
    if processors < 2 or any(argument.startswith("tests") for argument in arguments):
        return [[*arguments]]
    left_out = [f"--ignore={path}" for path in SECOND]
    return [[*left_out, *arguments], [*SECOND, *APART, *arguments]]


def verdict(codes: Sequence[int]) -> int:
    """One exit code: a run without tests counts only where no other has any."""
    told = [code for code in codes if code != NOTHING_COLLECTED]
    return next((code for code in told if code), 0) if told else NOTHING_COLLECTED


def main() -> int:
    first, *others = runs(sys.argv[1:], os.cpu_count() or 1)
    with tempfile.TemporaryFile() as said:
        beside = [
            subprocess.Popen([*PYTEST, *one], stdout=said, stderr=subprocess.STDOUT)
            for one in others
        ]
        try:
            codes = [subprocess.call([*PYTEST, *first])]
        finally:  # Ctrl-C reaches all runs, and each ends its servers in order
            codes_beside = [run.wait() for run in beside]
        said.seek(0)
        shutil.copyfileobj(said, sys.stdout.buffer)
    return verdict([*codes, *codes_beside])


if __name__ == "__main__":
    sys.exit(main())
