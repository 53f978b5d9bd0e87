"""The SBOM of the image is valid CycloneDX, and lists the packages and hashes that the image is built from."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from deployment.base import ROOT
from deployment.image import DOCKERFILE, docker_context
from requirements.pins import read_pins
from requirements.sbom import bill_of_materials

from equipoise.contracts.configuration.section_names import SECTIONS

PINS = read_pins((ROOT / "requirements" / "image.txt").read_text())


def printed(folder: Path) -> str:
    """The command of the Dockerfile, without the packages of this environment."""
    command = [sys.executable, "-S", "-m", "requirements.sbom"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_sbom_is_valid() -> None:
    """By the published schema, without unknown fields."""
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    document = bill_of_materials()

    assert validator.validate_str(json.dumps(document)) is None
    assert validator.validate_str(json.dumps({**document, "unknown": 1})) is not None


def test_the_sbom_lists_what_is_installed_with_all_hashes() -> None:
    found = {each["name"]: each for each in bill_of_materials()["components"]}
    ours = {"equipoise", *(f"equipoise-{name}" for name in ("common", "scheduling", "scheduler", *SECTIONS))}

    assert found.keys() == {*ours, *(pin.name for pin in PINS)}
    for pin in PINS:
        (files,) = found[pin.name]["externalReferences"]
        assert found[pin.name]["purl"] == f"pkg:pypi/{pin.name}@{pin.version}"
        assert files["hashes"] == [{"alg": "SHA-256", "content": each} for each in pin.hashes]


def test_every_component_is_reached_from_the_image() -> None:
    """The graph names each component once, and only components."""
    document = bill_of_materials()
    graph = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}
    assert len(graph) == len(document["dependencies"])
    assert graph.keys() == {"equipoise-image", *(each["bom-ref"] for each in document["components"])}
    reached = {"equipoise-image"}
    while following := {each for ref in reached for each in graph[ref]} - reached:
        reached |= following

    assert reached == graph.keys()
    assert "equipoise-common" in graph["equipoise-binder"]
    assert any(each.startswith("pkg:pypi/msgspec@") for each in graph["equipoise-common"])


def test_the_build_of_the_image_writes_the_same_sbom(tmp_path: Path) -> None:
    """From the files that .dockerignore leaves, and each time with the same bytes."""
    assert printed(docker_context(tmp_path)) == printed(ROOT)
    assert re.findall(r"^RUN python -m requirements\.sbom > /opt/equipoise/\S+$", DOCKERFILE, re.M)


def test_a_package_that_only_some_images_contain_is_refused(tmp_path: Path) -> None:
    """One SBOM describes the images of all architectures."""
    folder = tmp_path / "requirements"
    folder.mkdir()
    text = (ROOT / "requirements" / "image.txt").read_text()
    (folder / "image.txt").write_text(re.sub(r"^(msgspec==\S+)", r"\1 ; platform_machine == 'arm64'", text, flags=re.M))

    with pytest.raises(ValueError, match="msgspec"):
        bill_of_materials(tmp_path)
