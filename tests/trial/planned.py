"""What happens in the scenarios of planned work, which pages nobody."""

import time

from tests.trial.installation import Installation, until
from tests.trial.stage import ALL_ROLES, Stage, small


def changed_configuration(stage: Stage) -> None:
    """A rolling update: the new processes come while the old ones still run."""
    made = small(stage)
    stage.broken()
    made.groupings = '["country"], ["device"], ["country", "device"]'
    made.run(new_worker="worker", new_exporter="exporter")
    for name in ("new_worker", "new_exporter"):
        until(lambda: made.ready(name), f"{name} is ready")  # noqa: B023
    time.sleep(60)
    for name in ALL_ROLES:
        made.remove(name)


def rolling_restart(stage: Stage) -> None:
    made = small(stage)
    stage.broken()
    made.roll(**ALL_ROLES)


def roll_without_pause(stage: Stage) -> None:
    made = small(stage)
    stage.broken()
    for name, role in ALL_ROLES.items():
        made.restart(name, role)


def drain(stage: Stage) -> None:
    """A node with a worker and the exporter that serves ends; both begin elsewhere."""
    made = small(stage)
    stage.broken()
    leader = made.leader()
    assert leader is not None
    made.run(moved_worker="worker", moved_exporter="exporter")
    made.remove("worker")
    made.remove(leader)


def rollback(stage: Stage) -> None:
    """Another layout is rolled out, and back."""
    made = small(stage)
    stage.broken()
    groupings = made.groupings
    for changed in (f'{groupings}, ["country", "device"]', groupings):
        made.groupings = changed
        made.roll(**ALL_ROLES)


def one_three_one(stage: Stage) -> None:
    made = stage.installation()
    stage.searched(made, hours=1)
    made.run(worker="worker", exporter="exporter")
    made.catch_up()
    time.sleep(60)
    stage.broken()
    made.run(second="worker", third="worker")
    time.sleep(60)
    made.remove("second")
    made.remove("worker")


def beside(stage: Stage) -> tuple[Installation, Installation]:
    """An installation, and one with another join that has taken over from it."""
    former = small(stage)
    stage.broken()
    later = stage.successor()
    later.attribution = "3m"
    later.run(worker="worker", exporter="exporter")
    later.catch_up()
    time.sleep(60)
    return former, later


def replaced(stage: Stage) -> None:
    former, _ = beside(stage)
    for name in list(former.daemons):
        former.remove(name)


def gone_back(stage: Stage) -> None:
    """The former one serves again."""
    _, later = beside(stage)
    later.retire()
    time.sleep(60)
    for name in list(later.daemons):
        later.remove(name)


def retired(stage: Stage) -> None:
    """Without a successor."""
    made = small(stage)
    stage.broken()
    made.retire()
    time.sleep(60)
    for name in list(made.daemons):
        made.remove(name)
