"""How long the fuzz tests run: a few seconds as part of the tests, longer with `make fuzz`.

RELEVANCED_FUZZ=200 make fuzz     200 times the examples, with a new seed each time
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings

FACTOR: Final = float(os.environ.get("RELEVANCED_FUZZ") or 1)
SLOW: Final = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def examples(number: int) -> settings:
    """Settings for `number` examples times the factor; in the tests they are the same in every
    run."""
    return settings(
        max_examples=max(1, int(number * FACTOR)),
        derandomize=FACTOR == 1,
        deadline=None,
        print_blob=True,
        suppress_health_check=SLOW,
    )
