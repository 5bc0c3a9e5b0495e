"""The part of the runbook that describes patterns, made of the one table."""

from pathlib import Path
from typing import Final

from relevanced.daemon.changes import PATTERNS

RUNBOOK: Final = Path(__file__).parents[2] / "daemon/http/runbook.md"
BEGIN: Final = "<!-- made by `make rules` from daemon/changes/patterns.py -->\n"
END: Final = "<!-- end of what is made -->\n"


def described() -> str:
    """The table of patterns: of several whose conditions hold, the first one is named."""
    lines = ["", "| looks like | what is seen | look at |", "|---|---|---|"]
    lines += [f"| {one.name} | {one.words} | {one.look_at} |" for one in PATTERNS]
    return "\n".join([*lines, "", ""])


def with_patterns(text: str) -> str:
    """The runbook with that part made anew. Raises ValueError where its marks are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{RUNBOOK.name}: must contain the lines {BEGIN!r} and {END!r}")
    return before + begin + described() + end + after
