"""Multiple testing: which of many hypotheses, such as segments, to reject."""

import math

import numpy as np

from .lists import Booleans, Floats


def discoveries(log_evalues: Floats, alpha: float = 0.05) -> Booleans:
    """e-BH: the hypotheses to reject at a false discovery rate of at most alpha.

    Rejects those with the k greatest e-values, for the greatest k whose k-th log e-value is at
    least ln(m / (k alpha)). Valid under any dependence, such as that of overlapping segments.
    log_evalues (m,) -> (m,). NaN (undefined) is never rejected, but counts in m.
    Source: Wang and Ramdas 2022.

    >>> discoveries(np.log([900.0, 12.0, 60.0]), 0.05).tolist()
    [True, False, True]
    """
    evidence = np.where(np.isnan(log_evalues), -np.inf, log_evalues)
    ranks = np.arange(1, len(evidence) + 1)
    thresholds = math.log(max(len(evidence), 1) / alpha) - np.log(ranks)
    # A value equal to its threshold is rejected; the slack covers the rounding of the logarithms.
    reached = np.flatnonzero(np.sort(evidence)[::-1] >= thresholds - 1e-12)
    if not reached.size:
        return np.zeros(len(evidence), dtype=np.bool_)
    return np.asarray(evidence >= thresholds[reached[-1]] - 1e-12)
