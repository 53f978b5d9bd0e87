"""The image contains the services, the setup step and the commands that use a cluster, and nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from deployment.base import ROOT
from deployment.compose import compose_document
from deployment.image import DOCKERFILE, docker_context
from requirements.pins import read_pins
from requirements.sbom import bill_of_materials

from equipoise.cli.main import COMMANDS, EXTRAS
from equipoise.contracts.configuration.section_names import SECTIONS

NOT_IN_IMAGE = {
    command: extra for command, (extra, _) in EXTRAS.items() if extra not in ("services", "scheduler", "certificates")
}
PACKAGES = {"contracts", "runtime", "cli", "scheduling", "scheduler", *SECTIONS}
UV = os.environ.get("UV", ROOT / ".tools" / "bin" / "uv")
IN_IMAGE = {pin.name for pin in read_pins((ROOT / "requirements" / "image.txt").read_text())}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment of the image: our packages by the command of the Dockerfile, the others linked from this one.

    It is trimmed as in the Dockerfile, which also proves that it is small enough.
    """
    folder = tmp_path_factory.mktemp("image")
    venv, context = folder / "venv", docker_context(folder / "context")
    ((install, trim),) = re.findall(
        r"^RUN uv (pip install .*--offline.*)\nRUN /opt/equipoise/bin/(python -m .*)$", DOCKERFILE, re.MULTILINE
    )
    environment = {**os.environ, "VIRTUAL_ENV": str(venv), "UV_CACHE_DIR": str(folder / "cache")}
    environment.pop("UV_PYTHON", None)
    for command in (f"venv --python {sys.executable} {venv}", install):
        subprocess.run(f"{UV} {command}", shell=True, cwd=context, env=environment, check=True)
    packages = site_packages(venv)
    # aiohttp requires typing-extensions before Python 3.13; the image has a newer one.
    for name in IN_IMAGE | {"typing-extensions"}:
        for file in distribution(name).files or ():
            if file.parts[0] not in ("..", "__pycache__") and not (packages / file.parts[0]).exists():
                link(Path(str(distribution(name).locate_file(file.parts[0]))), packages / file.parts[0])
    subprocess.run(f"{venv}/bin/{trim}", shell=True, cwd=context, check=True)
    return venv


def link(source: Path, target: Path) -> None:
    """The files have two names, or are copied to another disk. Both may be removed without the other."""

    def link_file(each: str, other: str) -> None:
        try:
            os.link(each, other)
        except OSError:
            shutil.copy2(each, other)

    if source.is_dir():
        shutil.copytree(source, target, copy_function=link_file)
    else:
        link_file(str(source), str(target))


def site_packages(venv: Path) -> Path:
    (found,) = venv.glob("lib/python3*/site-packages")
    return found


def run_in(image: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    plain = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [image / "bin" / program, *arguments], env=plain, capture_output=True, text=True, check=False, timeout=100
    )


def test_our_packages_in_the_image_are_complete_and_without_tests(image: Path) -> None:
    """Services, contracts, runtime, scheduling library and CLI; built with an empty cache, without a registry."""
    installed = site_packages(image)
    files = {str(path.relative_to(installed)) for path in (installed / "equipoise").rglob("*.*") if path.is_file()}
    sources = {
        str(path.relative_to(folder))
        for package in PACKAGES
        for folder in ROOT.glob(f"[ls]*/*/src/equipoise/{package}/../..")
        for path in (folder / "equipoise" / package).rglob("*.*")
        if path.is_file() and path.suffix != ".pyc"
    }

    assert {path.name for path in (installed / "equipoise").iterdir()} == PACKAGES
    assert files == sources
    assert not [name for name in files if re.search(r"(^|/)(tests/|test_|conftest)", name)]


