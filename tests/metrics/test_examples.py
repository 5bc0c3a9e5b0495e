"""Every public function shows an example, and every example runs."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from relevanced import metrics

MODULES: Final = sorted(
    f"relevanced.metrics.{module.name}" for module in pkgutil.iter_modules(metrics.__path__)
)
BINDINGS: Final = "relevanced.metrics.bindings"
"""Its functions are the entries of the catalog, and the laws run them all."""


def without_example(module: ModuleType) -> list[str]:
    """Public functions defined in the module without an example."""
    functions = inspect.getmembers(module, inspect.isfunction)
    return [
        name
        for name, function in functions
        if function.__module__ == module.__name__
        and not name.startswith("_")
        and ">>>" not in (function.__doc__ or "")
    ]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_module_run(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


@pytest.mark.parametrize("name", [name for name in MODULES if name != BINDINGS])
def test_every_public_function_has_an_example(name: str) -> None:
    assert not without_example(importlib.import_module(name))


def test_examples_of_the_readme_run() -> None:
    """All but that of the metric to be added, which `test_adding.py` runs in a copy."""
    text = (Path(__file__).parents[2] / "metrics" / "README.md").read_text()
    before, _, rest = text.partition("## Adding a metric")
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    runner.run(parser.get_doctest(before + rest.partition("\n## ")[2], {}, "README.md", None, 0))
    failed, run = runner.summarize()
    assert (failed, run > 0) == (0, True)
