"""Stretches of time that are left out of an experiment: an outage, a broken release. Pure.

A stretch is half-open, [from, to) in milliseconds. It holds impressions by the time at which they
were shown, to the millisecond, together with all their feedback.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from relevanced.metrics import Integers

from .arms import Arm
from .spec import Spec, declare_ramp, units_of
from .types import Excluded, ExcludedVariant, SampleRatio, mismatched

Stretch: TypeAlias = tuple[int, int]

STRETCH_RULE: Final = (
    "must be FROM/TO, two dates or times of RFC 3339 with FROM before TO,"
    " such as 2026-11-20T14:00Z/2026-11-20T16:30Z"
)
CAUSE_OUTSIDE: Final = (
    "An exclusion must be for a cause outside of the outcome, such as an outage: a stretch that is"
    " chosen by what the metrics show biases every interval."
)


def parse_stretch(text: str) -> Stretch:
    """The stretch of `FROM/TO`; UTC unless an offset is given, and a date is its first instant.
    Raises ValueError.

    >>> parse_stretch("2026-11-20/2026-11-21T02:00+02:00")
    (1795132800000, 1795219200000)
    """
    start, slash, end = text.partition("/")
    try:
        from_ms, to_ms = _instant_ms(start), _instant_ms(end)
    except (ValueError, OverflowError):
        raise ValueError(f"{text}: {STRETCH_RULE}") from None
    if not slash or from_ms >= to_ms:
        raise ValueError(f"{text}: {STRETCH_RULE}")
    return from_ms, to_ms


def _instant_ms(text: str) -> int:
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


def joined_stretches(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The same instants in ascending stretches that neither overlap nor touch.

    >>> joined_stretches([(5, 9), (1, 3), (8, 12), (3, 4)])
    ((1, 4), (5, 12))
    """
    joined: list[Stretch] = []
    for from_ms, to_ms in sorted(stretches):
        if joined and from_ms <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], to_ms)
        else:
            joined.append((from_ms, to_ms))
    return tuple(joined)


def within_stretches(times_ms: Integers, stretches: Sequence[Stretch]) -> NDArray[np.bool_]:
    """Whether each of the times (n,) is within one of the stretches, which are those of
    `joined_stretches`.

    >>> within_stretches(np.array([0, 1, 3, 4, 6]), [(1, 4), (5, 12)]).tolist()
    [False, True, True, False, True]
    """
    edges = np.array(stretches, np.int64).reshape(-1)
    inside: NDArray[np.bool_] = np.searchsorted(edges, times_ms, side="right") % 2 == 1
    return inside


def excluded_of(
    spec: Spec, stretches: Sequence[Stretch], arms: Mapping[str, Arm], srm: SampleRatio | None
) -> Excluded:
    """What the stretches left out of the arms of one experiment, also of those that lost nothing,
    with the sample-ratio test of the users left out."""
    variants = tuple(
        ExcludedVariant(variant, arms[variant].impressions) for variant in sorted(arms)
    )
    impressions = sum(variant.impressions for variant in variants)
    losing = sum(variant.impressions > 0 for variant in variants)
    warning = _unequal_warning(spec, srm) if impressions else ""
    return Excluded(
        stretches=tuple((instant_text(start), instant_text(end)) for start, end in stretches),
        impressions=impressions,
        variants=variants,
        srm=srm if impressions else None,
        words=(
            f"Leaves out {stretches_text(stretches)}: {impressions:,} impressions"
            f" of {losing} {'arm' if losing == 1 else 'arms'}"
        ),
        warning=warning,
        caution=CAUSE_OUTSIDE,
    )


def weights_within(
    spec: Spec, stretches: Sequence[Stretch]
) -> tuple[tuple[str, float], ...] | None:
    """The planned shares in the stretches; None where there are several."""
    starts = {spec.shares_since(from_ms) for from_ms, _ in stretches}
    starts |= {spec.shares_since(to_ms - 1) for _, to_ms in stretches}
    return spec.weights_since(starts.pop()) if len(starts) == 1 else None


def _unequal_warning(spec: Spec, srm: SampleRatio | None) -> str:
    if srm is None:
        return (
            "whether the arms lost equal shares is not tested: no planned shares are known, or they"
            " changed then"
        )
    if not mismatched(srm):
        return ""
    return (
        f"the arms lost unequal shares (ln e = {srm.log_evalue:.1f}): the {units_of(spec.unit)}"
        " left out are not in the planned ratio, so what happened then depends on the variant, and"
        f" leaving it out biases the differences; {declare_ramp(spec)}"
    )


def nothing_left(name: str, stretches: Sequence[Stretch], impressions: int) -> str:
    """That an exclusion covers all impressions of an experiment."""
    return (
        f"exclude {stretches_text(stretches)}: leaves out all {impressions:,} impressions of"
        f" {name}; exclude a shorter stretch"
    )


def stretches_text(stretches: Sequence[Stretch]) -> str:
    """The stretches for people, in UTC.

    >>> stretches_text([(1795183200000, 1795192200000), (1795219200000, 1795305600000)])
    '2026-11-20 14:00 – 16:30 UTC, 2026-11-21 00:00 – 2026-11-22 00:00 UTC'
    """
    texts = []
    for from_ms, to_ms in stretches:
        (day, start), (last_day, end) = _date_and_clock(from_ms), _date_and_clock(to_ms)
        texts.append(f"{day} {start} – {end if day == last_day else f'{last_day} {end}'} UTC")
    return ", ".join(texts)


def _date_and_clock(at_ms: int) -> tuple[str, str]:
    """No more precise than the instant is."""
    day, _, clock = instant_text(at_ms).rstrip("Z").partition("T")
    seconds = clock.removesuffix(".000")
    return day, seconds.removesuffix(":00") if at_ms % 60_000 == 0 else seconds


def instant_text(at_ms: int) -> str:
    """An instant in RFC 3339 and UTC.

    >>> instant_text(1_795_183_200_000)
    '2026-11-20T14:00:00.000Z'
    """
    moment = datetime.fromtimestamp(at_ms // 1000, timezone.utc)
    text = moment.replace(tzinfo=None, microsecond=at_ms % 1000 * 1000).isoformat(
        timespec="milliseconds"
    )
    return f"{text}Z"
