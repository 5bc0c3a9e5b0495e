"""How long the fuzzer runs: a few seconds among the tests, as long as one likes by `make fuzz`.

RELEVANCED_FUZZ=200 make fuzz     200 times the examples, another seed each time
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings

FACTOR: Final = float(os.environ.get("RELEVANCED_FUZZ") or 1)
SLOW: Final = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def examples(number: int) -> settings:
    """So many examples, times the factor: the same ones in every run of the tests."""
    return settings(
        max_examples=max(1, int(number * FACTOR)),
        derandomize=FACTOR == 1,
        deadline=None,
        print_blob=True,
        suppress_health_check=SLOW,
    )
