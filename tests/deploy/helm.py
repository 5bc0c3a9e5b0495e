"""Helm as it is: that of PATH, or else built once by Go and kept as the jars of Kafka are."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.services.kept import kept

VERSION: Final = "v4.3.1"
ADVICE: Final = "no Helm, and no Go of 1.26 or newer that builds it"
BUILD_PATIENCE_S: Final = 1800


def helm() -> str:
    """The path of the command. Skips where it cannot be had."""
    found = shutil.which("helm")
    return found if found is not None else str(kept(f"helm-{VERSION}", _built))


def run(*arguments: str | Path, folder: Path) -> str:
    """What Helm prints; `folder` has its settings. Raises CalledProcessError, with what it says."""
    homes = {f"HELM_{name}_HOME": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    return subprocess.run(
        [helm(), *arguments],
        env=os.environ | homes,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout


def _built(folder: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip(ADVICE)
    command = [go, "install", "-ldflags=-s -w", f"helm.sh/helm/v4/cmd/helm@{VERSION}"]
    done = subprocess.run(
        command,
        env=os.environ | {"GOBIN": str(folder), "GOTOOLCHAIN": "auto"},
        capture_output=True,
        text=True,
        timeout=BUILD_PATIENCE_S,
    )
    if done.returncode != 0:
        pytest.skip(f"{ADVICE}: {done.stderr[-1000:]}")
    return folder / "helm"
