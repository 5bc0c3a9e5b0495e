"""`python -m deploy.prometheus` writes the runbook's table of patterns."""

from deploy.prometheus.runbook import RUNBOOK, with_patterns

if __name__ == "__main__":
    RUNBOOK.write_text(with_patterns(RUNBOOK.read_text()))
