"""The series that tell the same of the last hours and of what is usual for them. Pure."""

from collections.abc import Iterator
from typing import Final

_RECENT: Final = "over the window that ends where no feedback can change it any more"
_USUAL: Final = (
    "over the same stretch of time of the last three weeks (of the last days, where no week is "
    "known), on average, outages left out"
)


def of_time(segment: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """(name, labels, help) of each; `segment` are the labels of a segment."""
    for of, when in (("recent", _RECENT), ("baseline", _USUAL)):
        yield from _alike(of, when, (*segment, "window"))


def _alike(
    of: str, when: str, compared: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    yield f"{of}_score", ("metric", *compared), f"Mean of the search-quality metric {when}."
    yield (
        f"{of}_score_stderr",
        ("metric", *compared),
        f"Standard error of relevanced_{of}_score, as if impressions were independent. That of a "
        "mean of three weeks or more is not below what the weeks differ by.",
    )
    yield (
        f"{of}_scored_impressions",
        ("metric", *compared),
        f"Impressions for which the metric is defined, {when}.",
    )
    yield f"{of}_impressions", compared, f"Impressions {when}."
    yield f"{of}_impressions_with_feedback", compared, f"Impressions with feedback {when}."
    yield f"{of}_zero_result_impressions", compared, f"Impressions without a result {when}."