def test_everything_in_the_image_can_be_imported(image: Path) -> None:
    """Each module of the services, contracts, runtime and of the commands without extras finds what it imports.

    `report --html` names its extra. Takes seconds: Python compiles all modules.
    """
    script = """
import importlib, json, pkgutil, sys
for package in json.loads(sys.argv[1]):
    for module in pkgutil.walk_packages([*importlib.import_module(package).__path__], package + "."):
        if not module.name.startswith(tuple(json.loads(sys.argv[2]))):
            importlib.import_module(module.name)
"""
    packages = json.dumps([f"equipoise.{name}" for name in sorted(PACKAGES)])
    result = run_in(
        image,
        "python",
        "-c",
        script,
        packages,
        json.dumps(
            [
                f"equipoise.cli.{name}"
                for name in (
                    *NOT_IN_IMAGE,
                    "commands.testbed",
                    "report.page",
                    "views.terminal.screen",
                    "views.terminal.top",
                )
            ]
        ),
    )

    assert (0, "") == (result.returncode, result.stderr)
    assert "pip install 'equipoise[lab]'" in run_in(image, "equipoise", "report", "--html", "report.html").stderr


def test_the_sbom_excludes_what_was_removed_from_the_image(image: Path) -> None:
    names = {path.name.partition("-")[0].replace("_", "-").lower() for path in site_packages(image).glob("*.dist-info")}
    scopes = {each["name"]: each.get("scope") for each in bill_of_materials()["components"]}

    assert {name for name, scope in scopes.items() if scope == "excluded"} == IN_IMAGE - names
    assert {"dateparser", "regex"} <= IN_IMAGE - names


def test_the_program_in_the_image_lists_the_commands_that_it_has(image: Path) -> None:
    listed = run_in(image, "equipoise", "--help")
    by_task, _, others = listed.stdout.partition("\n\n")[2].partition("\nOther commands")
    names = re.findall(r"^  (\w+)  ", by_task, re.MULTILINE)
    names += re.findall(r"\w+", others.partition(":\n")[2].partition("\n\n")[0])

    assert sorted(names) == sorted(name for name in COMMANDS if name not in NOT_IN_IMAGE)
    assert run_in(image, "equipoise", "setup", "--help").returncode == 0
    assert run_in(image, "equipoise", "version").stdout == f"equipoise {distribution('equipoise').version}\n"


@pytest.mark.parametrize("command", NOT_IN_IMAGE)
def test_a_command_that_is_not_in_the_image_states_what_it_requires(image: Path, command: str) -> None:
    result = run_in(image, "equipoise", command)

    assert (1, "") == (result.returncode, result.stdout)
    assert f"`equipoise {command}` is not installed here: run pip install 'equipoise[{NOT_IN_IMAGE[command]}]'." in (
        result.stderr
    )


def test_the_extras_of_the_commands_exist() -> None:
    declared = tomllib.loads((ROOT / "libs" / "cli" / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    assert {extra for extra, _ in EXTRAS.values()} == declared.keys()


def test_an_error_is_reported_without_the_testbed(image: Path) -> None:
    """The program recognizes errors of the testbed only where there is one."""
    result = run_in(image, "equipoise", "config", "validate", "/nowhere.yaml")

    assert result.returncode in (1, 2)
    assert "/nowhere.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_image_has_no_pip() -> None:
    """Neither the packages nor the base image bring a program that installs others."""
    final = DOCKERFILE.rpartition("\nFROM ")[2]

    assert not IN_IMAGE & {"pip", "uv", "setuptools", "wheel"}
    assert "pip uninstall" in final
    assert "ensurepip" in final


def test_both_stages_have_the_base_that_the_caller_chooses() -> None:
    """With one argument for the digest: the environment refers to the Python of its base."""
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON_IMAGE}"] * 2
    assert "\nARG PYTHON_IMAGE=python:3.13-slim\n\nFROM " in DOCKERFILE
    assert compose_document()["x-service"]["build"]["args"] == {"PYTHON_IMAGE": "python:3.13-slim"}
    assert "\nimage_python=3.13 " in (ROOT / "requirements" / "lock.sh").read_text(), "the versions for this Python"
