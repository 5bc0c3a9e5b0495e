"""Sample ratios: false alarms of fair assignments, and how soon alarms find unfair ones."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from relevanced.daemon.experiments import MOST_STRATA
from relevanced.metrics import ALARM_LOG_EVALUE, averaged_log_evalue, sample_ratio_log_evalue
from tests.bench.looks import kept

MAX_FALSE_ALARMS: Final = 0.001
GROSS: Final = ((10, 200), (80, 320), (500, 700))
"""Users of two arms that were to be equal."""
PLANS: Final = (0.5, 0.9)
"""Planned shares of the first arm."""
SKEWS: Final = (0.49, 0.45, 0.33, 0.05)
"""Shares of the first arm in place of a half."""
RUNS_AT_ONCE: Final = 1_000


def users_at_looks(users: int) -> NDArray[np.int64]:
    """(looks,) users in both arms: every one of the first 500, then 1 % more at each look."""
    later = np.geomspace(500, users, round(np.log(users / 500) / np.log(1.01)))
    return np.union1d(np.arange(1, min(users, 500) + 1), later.round().astype(np.int64))


def alarm_bounds(
    totals: NDArray[np.int64], planned: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(looks,) users in the first arm up to which, and (looks,) from which on there is an alarm."""
    low, high = np.full(len(totals), -1), np.full(len(totals), np.iinfo(np.int64).max)
    for look, users in enumerate(totals.tolist()):
        middle = round(planned * users)
        low[look] = _outermost(users, planned, -1, middle)
        high[look] = _outermost(users, planned, users + 1, middle)
    return low, high


def _outermost(users: int, planned: float, outside: int, inside: int) -> int:
    """The count nearest to `inside`, which has no alarm, that has one; `outside` if none has."""
    weights = [planned, 1.0 - planned]
    while abs(outside - inside) > 1:
        middle = (outside + inside) // 2
        alarm = sample_ratio_log_evalue([middle, users - middle], weights) >= ALARM_LOG_EVALUE
        outside, inside = (middle, inside) if alarm else (outside, middle)
    return outside


def users_until_alarm(
    share: float, planned: float, *, users: int, runs: int, seed: int
) -> NDArray[np.float64]:
    """(runs,) users in both arms at the first alarm; infinite without one."""
    random = np.random.default_rng(seed)
    totals = users_at_looks(users)
    low, high = alarm_bounds(totals, planned)
    steps, found = np.diff(totals, prepend=0), np.full(runs, np.inf)
    for start in range(0, runs, RUNS_AT_ONCE):
        size = (min(RUNS_AT_ONCE, runs - start), len(totals))
        first_arm = random.binomial(steps, share, size).cumsum(axis=1)
        alarms = (first_arm <= low) | (first_arm >= high)
        first = totals[alarms.argmax(axis=1)].astype(np.float64)
        found[start : start + size[0]] = np.where(alarms.any(axis=1), first, np.inf)
    return found


def users_until_alarm_within(
    shares: Sequence[float], users: int, runs: int, seed: int
) -> NDArray[np.float64]:
    """(runs,) users at the first alarm, of 100 looks, if those of equal segments were assigned to
    the first arm with these probabilities in place of a half."""
    random, found = np.random.default_rng(seed), np.full(runs, np.inf)
    totals = np.geomspace(20, users / len(shares), 100).astype(np.int64)
    steps = np.diff(totals, prepend=0)
    for run in range(runs):
        first = np.stack([random.binomial(steps, share) for share in shares]).cumsum(axis=1)
        for look, total in enumerate(totals.tolist()):
            counts = [[count, total - count] for count in first[:, look].tolist()]
            whole = sample_ratio_log_evalue(np.sum(counts, axis=0).tolist(), [1.0, 1.0])
            within = [sample_ratio_log_evalue(one, [1.0, 1.0]) for one in counts]
            if averaged_log_evalue(whole, within, MOST_STRATA + 1) >= ALARM_LOG_EVALUE:
                found[run] = total * len(shares)
                break
    return found


def print_within_segments(runs: int, seed: int) -> bool:
    """Print the same within segments; returns whether false alarms are as rare as they must be."""
    fair = users_until_alarm_within([0.5] * 4, 20_000, runs, seed) < np.inf
    holds = kept("four segments, fair: false alarm", fair.tolist(), MAX_FALSE_ALARMS, digits=3)
    for shares in ((0.3, 0.7), (0.45, 0.55)):
        found = users_until_alarm_within(shares, 100_000, max(20, runs // 50), seed)
        half, most = (np.quantile(found, part, method="lower") for part in (0.5, 0.9))
        print(
            f"  {shares[0]:.0%} and {shares[1]:.0%} in two segments: alarm after {half:,.0f} users"
            f" in half of the runs, {most:,.0f} in nine tenths"
        )
    return holds


def print_sample_ratios(runs: int, seed: int, users: int = 100_000) -> bool:
    """Print the alarms; returns whether false ones are as rare, and gross ones as sure, as they
    must be."""
    print(f"\nsample ratios: {runs:,} runs, {len(users_at_looks(users))} looks to {users:,} users")
    holds = []
    for planned in PLANS:
        fair = users_until_alarm(planned, planned, users=users, runs=runs, seed=seed) < np.inf
        title = f"assigned {planned:.0%} to {1 - planned:.0%} as planned: false alarm"
        holds.append(kept(title, fair.tolist(), MAX_FALSE_ALARMS, digits=3))
    for share in SKEWS:
        found = users_until_alarm(share, 0.5, users=4 * users, runs=max(100, runs // 20), seed=seed)
        half, most = (np.quantile(found, part, method="lower") for part in (0.5, 0.9))
        print(
            f"  assigned {share:.0%} to {1 - share:.0%} in place of halves: alarm after {half:,.0f}"
            f" users in half of the runs, {most:,.0f} in nine tenths"
        )
    for counts in GROSS:
        evidence = sample_ratio_log_evalue(counts, [1.0, 1.0])
        print(f"  {counts[0]} : {counts[1]} users: ln e = {evidence:.1f}")
        holds.append(evidence >= ALARM_LOG_EVALUE)
    holds.append(print_within_segments(max(100, runs // 10), seed))
    return all(holds)
