"""Stack tallies of arms for tests."""

import numpy as np

from relevanced.metrics.buckets import Buckets


def stacked(*arms: Buckets) -> Buckets:
    """Tallies (buckets,) of several arms as one `Buckets` of (arms, buckets)."""
    return Buckets(
        np.stack([arm.counts for arm in arms]),
        np.stack([arm.sums for arm in arms]),
        np.stack([arm.squares for arm in arms]),
    )
