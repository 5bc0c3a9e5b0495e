"""A checkout of the project, without its tests, to build and install from."""

import shutil
from pathlib import Path

from tests.deploy.chart import DEPLOY
from tests.test_layout import project_files


def copied(folder: Path) -> Path:
    """Copy the files as they are now into the folder, and return it."""
    for name in project_files():
        if not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(DEPLOY.parent / name, folder / name)
    return folder
