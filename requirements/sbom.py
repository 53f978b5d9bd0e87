"""`python -m requirements.sbom` prints the SBOM of the image: CycloneDX 1.6, JSON, from the same files as the image.

It needs no network and no package. The same files give the same bytes: there is no time in it, and the serial number is
derived from the contents. The base image, with Python, is not part of it: a release adds its packages
(`release.base_packages`).
"""

import json
import re
import tomllib
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from requirements.pins import Pin, read_pins
from requirements.trim import NEVER_IMPORTED

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "equipoise-image"
PROGRAM = "equipoise"
"""It depends on all of our packages that the image contains."""

_NOT_PYPY = re.compile(r"\w+ != 'PyPy'( and \w+ != 'PyPy')*")
"""The marker of a package that every image needs: the image has CPython."""


def bill_of_materials(root: Path = ROOT, base: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """The document as CycloneDX has it.

    `base`: components of the base image. Raises ValueError when a package is only in some images: then one SBOM cannot
    describe them all.
    """
    try:
        pins = read_pins((root / "requirements" / "image.txt").read_text())
    except ValueError as error:  # of its lines, or of the encoding
        raise ValueError(f"requirements/image.txt: {error}") from None
    if conditional := [pin.name for pin in pins if pin.marker and not _NOT_PYPY.fullmatch(pin.marker)]:
        raise ValueError(f"requirements/image.txt: only for some environments: {', '.join(conditional)}")
    ours = _own_packages(root)
    known = {*ours, *(pin.name for pin in pins)}
    if missing := sorted({parent for pin in pins for parent in pin.required_by} - known):
        raise ValueError(f"requirements/image.txt: it has no package {', '.join(missing)}, which others name")
    contents = {
        "metadata": {"component": _own_component("container", IMAGE, ours[PROGRAM]["version"])},
        "components": [
            *(_own_component("library", name, project["version"]) for name, project in ours.items()),
            *map(_component, pins),
            *base,
        ],
        "dependencies": _dependencies(ours, pins, [each["bom-ref"] for each in base]),
    }
    serial_number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(contents, sort_keys=True)).urn
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": serial_number, "version": 1, **contents}


def _own_packages(root: Path) -> dict[str, dict[str, Any]]:
    """The tables `project` of the packages that the image contains, by name."""
    projects = {
        project["name"]: project
        for path in root.glob("[ls]*/*/pyproject.toml")
        for project in [tomllib.loads(path.read_text())["project"]]
    }
    return {name: projects[name] for name in sorted({PROGRAM, *_required(projects[PROGRAM])} & projects.keys())}


def _required(project: Mapping[str, Any]) -> list[str]:
    """Names of the dependencies, with those of the extras `services`, `scheduler` and `certificates`."""
    extras = project.get("optional-dependencies", {})
    optional = (each for extra in ("services", "scheduler", "certificates") for each in extras.get(extra, []))
    return [re.split(r"[^a-z0-9-]", requirement)[0] for requirement in (*project["dependencies"], *optional)]


def _own_component(kind: str, name: str, version: str) -> dict[str, Any]:
    return {
        "type": kind,
        "bom-ref": name,
        "name": name,
        "version": version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }


def _component(pin: Pin) -> dict[str, Any]:
    purl = f"pkg:pypi/{pin.name}@{pin.version}"
    files = {
        "type": "distribution",
        "url": purl,
        "comment": "the image contains one of these files, depending on its architecture",
        "hashes": [{"alg": "SHA-256", "content": each} for each in pin.hashes],
    }
    return {
        "type": "library",
        "bom-ref": purl,
        "name": pin.name,
        "version": pin.version,
        "purl": purl,
        # What is required, and removed from the image, because nothing imports it.
        "scope": "excluded" if pin.name in NEVER_IMPORTED else "required",
        "externalReferences": [files],
    }


def _dependencies(
    ours: Mapping[str, Mapping[str, Any]], pins: Sequence[Pin], base: Sequence[str]
) -> list[dict[str, Any]]:
    """Of the image on our packages and on its base, of our packages on one another, and of all on the pinned ones."""
    references = {**{name: name for name in ours}, **{pin.name: f"pkg:pypi/{pin.name}@{pin.version}" for pin in pins}}
    graph = {name: {each for each in _required(project) if each in ours} for name, project in ours.items()}
    for pin in pins:
        graph.setdefault(pin.name, set())
        for parent in pin.required_by:
            graph.setdefault(parent, set()).add(pin.name)
    return [
        {"ref": IMAGE, "dependsOn": [*ours, *base]},
        *(
            {"ref": references[name], "dependsOn": sorted(references[each] for each in graph[name])}
            for name in sorted(graph)
        ),
        *({"ref": reference, "dependsOn": []} for reference in base),
    ]


if __name__ == "__main__":
    print(json.dumps(bill_of_materials(), indent=1))
