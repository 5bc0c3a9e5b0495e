"""The part of the runbook that describes patterns, made of the same table as the rules."""

from pathlib import Path
from typing import Final

from deploy.prometheus.patterns import SERIES, promql
from relevanced.daemon.judging.patterns import NUMBERS, PATTERNS

RUNBOOK: Final = Path(__file__).parent.parent / "runbook.md"
BEGIN: Final = "<!-- made by `make rules` from daemon/judging/patterns.py -->\n"
END: Final = "<!-- end of what is made -->\n"


def described() -> str:
    """The table of patterns, and that of the numbers that decide."""
    lines = ["", "| looks like | what is seen | look at |", "|---|---|---|"]
    lines += [f"| {one.name} | {one.words} | {one.look_at} |" for one in PATTERNS]
    lines += ["", "The first condition that holds decides:", "", "| looks like | where |"]
    lines += ["|---|---|", *(f"| {one.name} | `{promql(one.when)}` |" for one in PATTERNS)]
    lines += ["", "| series | what it says |", "|---|---|"]
    lines += [f"| `{SERIES[name]}` | {words} |" for name, words in NUMBERS.items()]
    return "\n".join([*lines, "", ""])


def with_patterns(text: str) -> str:
    """The runbook with that part made anew. Raises ValueError where its marks are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{RUNBOOK.name}: must contain the lines {BEGIN!r} and {END!r}")
    return before + begin + described() + end + after
