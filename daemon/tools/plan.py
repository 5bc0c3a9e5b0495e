"""`relevanced plan`: how much traffic, and how many days, an experiment needs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from relevanced.metrics import POWER, planned_impressions

CHANGES = (0.005, 0.01, 0.02, 0.05, 0.1)


@dataclass(frozen=True)
class PlannedTraffic:
    """What an experiment can count on."""

    baseline: float
    """Mean of the metric in the control."""
    deviation: float
    """Standard deviation of one impression."""
    design_effect: float
    treated: float
    """Share of the impressions in the treatment."""
    impressions_a_day: float
    power: float

    def planned(self, change: float) -> int:
        """Impressions of both variants until a change by this share of the baseline is detected."""
        variance = self.design_effect * self.deviation**2
        return planned_impressions(change * self.baseline, variance, self.treated, self.power)

    def days(self, impressions: int) -> int:
        """Days until so many impressions, at least 1."""
        return max(math.ceil(impressions / self.impressions_a_day), 1)


def share(text: str) -> float:
    """0.01 of `1%` or `0.01`."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if rest or not 0 < value < 1:
        raise click.BadParameter(f"{text}: must be a share above 0 and below 1, such as 1% or 0.01")
    return value


@click.command("plan")
@click.option(
    "--baseline",
    type=click.FloatRange(min=0, min_open=True),
    required=True,
    help="Mean of the metric without the change.",
)
@click.option(
    "--deviation",
    type=click.FloatRange(min=0, min_open=True),
    help="Standard deviation of one impression.  [default: that of a score of 0 or 1, the largest"
    " that a score from 0 to 1 can have]",
)
@click.option(
    "--design-effect",
    type=click.FloatRange(min=1),
    default=2.0,
    show_default=True,
    help="How much more the mean varies because searches of one user are alike; `relevanced report`"
    " has it for running experiments.",
)
@click.option("--users-per-day", type=click.FloatRange(min=0, min_open=True), required=True)
@click.option(
    "--searches-per-user",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Searches of one user in a day.",
)
@click.option(
    "--treated", type=share, default="50%", show_default=True, help="Share of users treated."
)
@click.option(
    "--change",
    "changes",
    type=share,
    multiple=True,
    help="Relative change to detect, such as 1%; may be repeated.  [default: several]",
)
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.99),
    default=POWER,
    show_default=True,
    help="Probability that a true change of this size is detected.",
)
def plan_command(
    baseline: float,
    deviation: float | None,
    design_effect: float,
    users_per_day: float,
    searches_per_user: float,
    treated: float,
    changes: Sequence[float],
    power: float,
) -> None:
    """Say how long an experiment takes until it detects a change.

    The intervals hold at every look, so a larger change is seen earlier. `planned_impressions` is
    what to write into [experiments.NAME].
    """
    traffic = PlannedTraffic(
        baseline,
        _deviation(baseline) if deviation is None else deviation,
        design_effect,
        treated,
        users_per_day * searches_per_user,
        power,
    )
    click.echo("\n".join(_lines(traffic, sorted(changes) or CHANGES)))


def _deviation(baseline: float) -> float:
    if baseline >= 1:
        raise click.BadParameter(
            f"{baseline:g}: must be below 1, or give --deviation too",
            param_hint="--baseline",
        )
    return math.sqrt(baseline * (1 - baseline))


def _lines(traffic: PlannedTraffic, changes: Sequence[float]) -> Iterator[str]:
    yield (
        f"A mean of {traffic.baseline:g}, deviation {traffic.deviation:.3g}, design effect"
        f" {traffic.design_effect:g}, {traffic.impressions_a_day:,.0f} searches a day,"
        f" {traffic.treated:.0%} treated, power {traffic.power:.0%}:"
    )
    yield ""
    yield f"{'change':>7}  {'difference':>10}  {'planned_impressions':>19}  {'days':>6}"
    for change in changes:
        planned = traffic.planned(change)
        difference = change * traffic.baseline
        days = traffic.days(planned)
        yield f"{change:>7.1%}  {difference:>10.4g}  {planned:>19,}  {days:>6,}"
    yield ""
    yield "Days count every search as new: where users come back, the design effect grows."
