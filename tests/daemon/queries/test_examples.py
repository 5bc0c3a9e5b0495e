"""The examples in the docstrings of the room run."""

import doctest
import importlib
import pkgutil
from typing import Final

import pytest

from relevanced.daemon import queries

MODULES: Final = sorted(module.name for module in pkgutil.iter_modules(queries.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_module_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(f"{queries.__name__}.{name}"))
    assert failed == 0
