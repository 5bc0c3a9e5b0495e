"""A metric is one kernel and one catalog entry, as the README of `metrics/` shows it."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from relevanced.metrics import CATALOG, Entry, Lists
from relevanced.metrics.parameters import above
from relevanced.metrics.parsing import resolve

README = Path(__file__).parents[2] / "metrics" / "README.md"


def readme_code() -> str:
    section = README.read_text().partition("## Adding a metric")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def test_readme_adds_a_metric_in_five_lines() -> None:
    catalog = dict(CATALOG)
    names: dict[str, Any] = {"CATALOG": catalog, "Entry": Entry, "above": above}
    exec(readme_code(), names)
    metric = resolve("Perfect@2", catalog, configured={"max_grade": 3})
    values = metric.values(Lists.of([[3, 3, 1], [3, None], []]))
    np.testing.assert_array_equal(values, [1.0, 0.5, 0.0])
    assert len([line for line in readme_code().splitlines() if line.strip()]) <= 5
