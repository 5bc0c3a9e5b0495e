"""The schemas of Kubernetes' API, of each minor version, in which no unknown field passes.

The wheel of kubernetes-validate has them. pip fetches the one that is named here; it is kept as the
jars of Kafka are, and never installed: only its files are read.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema

from tests.services.kept import kept

NEWEST: Final = "1.37"
"""The newest minor version that it has."""
WHEEL: Final = f"kubernetes_validate-{NEWEST}.0-py3-none-any.whl"
PINNED: Final = (
    f"kubernetes-validate=={NEWEST}.0"
    " --hash=sha256:85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9"
)
FOLDER: Final = "kubernetes_validate/kubernetes-json-schema/v{version}.0-local-strict"
PATIENCE_S: Final = 300


def faults(found: Mapping[str, Any], version: str) -> list[str]:
    """What the API of a version, such as "1.27", refuses in an object: where, and what."""
    group, _, of = str(found["apiVersion"]).rpartition("/")
    words = [str(found["kind"]).lower(), *filter(None, [group.partition(".")[0]]), of]
    schema = _file(version, f"{'-'.join(words)}.json")
    definitions = _file(version, "_definitions.json")
    resolver = jsonschema.RefResolver(
        schema["$id"], schema, store={definitions["$id"]: definitions}
    )
    validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(found)]


@cache
def _file(version: str, name: str) -> dict[str, Any]:
    with zipfile.ZipFile(_wheel()) as archive:
        return dict(json.loads(archive.read(f"{FOLDER.format(version=version)}/{name}")))


def _wheel() -> Path:
    return kept(WHEEL, _fetched)


def _fetched(folder: Path) -> Path:
    wanted = folder / "wanted.txt"
    wanted.write_text(PINNED)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--dest", str(folder), "--requirement"]
    subprocess.run([*command, str(wanted)], check=True, timeout=PATIENCE_S)
    return folder / WHEEL
