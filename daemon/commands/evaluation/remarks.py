"""What the numbers leave out, in sentences. Pure."""

from collections.abc import Iterator, Sequence

from .results import Missing, ScoredRun


def remarks(runs: Sequence[ScoredRun], missing: Missing) -> Iterator[str]:
    """A sentence for each way in which a run and the judgements do not cover one another."""
    for run in runs:
        if run.without_results:
            share = f"{run.without_results:,} of {run.judged_queries:,} judged queries"
            rest = (
                "left out of the means; --missing zero counts them as empty lists"
                if missing == "skip"
                else "counted as empty lists"
            )
            yield f"{run.file}: no results for {share}: {rest}."
        if run.without_judgements:
            noun = "query" if run.without_judgements == 1 else "queries"
            count = f"{run.without_judgements:,} {noun}"
            yield f"{run.file}: results of {count} without judgements: not scored."
