"""What holds for every test: its servers, its random numbers, and that no task outlives it."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import hypothesis
import numpy as np
import pytest

pytest_plugins = ("tests.services.fixtures", "tests.skips")

ROOT: Final = Path(__file__).parent.parent
LEAK_PATIENCE_S: Final = 1.0
"""Time for tasks that were told to end, or are about to."""

hypothesis.settings.register_profile("relevanced", deadline=None, print_blob=True)
hypothesis.settings.load_profile("relevanced")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real logs and golden numbers: beside the checkout, or where RELEVANCED_SHARED says."""
    folder = Path(os.environ.get("RELEVANCED_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that can be had again: the seed stands in the report of a failed test."""
    seed = int(os.environ.get("RELEVANCED_SEED") or secrets.randbits(32))
    print(f"to repeat: RELEVANCED_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture
async def no_task_outlives() -> AsyncIterator[None]:
    """Fails the test whose asyncio tasks still run after it and after its fixtures."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=LEAK_PATIENCE_S)
    running = [task for task in left if not task.done()]
    assert not running, f"tasks outlive the test: {running}"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Asks for `no_task_outlives` first, so that it is the last to be torn down."""
    if isinstance(item, pytest.Function) and asyncio.iscoroutinefunction(item.function):
        item.fixturenames.insert(0, "no_task_outlives")
