"""The recording rules of patterns.yml, made of the table in `daemon.changes.patterns`."""

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent, wrap
from typing import Final

from deploy.prometheus.evidence import EVIDENCE, INSTALLATION, MIX, Rule
from relevanced.daemon.changes import PATTERNS, Compare, Condition, Either

RULES: Final = Path(__file__).parent / "rules" / "patterns.yml"
SEGMENT: Final = f"{INSTALLATION}, grouping, segment, window"
ANY_SEGMENT: Final = "relevanced:feedback_share:recent"
"""Has a series for every segment and window."""
SERIES: Final[Mapping[str, str]] = {
    "mix_share": "relevanced:mix:share",
    "tracking_fault": "relevanced:tracking_fault",
    "feedback_z": "relevanced:feedback_share:z",
    "feedback_loss": "relevanced:feedback_share:loss_ratio",
    "empty_z": "relevanced:zero_result_share:z",
    "empty_explains": "relevanced:zero_result_share:explained_ratio",
    "length": "relevanced:list_length:change",
    "length_z": "relevanced:list_length:z",
    "success_z": "relevanced:success:z",
    "shape_z": "relevanced:shape:z",
    "shape_share": "relevanced:shape:share",
    "shape_of_success": "relevanced:shape:success_ratio",
    "clicks_z": "relevanced:clicks_per_success:z",
    "clicks_of_success": "relevanced:clicks_per_success:success_ratio",
    "judged_z": "relevanced:judged:z",
    "judged_expected_z": "relevanced:judged:expected_z",
    "judged_share": "relevanced:judged_share:change",
}
"""Number of the evidence → recorded series."""
OF_INSTALLATION: Final = ("tracking_fault",)
"""The numbers that are the same for all segments."""


def promql(condition: Condition) -> str:
    """The condition as an expression: the segments and windows that meet it."""
    if isinstance(condition, Compare):
        compared = f"{SERIES[condition.number]} {condition.operator} {condition.limit:g}"
        if condition.number not in OF_INSTALLATION:
            return compared
        return f"({ANY_SEGMENT} and on ({INSTALLATION}) {compared})"
    if isinstance(condition, Either):
        return " or ".join(map(_part, condition.of))
    but = (f" unless {_part(part)}" for part in condition.but)
    return " and ".join(map(_part, condition.of)) + "".join(but)


def _part(condition: Condition) -> str:
    """A part of another condition."""
    return promql(condition) if isinstance(condition, Compare) else f"({promql(condition)})"


def ordered() -> Rule:
    """The rule that records the first row of the table that holds, from 1."""
    rows = [
        f"(\n{indent(_lines(promql(pattern.when)), '  ')}\n) * 0 + {number}"
        for number, pattern in enumerate(PATTERNS, 1)
    ]
    return Rule(
        "relevanced:pattern:row",
        f"\nor on ({SEGMENT})\n".join(rows),
        "The first row of the table whose condition holds, from 1; absent where the evidence is "
        "too small to say.",
    )


def _lines(expression: str) -> str:
    """The expression, with a line for each operator between series."""
    return re.sub(r" (and|or|unless) (?!on \()", r"\n\1 ", expression)


def named() -> tuple[Rule, ...]:
    """The rules that name the rows."""
    return tuple(
        Rule(
            "relevanced:pattern",
            f"(relevanced:pattern:row == {number}) * 0 + 1",
            labels={"pattern": pattern.name, "words": pattern.words, "look_at": pattern.look_at},
        )
        for number, pattern in enumerate(PATTERNS, 1)
    )


HEAD: Final = """\
# Made by `make rules` from the table in daemon/changes/patterns.py: change that. What kind of drop
# it probably is: `relevanced:pattern` has at most one series for a segment and a window, and the
# descriptions of the alerts query it.
groups:
  # Decomposes the change of the whole over the segments of a grouping: the part from their own
  # scores (`within`) and the part from their shares of the traffic (`mix`). With w a share and m a
  # mean, recent, and w', m' those of the baseline, the sum over segments of
  #   (w + w')/2 (m - m')  +  (w - w') (m + m')/2   is   sum of w m - sum of w' m',   exactly.
  # A segment that is missing on one side has share 0 there and the mean of the other side.
"""
WIDTH: Final = 112


def rules() -> str:
    """The text of patterns.yml."""
    patterns = (*EVIDENCE, ordered(), *named())
    return HEAD + _group("relevanced_mix", MIX) + "\n" + _group("relevanced_patterns", patterns)


def _group(name: str, group: tuple[Rule, ...]) -> str:
    return f"  - name: {name}\n    rules:\n" + "".join(map(_rule, group))


def _rule(rule: Rule) -> str:
    lines = [f"      - record: {rule.record}"]
    if rule.about:
        lines = [*_comment(rule.about), *lines]
    if rule.labels:
        lines.append("        labels:")
        lines += [f'          {name}: "{value}"' for name, value in rule.labels.items()]
    if "\n" in rule.expr or len(rule.expr) > WIDTH - 8:
        lines += ["        expr: >-", indent(rule.expr, " " * 10)]
    else:
        lines.append(f"        expr: {rule.expr}")
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return [f"      # {line}" for line in wrap(text, WIDTH)]
