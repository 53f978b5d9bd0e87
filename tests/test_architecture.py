"""The architecture, as a test."""

import ast
import configparser
import fnmatch
import pkgutil
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import equipoise

ROOT = Path(__file__).parents[1]
MODULE_OPTIONS = ("root_package", "source_modules", "containers", "layers")
SERVICES = ("collector", "annotator", "scorer", "descheduler", "binder", "reclaimer", "agent", "scheduler")


def modules() -> set[str]:
    return {module.name for module in pkgutil.walk_packages(equipoise.__path__, "equipoise.")} | {"equipoise"}


def patterns() -> list[tuple[str, str]]:
    """Every module pattern of .importlinter with the contract that names it."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    found = []
    for section in parser.sections():
        values = parser[section]
        containers = values.get("containers", "").split()
        for option in MODULE_OPTIONS:
            for word in re.sub(r"\(\w+\)|[|:]", " ", values.get(option, "")).split():
                names = (
                    [f"{container}.{word}" for container in containers] if option == "layers" and containers else [word]
                )
                found += [(section, name) for name in names]
        for line in values.get("ignore_imports", "").splitlines():
            if "->" in line:
                found.append((section, line.split("->")[0].strip()))
    return found


def test_the_architecture_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services never import one another, decisions know no I/O, each client is touched in one place."""
    monkeypatch.chdir(ROOT)

    assert 0 == lint_imports(config_filename=str(ROOT / ".importlinter"), no_cache=True)


@pytest.mark.parametrize(("contract", "pattern"), patterns())
def test_every_pattern_of_the_architecture_matches_a_module(contract: str, pattern: str) -> None:
    """import-linter silently keeps a contract whose pattern matches nothing."""
    assert fnmatch.filter(modules(), pattern), f"{contract}: {pattern} matches no module"


LAYERS = {"shell", "decisions", "state"}
TOP_FILES = {"__init__.py", "__main__.py", "settings.py", "service.py"}


@pytest.mark.parametrize("service", SERVICES)
def test_every_file_of_a_service_lies_in_a_layer(service: str) -> None:
    """`.importlinter` names folders: no contract would apply to a file outside of them."""
    folder = ROOT / "services" / service / "src" / "equipoise" / service
    allowed = LAYERS | ({"sources"} if service == "collector" else set())
    outside = [
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if path.relative_to(folder).parts[0] not in allowed | TOP_FILES
    ]

    assert [] == outside, "move it to shell, decisions or state"


@pytest.mark.parametrize("layer", sorted(LAYERS))
@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_every_layer(service: str, layer: str) -> None:
    """import-linter ignores an optional layer that does not exist."""
    assert f"equipoise.{service}.{layer}" in modules()


MOST_MODULES = 15


def test_no_folder_contains_too_many_modules() -> None:
    """A reader must find the file to change from the file list alone."""
    counts: dict[str, int] = {}
    for file in [*ROOT.glob("services/*/src/**/*.py"), *ROOT.glob("libs/*/src/**/*.py")]:
        if file.name != "__init__.py":
            folder = str(file.parent.relative_to(ROOT))
            counts[folder] = counts.get(folder, 0) + 1

    assert {} == {folder: count for folder, count in counts.items() if count > MOST_MODULES}


def test_tests_mirror_the_source() -> None:
    """A reader must find the tests of a module by its path."""
    expected: dict[tuple[str, str], set[str]] = {}
    for source in pkgutil.walk_packages(equipoise.__path__, "equipoise."):
        parts = source.name.split(".")[1:]
        folder = parts if source.ispkg else parts[:-1]
        expected.setdefault((parts[0], f"test_{parts[-1]}.py"), set()).add("/".join(["tests", *folder]))

    elsewhere = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        folder_of_test = str(file.parent.relative_to(ROOT))
        package = file.relative_to(ROOT).parts[1]
        folders = expected.get((package, file.name), {folder_of_test})
        if folder_of_test not in folders:
            elsewhere[str(file.relative_to(ROOT))] = folders

    assert {} == elsewhere


def test_no_class_name_is_used_twice() -> None:
    """A reader who searches for a class must find one definition."""
    found: dict[str, list[str]] = {}
    for file in [*ROOT.glob("services/*/src/**/*.py"), *ROOT.glob("libs/*/src/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(file.relative_to(ROOT)))

    assert {} == {name: files for name, files in found.items() if len(files) > 1}


def test_every_package_is_type_checked() -> None:
    """By itself mypy finds only the first folder of a namespace package."""
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]

    ours = {f"equipoise.{module.name}" for module in pkgutil.iter_modules(equipoise.__path__)}
    others = {"bench", "charts.generator", "monitoring", "release", "requirements", "scheduling.parity"}
    assert ours | others == set(checked["packages"])
    folders = {str(folder.parent.relative_to(ROOT)) for folder in ROOT.glob("*/*/src/equipoise")}
    assert {*folders, ".", "tests"} == set(checked["mypy_path"])


def test_the_namespace_has_no_init_file() -> None:
    """A stray src/equipoise/__init__.py would hide every other distribution of the namespace."""
    assert [] == list(ROOT.glob("*/*/src/equipoise/__init__.py"))


@pytest.mark.parametrize("service", SERVICES)
def test_every_service_has_the_same_files(service: str) -> None:
    """Four files have the same role in each. The scheduler is started by its command, which has options."""
    folder = ROOT / "services" / service / "src" / "equipoise" / service
    missing = [
        name
        for name in sorted(TOP_FILES - ({"__main__.py"} if service == "scheduler" else set()))
        if not (folder / name).exists()
    ]

    assert [] == missing


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_lists_its_subscriptions_messages_and_writes(service: str) -> None:
    """In three lines of its package's docstring."""
    text = (ROOT / "services" / service / "src" / "equipoise" / service / "__init__.py").read_text()

    assert [] == [heading for heading in ("Subscribes to:", "Publishes:", "API access:") if heading not in text]


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "base", "manager", "types", "constants", "misc"])
def test_no_module_has_a_name_without_meaning(name: str) -> None:
    """The name of a module describes its contents."""
    assert [] == [module for module in modules() if module.rsplit(".", 1)[-1] == name]


def test_no_file_contains_an_unresolved_merge_conflict() -> None:
    """Documents have no syntax that a conflict would break."""
    search = ["git", "grep", "-I", "--line-number", "-E", "^(<{7}|>{7}) "]
    found = subprocess.run(search, cwd=ROOT, capture_output=True, text=True, check=False)

    assert ("", "", 1) == (found.stdout, found.stderr, found.returncode)
