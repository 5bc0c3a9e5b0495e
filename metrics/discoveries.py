"""Many questions of one experiment: which segments may be called out without fooling oneself."""

import math

import numpy as np

from .lists import Booleans, Floats


def discoveries(log_evalues: Floats, alpha: float = 0.05) -> Booleans:
    """e-BH: those of m hypotheses that are rejected with a false discovery rate of at most alpha.

    The k greatest, for the greatest k whose k-th is at least ln(m / (k alpha)); valid however the
    hypotheses depend on each other, as segments that overlap do.
    log_evalues (m,) -> (m,). NaN (undefined) is never rejected, but counts among the m.
    Source: Wang and Ramdas 2022.

    >>> discoveries(np.log([900.0, 12.0, 60.0]), 0.05).tolist()
    [True, False, True]
    """
    evidence = np.where(np.isnan(log_evalues), -np.inf, log_evalues)
    ranks = np.arange(1, len(evidence) + 1)
    wanted = math.log(max(len(evidence), 1) / alpha) - np.log(ranks)
    # A boundary hit is a rejection: the slack is far below what evidence is known to.
    reached = np.flatnonzero(np.sort(evidence)[::-1] >= wanted - 1e-12)
    if not reached.size:
        return np.zeros(len(evidence), dtype=np.bool_)
    return np.asarray(evidence >= wanted[reached[-1]] - 1e-12)
