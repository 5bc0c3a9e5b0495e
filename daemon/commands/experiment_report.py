"""One experiment out of all findings, as text: what `report` and `replay --experiment` print."""

import msgspec

from ..experiments.report import render_report
from ..experiments.types import DayEffect, Finding, Findings


class UnknownExperiment(Exception):
    """There is no experiment of this name; the text lists those that there are."""


def finding_of(findings: Findings, experiment: str) -> Finding:
    """The finding of one experiment. Raises UnknownExperiment."""
    for finding in findings.experiments:
        if finding.experiment == experiment:
            return finding
    names = ", ".join(finding.experiment for finding in findings.experiments) or "none"
    raise UnknownExperiment(f"{experiment}: no experiment of this name; known: {names}")


def with_days(findings: Findings, experiment: str, rows: tuple[DayEffect, ...]) -> Findings:
    """The findings, with the effect of one experiment by day."""
    return Findings(
        findings.as_of,
        tuple(
            msgspec.structs.replace(one, by_day=rows) if one.experiment == experiment else one
            for one in findings.experiments
        ),
    )


def experiment_report(findings: Findings, experiment: str, output: str) -> str:
    """The report of one experiment as `table` or `json`. Raises UnknownExperiment."""
    return render_report(finding_of(findings, experiment), findings.as_of, output)
