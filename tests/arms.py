"""Arms of an experiment as a lane counts them, and their findings."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from relevanced.daemon.experiments import Arm, Finding, Findings, Spec, Tallies, Tracking, findings
from relevanced.metrics import UserBuckets, bucket_indices, user_hashes
from tests.lane_views import PLAN

METRICS: Final = tuple(metric.name for metric in PLAN.metrics)
SPEC: Final = Spec(
    "ranker-v2", "control", 20_000, ("RR@10", "P@1", "nDCG@10"), guardrails=("nDCG@10",)
)


def arm(
    means: Sequence[float],
    seed: int,
    users: range = range(300),
    per_user: int = 20,
    defined: float = 1.0,
) -> Arm:
    """An arm of `per_user` impressions by each user; a metric is 1 with the probability of its
    mean. The last metric is defined for this share of them."""
    random = np.random.default_rng(seed)
    hashes = np.repeat(user_hashes(f"u{number}" for number in users), per_user)
    buckets = bucket_indices(hashes)
    made = Arm.empty(len(means))
    made.tallies[:, 0] = np.bincount(buckets, minlength=64)
    for index, mean in enumerate(means):
        values = (random.random(len(hashes)) < mean).astype(np.float64)
        if index == len(means) - 1 and defined < 1.0:
            values[random.random(len(hashes)) >= defined] = np.nan
        found = UserBuckets.of(values, buckets)
        made.tallies[:, 1 + 3 * index : 4 + 3 * index] = np.stack(
            (found.counts, found.sums, found.squares), axis=1
        )
    made.add_users(np.unique(hashes))
    return made


def dealt_arms(treatment: float = 0.3) -> dict[str, Arm]:
    """A control, and a treatment of other users whose first metric has this mean."""
    return {
        "control": arm((0.5, 0.4, 0.3), 1, range(300)),
        "treatment": arm((treatment, 0.4, 0.3), 2, range(300, 600)),
    }


def partly_defined(control: float, treatment: float) -> dict[str, Arm]:
    """Two arms that differ only in the share of lists for which the last metric is defined."""
    return {
        "control": arm((0.5, 0.4, 0.3), 1, range(300), defined=control),
        "treatment": arm((0.5, 0.4, 0.3), 2, range(300, 600), defined=treatment),
    }


def stratified_arms(
    control: Mapping[str, tuple[int, float]], treatment: Mapping[str, tuple[int, float]]
) -> dict[str, Arm]:
    """Two arms of other users each: by segment how many, and the mean of their first metric."""
    made, first = {}, 0
    for variant, segments in (("control", control), ("treatment", treatment)):
        parts = []
        for segment, (users, mean) in segments.items():
            parts.append((segment, arm((mean, 0.4, 0.3), first, range(first, first + users))))
            first += users
        users_of = np.unique(np.concatenate([part.users for _, part in parts]))
        tallies = np.sum([part.tallies for _, part in parts], axis=0)
        strata = {segment: part.tallies for segment, part in parts}
        made[variant] = Arm(tallies, users=users_of, strata=strata)
    return made


def with_interleaved(arms: Mapping[str, Arm]) -> dict[str, Arm]:
    """The same arms beside 2,560 lists of two rankers: 640 won, 192 lost."""
    shared = arm((0.5, 0.4, 0.3), 1, range(600, 1112), 5)
    wins, losses = np.full(64, 9), np.full(64, 3)
    wins[::2] += 2
    shared.credits = np.stack((np.full(64, 40), wins - losses, wins + losses), axis=1)
    return {**arms, "interleaved": shared}


def found_of(
    arms: Mapping[str, Arm], spec: Spec = SPEC, *more: Mapping[str, Arm], **changes: Any
) -> Findings:
    """The findings of lanes with these arms."""
    spec = replace(spec, **changes)
    others = Spec("", "control", 20_000, METRICS, declared=False)
    declared = {spec.name: spec} if spec.declared else {}
    plan = replace(PLAN, tracking=Tracking(declared, 8, others))
    lanes = [{spec.name: Tallies(spec.digest, dict(of_lane))} for of_lane in (arms, *more)]
    return findings(lanes, plan.tracking, plan.metrics, None, "2026-11-20T12:00:00.000Z")


def finding(arms: Mapping[str, Arm], *more: Mapping[str, Arm], **changes: Any) -> Finding:
    """The finding of the one experiment."""
    (found,) = found_of(arms, SPEC, *more, **changes).experiments
    return found
