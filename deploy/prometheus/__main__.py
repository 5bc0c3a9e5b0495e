"""`python -m deploy.prometheus` writes the rules of patterns, and the runbook's table of them."""

from deploy.prometheus.patterns import RULES, rules
from deploy.prometheus.runbook import RUNBOOK, with_patterns


def write() -> None:
    """Write both files."""
    RULES.write_text(rules())
    RUNBOOK.write_text(with_patterns(RUNBOOK.read_text()))


if __name__ == "__main__":
    write()
