"""Tools that Go builds: those of PATH, or else built once, where that is asked for, and kept as the
jars of Kafka are."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.services.kept import kept

BUILD_PATIENCE_S: Final = 1800
VARIABLE: Final = "RELEVANCED_BUILD_TOOLS"
"""Set where a tool that is neither on PATH nor kept is to be built. The workflows set it."""


@dataclass(frozen=True)
class GoTool:
    """A command, by the package that it is built of."""

    name: str
    package: str
    version: str

    def run(self, *arguments: str | Path, variables: Mapping[str, str] | None = None) -> str:
        """What it prints; `variables` beside those of the environment. Raises CalledProcessError,
        with what it says. Skips where the tool cannot be had."""
        return subprocess.run(
            [self._path(), *arguments],
            env=os.environ | (variables or {}),
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        ).stdout

    def _path(self) -> str:
        found = shutil.which(self.name)
        return found if found is not None else str(kept(f"{self.name}-{self.version}", self._built))

    def _built(self, folder: Path) -> Path:
        if VARIABLE not in os.environ:
            pytest.skip(f"no {self.name}: {VARIABLE}=1 lets Go build it, in some minutes")
        go = shutil.which("go")
        assert go is not None, f"{VARIABLE} is set, and there is no go"
        done = subprocess.run(
            [go, "install", "-ldflags=-s -w", f"{self.package}@{self.version}"],
            env=os.environ | {"GOBIN": str(folder), "GOTOOLCHAIN": "auto"},
            capture_output=True,
            text=True,
            timeout=BUILD_PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr[-1000:]
        return folder / self.name


HELM: Final = GoTool("helm", "helm.sh/helm/v4/cmd/helm", "v4.3.1")
ACTIONLINT: Final = GoTool("actionlint", "github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12")
JSONNET: Final = GoTool("jsonnet", "github.com/google/go-jsonnet/cmd/jsonnet", "v0.22.0")
