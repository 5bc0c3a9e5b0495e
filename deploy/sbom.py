"""The software bill of materials: CycloneDX 1.6 as JSON, made from the lock.

    python -m deploy.sbom    # writes deploy/sbom.cdx.json: make sbom

It lists what the program needs (scope `required`) and what its extras for users add (`optional`);
what only its tests and its development need is left out. The same lock gives the same bytes.
"""

import json
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from deploy.locked import LOCK, PROJECT, Package, direct, needed, packages, project

PATH: Final = Path(__file__).parent / "sbom.cdx.json"
FOR_USERS: Final = ("avro", "demo", "otel", "plot", "protobuf")
"""The extras that are listed."""
ONE_OF_THEM: Final = "The files of this version; an installation takes one of them."


def purl(name: str, version: str) -> str:
    """The package URL of a version."""
    return f"pkg:pypi/{name}@{version}"


def component(package: Package, scope: str) -> dict[str, Any]:
    """One package."""
    reference = purl(package.name, package.version)
    hashes = [{"alg": "SHA-256", "content": found} for found in package.hashes]
    files = {"type": "distribution", "url": reference, "comment": ONE_OF_THEM, "hashes": hashes}
    return {
        "type": "library",
        "bom-ref": reference,
        "name": package.name,
        "version": package.version,
        "scope": scope,
        "purl": reference,
        "externalReferences": [files],
    }


def bill(
    about: Mapping[str, Any], locked: Collection[Package], extras: Collection[str]
) -> dict[str, Any]:
    """The whole document. `about`: the table `project` of pyproject.toml."""
    required = needed(locked, direct(about, ()))
    listed = needed(locked, direct(about, extras))
    itself = purl(PROJECT, about["version"])
    references = {package.name: purl(package.name, package.version) for package in listed}
    needs = {
        itself: [references[name] for name in direct(about, extras)],
        **{
            references[name]: [references[p.name] for p in listed if name in p.via]
            for name in references
        },
    }
    components = [
        component(package, "required" if package in required else "optional") for package in listed
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([itself, components]))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": itself,
                "name": PROJECT,
                "version": about["version"],
                "description": about["description"],
                "licenses": [{"license": {"id": about["license"]}}],
                "purl": itself,
            }
        },
        "components": components,
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(found)} for reference, found in needs.items()
        ],
    }


def rendered() -> str:
    """The text of the file."""
    document = bill(project(), list(packages(LOCK.read_text())), FOR_USERS)
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(rendered())
