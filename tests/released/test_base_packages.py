"""The packages of the base image in the SBOM."""

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from release import ReleaseError
from release.base_packages import base_components
from release.image_archive import read_image
from released.oci import DEBIAN, write_image
from requirements.sbom import bill_of_materials

LIBC = "pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=debian-13&upstream=glibc%402.41-12%2Bb1"
FILES = "pkg:deb/debian/base-files@1%3A13.8%2Bdeb13u8?arch=amd64&distro=debian-13"


def test_the_installed_packages_of_debian_and_python_are_listed(tmp_path: Path) -> None:
    """A package that was removed, and a line of a description that looks like a field, are not."""
    found = base_components([read_image(write_image(tmp_path / "image.tar", python="3.13.1"))])

    assert [each["purl"] for each in found] == [FILES, LIBC, "pkg:generic/python@3.13.1"]
    assert [(each["name"], each["version"]) for each in found] == [
        ("base-files", "1:13.8+deb13u8"),
        ("libc6", "2.41-12"),
        ("python", "3.13.1"),
    ]


def test_the_packages_of_two_architectures_are_listed_once_each(tmp_path: Path) -> None:
    arm = {name: text.replace("amd64", "arm64") for name, text in DEBIAN.items()}
    images = [
        read_image(write_image(tmp_path / "amd64.tar", python="3.13.1")),
        read_image(write_image(tmp_path / "arm64.tar", (arm,), architecture="arm64", python="3.13.1")),
    ]

    assert [each["name"] for each in base_components(images)] == ["base-files"] * 2 + ["libc6"] * 2 + ["python"]
    assert base_components(images) == base_components(images[::-1])


def test_the_sbom_with_the_base_is_valid_and_the_image_depends_on_its_packages(tmp_path: Path) -> None:
    base = base_components([read_image(write_image(tmp_path / "image.tar", python="3.13.1"))])
    document = bill_of_materials(base=base)
    graph = {each["ref"]: each["dependsOn"] for each in document["dependencies"]}

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    assert graph.keys() == {"equipoise-image", *(each["bom-ref"] for each in document["components"])}
    assert {LIBC, FILES} < set(graph["equipoise-image"])
    assert document["serialNumber"] != bill_of_materials()["serialNumber"]


@pytest.mark.parametrize("absent", DEBIAN)
def test_an_image_without_a_list_of_packages_is_refused(tmp_path: Path, absent: str) -> None:
    """An SBOM without the base would look complete."""
    layer = {name: text for name, text in DEBIAN.items() if name != absent}

    with pytest.raises(ReleaseError, match="build it from a base of Debian"):
        base_components([read_image(write_image(tmp_path / "image.tar", (layer,)))])
