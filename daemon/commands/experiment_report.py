"""One experiment out of all findings, as text: what `report` and `replay --experiment` print."""

from ..experiments.report import render_report
from ..experiments.types import Findings


class UnknownExperiment(Exception):
    """There is no experiment of this name; the text lists those that there are."""


def experiment_report(findings: Findings, experiment: str, output: str) -> str:
    """The report of one experiment as `table` or `json`. Raises UnknownExperiment."""
    for finding in findings.experiments:
        if finding.experiment == experiment:
            return render_report(finding, findings.as_of, output)
    names = ", ".join(finding.experiment for finding in findings.experiments) or "none"
    raise UnknownExperiment(f"{experiment}: no experiment of this name; known: {names}")
