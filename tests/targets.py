"""Which tests are in `make test`, and which follow in `make test-rest`.

A test is of the rest, and has the mark `rest`, where

* the longest path in `TABLE` that its id begins with says so, or
* its seed is not among the first three (`tests/seeds.py`).

`make test` is `pytest -m "not rest"`, `make test-rest` is `pytest -m rest`: together they are
`make test-all`, and no test is in both.
"""

from pathlib import Path
from typing import Final, Literal

import pytest

Target = Literal["test", "rest", "all"]

TEST: Final = "test"
REST: Final = "rest"
TABLE: Final = {
    "tests": TEST,
    "tests/bench": REST,
    "tests/chaos": REST,
    # simulated shops for days, and one change planted in each stored field
    "tests/daemon/changes/test_repairs.py": REST,
    "tests/daemon/exporter/test_weeks_later.py": REST,
    "tests/daemon/recompute/verify/test_plants.py": REST,
    # what would be proven wrongly without a rule, by many cuts of a log
    "tests/daemon/recompute/verify/test_proof.py::test_most_cuts_prove_something": REST,
    "tests/daemon/recompute/verify/test_proof.py"
    "::test_without_the_margin_the_rest_of_a_log_would_differ": REST,
    "tests/daemon/recompute/verify/test_proof.py"
    "::test_without_the_sum_crowded_groupings_would_differ": REST,
    # much simulated traffic, for commands that people run by hand
    "tests/daemon/tools/doctor/test_attributes.py": REST,
    "tests/daemon/tools/doctor/test_bodies.py": REST,
    "tests/daemon/tools/doctor/test_formats.py": REST,
    "tests/daemon/tools/doctor/test_guessing.py": REST,
    "tests/daemon/tools/doctor/test_other_kinds.py": REST,
    "tests/daemon/tools/doctor/test_traffic.py": REST,
    "tests/daemon/tools/simulate/test_traffic.py": REST,
    # documents and dashboards; but not the chart, nor the rules in promtool and Prometheus
    "tests/deploy": REST,
    "tests/deploy/test_dashboards.py": TEST,
    "tests/deploy/test_how_long_until.py": TEST,
    "tests/deploy/test_lock.py": TEST,
    "tests/deploy/test_names.py": TEST,
    "tests/deploy/test_query_examples.py": TEST,
    "tests/deploy/test_tables.py": TEST,
    "tests/fuzz": REST,
    # one page in the browser
    "tests/page": REST,
    "tests/page/test_page.py::test_numbers_are_those_of_the_api": TEST,
    "tests/page/test_page.py::test_the_page_shows_the_regression_of_the_demo": TEST,
    # what the doors promise, on one Kafka and each kind of Redis, the daemon as users run it, and
    # the whole path with a killed worker; most others are about faults of the servers
    "tests/services": REST,
    "tests/services/test_acknowledgements.py": TEST,
    "tests/services/test_daemon.py": TEST,
    "tests/services/test_damage.py": TEST,
    "tests/services/test_judged_lanes.py": TEST,
    "tests/services/test_kafka_source.py": TEST,
    "tests/services/test_lane_log.py": TEST,
    "tests/services/test_layout_registry.py": TEST,
    "tests/services/test_mapped_topic.py": TEST,
    "tests/services/test_markers.py": TEST,
    "tests/services/test_past_store.py": TEST,
    "tests/services/test_redis_client.py": TEST,
    "tests/services/test_redis_faults.py": TEST,
    "tests/services/test_redis_mirror.py": TEST,
    "tests/services/test_redis_namespace.py": TEST,
    "tests/services/test_redis_store.py": TEST,
    "tests/services/test_servers.py": TEST,
    "tests/services/test_torn_logs.py": TEST,
    "tests/soak": REST,
    "tests/trial": REST,
}
"""Beginning of the path or id of a test, and where it belongs; the longest that fits decides."""
MARKS: Final = {"test": "not rest", "rest": "rest", "all": ""}
"""What pytest selects for a target."""


def place_of(test_id: str) -> str:
    """What the table says of a test or a file."""
    fits = [
        path for path in TABLE if test_id.startswith(path) and test_id[len(path) :][:1] in "/:["
    ]
    return TABLE[max(fits, key=len)]


def has_quick_tests(file: str) -> bool:
    """Whether a file may have tests of `make test`."""
    return place_of(file) == TEST or any(
        path.startswith(f"{file}::") for path, place in TABLE.items() if place == TEST
    )


def test_files(root: Path) -> list[str]:
    """The files with tests, as paths below `root`."""
    return sorted(path.relative_to(root).as_posix() for path in root.glob("tests/**/test_*.py"))


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if place_of(item.nodeid) == REST:
            item.add_marker("rest")
