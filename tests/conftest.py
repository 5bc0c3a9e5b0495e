"""Fixtures of all tests: shared data, random numbers, and a check that no asyncio task is left."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import hypothesis
import numpy as np
import pytest

pytest_plugins = ("tests.services.fixtures", "tests.skips", "tests.targets", "tests.run_report")

ROOT: Final = Path(__file__).parent.parent
LEAK_PATIENCE_S: Final = 1.0
"""Time to wait for tasks that are being cancelled or about to end."""

hypothesis.settings.register_profile("relevanced", deadline=None, print_blob=True)
hypothesis.settings.load_profile("relevanced")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real logs and golden numbers: RELEVANCED_SHARED, or beside the checkout."""
    folder = Path(os.environ.get("RELEVANCED_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that can be repeated: the report of a failed test has the seed."""
    seed = int(os.environ.get("RELEVANCED_SEED") or secrets.randbits(32))
    print(f"to repeat: RELEVANCED_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture
async def no_task_outlives() -> AsyncIterator[None]:
    """Fail a test if asyncio tasks still run after it and its fixtures have ended."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=LEAK_PATIENCE_S)
    running = [task for task in left if not task.done()]
    assert not running, f"tasks outlive the test: {running}"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Request `no_task_outlives` first, so that it is torn down last."""
    if isinstance(item, pytest.Function) and asyncio.iscoroutinefunction(item.function):
        item.fixturenames.insert(0, "no_task_outlives")
