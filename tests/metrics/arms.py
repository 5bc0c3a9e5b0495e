"""Tallies for tests."""

import numpy as np

from relevanced.metrics.buckets import Buckets


def stacked(*arms: Buckets) -> Buckets:
    """Many tallies as one."""
    return Buckets(
        np.stack([arm.counts for arm in arms]),
        np.stack([arm.sums for arm in arms]),
        np.stack([arm.squares for arm in arms]),
    )
