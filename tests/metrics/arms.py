"""Stack tallies of arms for tests."""

import numpy as np

from relevanced.metrics import UserBuckets


def stacked(*arms: UserBuckets) -> UserBuckets:
    """Tallies (buckets,) of several arms as one `Buckets` of (arms, buckets)."""
    return UserBuckets(
        np.stack([arm.counts for arm in arms]),
        np.stack([arm.sums for arm in arms]),
        np.stack([arm.squares for arm in arms]),
    )
