"""axe-core, which finds what people who cannot see the page, or not well, cannot use.

npm fetches the one version that is named here, which is kept outside the tree as the jars of Kafka
are. Nothing of it is installed with the program.
"""

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

from tests.page.browser import Page
from tests.services.kept import kept

VERSION: Final = "4.14.1"
SHA512: Final = (
    "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
    "4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5"
)
"""Of the package's archive, in hexadecimal."""
ADVICE: Final = "npm is not on PATH: it fetches axe-core (Debian: apt-get install npm)"
PATIENCE_S: Final = 120.0


class AxeUnavailable(Exception):
    """It cannot be had here. The message says why."""


def script() -> str:
    """The text of axe-core. Raises AxeUnavailable."""
    kept_at = kept(f"axe-core-{VERSION}.tgz", _fetched)
    found = hashlib.sha512(kept_at.read_bytes()).hexdigest()
    assert found == SHA512, f"{kept_at}: SHA-512 {found}: must be {SHA512}"
    with tarfile.open(kept_at) as archive:
        file = archive.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()


def _fetched(folder: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise AxeUnavailable(ADVICE)
    command = [npm, "pack", f"axe-core@{VERSION}", "--silent", "--ignore-scripts"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    archives = list(folder.glob("*.tgz"))
    if done.returncode != 0 or not archives:
        raise AxeUnavailable(f"npm failed:\n{done.stdout}{done.stderr}")
    return archives[0]


async def violations(page: Page, axe: str) -> list[str]:
    """What breaks a rule of axe-core on the page as it is shown, all rules asked."""
    if not await page.value("typeof axe === 'object'"):
        await page.value(f"{axe}; 0")
    options = json.dumps({"resultTypes": ["violations"], "preload": False})
    found = await page.value(f"axe.run(document, {options}).then(one => one.violations)")
    return [_said(one, node) for one in found for node in one["nodes"]]


def _said(violation: dict[str, Any], node: dict[str, Any]) -> str:
    return f"{violation['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary']}"
