"""One line of what the doctor says. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["good", "look", "wrong"]
"""`look`: somebody should. `wrong`: numbers would be."""


@dataclass(frozen=True)
class Finding:
    """One line."""

    name: str
    level: Level
    words: str


def is_wrong(found: Sequence[Finding]) -> bool:
    """Whether numbers would be wrong."""
    return any(finding.level == "wrong" for finding in found)


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.1f} %"
