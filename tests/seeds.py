"""Seeds of random tests: the first three are in `make test`, the others in `make test-rest`."""

from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet

FEW: Final = 3


def seeds(count: int, first: int = 0) -> list[ParameterSet]:
    """That many seeds for `parametrize`; those after the third carry the mark `rest`."""
    return [
        pytest.param(first + place, marks=() if place < FEW else pytest.mark.rest)
        for place in range(count)
    ]
