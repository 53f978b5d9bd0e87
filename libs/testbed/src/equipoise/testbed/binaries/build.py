"""Builds the programs of a cluster from source, once, into a cache outside the repository.

Installed programs take precedence: first those in KUBEBUILDER_ASSETS, then those on PATH. The programs of one binary
are used from there only when all of them are installed in compatible versions. Otherwise the binary is built.
"""

import dataclasses
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.contracts.kubernetes.supported_versions import minor_versions
from equipoise.testbed.binaries.toolchain import Progress, find_go, go_environment, made_once
from equipoise.testbed.processes.guard import Guard

KUBERNETES = "v1.37.2"
OLDEST_KUBELET = (1, 34)
"""The oldest version of kubelets in the testbed."""

SOURCES = Path(__file__).parent / "go"
POLL_SECONDS = 0.2
LOG_LINES = 15
COMPILE = ("-trimpath", "-gcflags=all=-dwarf=false")
"""Flags of the compiler. It writes no debug information, which the linker removes anyway: a tenth of the time."""


@dataclass(frozen=True, kw_only=True)
class Binaries:
    """Paths of the programs of a cluster."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kwok: Path
    prometheus: Path


class BuildError(RuntimeError):
    """A program that builds something failed; the message ends with its output."""


@dataclass(frozen=True, kw_only=True)
class Module:
    """One binary of one of our Go modules. Packages that two of its binaries import are compiled once."""

    source: Path
    package: str
    programs: Mapping[str, tuple[int, int]]
    """Names of the binary, each with the oldest installed version that may replace it."""
    tags: str = ""
    link: str = "-s -w"
    version: Sequence[str] = ("--version",)
    """Arguments with which a program prints its version."""
    requirements: Path | None = None
    """A file that replaces go.mod, with hashes beside it, to build the same source with other versions."""

    @property
    def name(self) -> str:
        if len(self.programs) == 1:
            name = next(iter(self.programs))
        else:
            name = self.source.name if self.package == "." else self.package.rsplit("/", 1)[1]
        return f"{name}-{self.requirements.stem}" if self.requirements else name

    @property
    def minimum_go(self) -> tuple[int, ...]:
        """The oldest version of Go that its go.mod permits, such as (1, 26, 9); empty if it names none."""
        requirements = self.requirements or self.source / "go.mod"
        found = re.search(r"^go ([\d.]+)$", requirements.read_text(), re.MULTILINE)
        return tuple(map(int, found[1].split("."))) if found else ()

    def directory(self, cache: Path) -> Path:
        """The directory of its programs. It exists if they have been built."""
        return cache / f"{self.name}-{self.key()}"

    def key(self) -> str:
        """Cache key of all inputs of the binary, except for the version of Go."""
        digest = hashlib.sha256()
        for word in (self.package, self.tags, self.link, sys.platform, platform.machine(), *self.programs):
            digest.update(word.encode() + b"\0")
        folder = self.source / self.package
        files = [path for path in self.source.rglob("*") if path.is_file() and not _is_of_other_package(path, folder)]
        if self.requirements is not None:
            files = [path for path in files if path.suffix == ".go"]
            files += [self.requirements, self.requirements.with_suffix(".sum")]
        for file in sorted(files):
            content = file.read_bytes()
            digest.update(f"{os.path.relpath(file, self.source)}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()[:16]


def _is_of_other_package(file: Path, folder: Path) -> bool:
    """Whether a file is the source of a Go package that is not in `folder`: the module contains several programs."""
    return file.suffix == ".go" and file.parent != folder


def _kubernetes_version(version: str) -> str:
    """Flags of the linker that set the version which the programs of Kubernetes print and serve."""
    major, minor, _ = version.removeprefix("v").split(".")
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in variables.items())


CONTROL_PLANE = Module(
    source=SOURCES / "cluster",
    package=".",
    programs={
        "etcd": (3, 6),
        "kube-apiserver": (1, 37),
        "kube-controller-manager": (1, 37),
        "kube-scheduler": (1, 37),
    },
    link=f"-s -w {_kubernetes_version(KUBERNETES)}",
)
NODE = Module(
    source=CONTROL_PLANE.source,
    package="./node",
    programs={"kubelet": (1, 37), "kube-proxy": (1, 37), "kubectl": (1, 37)},
    link=CONTROL_PLANE.link,
)
"""The programs of a real node. They are no part of a cluster with fake nodes: `build` omits them."""

KWOK = Module(source=CONTROL_PLANE.source, package="sigs.k8s.io/kwok/cmd/kwok", programs={"kwok": (0, 8)})
PROMETHEUS = Module(
    source=CONTROL_PLANE.source,
    package="github.com/prometheus/prometheus/cmd/prometheus",
    programs={"prometheus": (3, 0)},
    tags="remove_all_sd",  # half the build time; file and http discovery remain
    link="-s -w -X github.com/prometheus/common/version.Version=3.15.0",
)
PROMTOOL = dataclasses.replace(
    PROMETHEUS, package="github.com/prometheus/prometheus/cmd/promtool", programs={"promtool": (3, 0)}
)
"""Checks rules and runs their tests. It is no part of a cluster: `build` omits it, and only tests of rules build it."""

WITHOUT_METRICS = (CONTROL_PLANE, KWOK)
"""What a cluster needs to run pods."""

MODULES = (*WITHOUT_METRICS, PROMETHEUS)
DESCHEDULER = Module(
    source=SOURCES / "descheduler",
    package="sigs.k8s.io/descheduler/cmd/descheduler",
    programs={"descheduler": (0, 36)},
    link="-s -w "
    "-X sigs.k8s.io/descheduler/pkg/version.version=v0.36.0 "
    # It reads a CA file at an absolute path even for plain HTTP: here from its working directory instead.
    "-X sigs.k8s.io/descheduler/pkg/descheduler/client.K8sPodCAFilePath=ca.crt",
)
"""The upstream descheduler. It is no part of a cluster: `build` omits it, and only comparisons build it."""

KARPENTER = Module(
    source=SOURCES / "karpenter",
    package="sigs.k8s.io/karpenter/kwok",
    programs={"karpenter": (1, 15)},
    link="-s -w -X sigs.k8s.io/karpenter/pkg/operator.Version=1.15.0",
)
"""Karpenter with the provider whose nodes are those of kwok. Like DESCHEDULER, only comparisons build it."""

COREDNS = Module(
    source=SOURCES / "coredns",
    package=".",
    programs={"coredns": (1, 12)},
    link="-s -w",
    version=("-version",),
)
"""The DNS server of a cluster with real nodes. Like NODE, `build` omits it."""

HELM = Module(
    source=SOURCES / "helm",
    package="helm.sh/helm/v4/cmd/helm",
    programs={"helm": (4, 3)},
    link="-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1",
    version=("version", "--short"),
)
HELM_3 = Module(
    source=SOURCES / "helm3",
    package="helm.sh/helm/v3/cmd/helm",
    programs={"helm": (3, 22)},
    link="-s -w -X helm.sh/helm/v3/internal/version.version=v3.22.0 "
    # Without these, `helm template` renders for the oldest version of Kubernetes that it knows.
    "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36",
    version=("version", "--short"),
)
KUBECONFORM = Module(
    source=SOURCES / "kubeconform",
    package="github.com/yannh/kubeconform/cmd/kubeconform",
    programs={"kubeconform": (0, 7)},
    link="-s -w -X main.version=v0.8.0",
    version=("-v",),
)
"""Checks the manifests of the chart. Like HELM_3, it is built only by tests of the chart; real nodes use HELM, too."""

ACTIONLINT = Module(
    source=SOURCES / "actionlint",
    package="github.com/rhysd/actionlint/cmd/actionlint",
    programs={"actionlint": (1, 7)},
    link="-s -w -X github.com/rhysd/actionlint.version=v1.7.12",
)
"""The linter of the workflows in .github, for their test only."""


def control_plane(kubernetes: str) -> Module:
    """The control plane of a supported minor version, such as 1.30. Raises BuildError for another one."""
    return _of_version(CONTROL_PLANE, kubernetes, minor_versions())


def node_programs(kubernetes: str) -> Module:
    """The programs of a real node with a kubelet from OLDEST_KUBELET on. Raises BuildError for another version."""
    return _of_version(NODE, kubernetes, minor_versions(OLDEST_KUBELET))


def _of_version(newest: Module, kubernetes: str, minors: Sequence[str]) -> Module:
    """The module with the requirements of a minor version, which is one of `minors`."""
    if KUBERNETES.startswith(f"v{kubernetes}."):
        return newest
    requirements = SOURCES / "kubernetes" / f"{kubernetes}.mod"
    if kubernetes not in minors or not requirements.exists():
        raise BuildError(
            f"{newest.name} of Kubernetes {kubernetes} cannot be built here; choose one of {', '.join(minors)}"
        )
    version = re.search(r"\sk8s\.io/kubernetes (v[\d.]+)", requirements.read_text())
    if version is None:
        raise BuildError(f"{requirements} names no version of k8s.io/kubernetes")
    return dataclasses.replace(newest, requirements=requirements, link=f"-s -w {_kubernetes_version(version[1])}")


def default_cache(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "equipoise" / "testbed"


def build(
    modules: Sequence[Module] = MODULES,
    *,
    kubernetes: str = "",
    cache: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    progress: Progress | None = None,
) -> Binaries:
    """Build what is not cached; takes minutes once, and milliseconds then.

    `modules`: those to build now. The result also has the paths at which a later build of the others will put them.
    `kubernetes`: the minor version of the control plane, such as 1.30. An installed one is used for the newest only.
    """
    cache = cache or default_cache(environment)
    found: dict[str, Path] = {}
    began = time.monotonic()
    built = 0
    with progress or Progress() as shown:
        for default in MODULES:
            module = control_plane(kubernetes) if kubernetes and default is CONTROL_PLANE else default
            if module is default and (installed := installed_programs(module, environment)):
                found |= installed
                shown.note(f"using {', '.join(map(str, installed.values()))}")
                continue
            directory = module.directory(cache)
            if default in modules and not directory.exists():
                built += 1
                build_module(module, cache=cache, environment=environment, progress=shown)
            found |= {program: directory / program for program in module.programs}
        if built:
            shown.note(f"the testbed's programs are in {cache}, after {minutes(time.monotonic() - began)}")
    return Binaries(**{program.replace("-", "_"): path for program, path in found.items()})


def build_module(
    module: Module, *, cache: Path, environment: Mapping[str, str] = os.environ, progress: Progress
) -> Path:
    """The directory of the module's programs. Of several processes one builds and the others wait."""
    began = time.monotonic()

    def compile_programs(result: Path) -> None:
        go = find_go(cache, progress, environment, minimum=module.minimum_go)
        progress.note(f"{module.name}: building {', '.join(module.programs)} with {go}, once")
        result.mkdir()
        _run_go(module, go, result / "binary", result.parent, environment, progress)
        for program in module.programs:
            (result / program).symlink_to("binary")
        progress.note(f"{module.name}: built in {minutes(time.monotonic() - began)}")

    return made_once(
        module.directory(cache),
        compile_programs,
        lambda: progress.show(f"{module.name}: another process builds it, {minutes(time.monotonic() - began)}"),
    )


def installed_programs(module: Module, environment: Mapping[str, str]) -> dict[str, Path]:
    """All programs of the module from KUBEBUILDER_ASSETS or PATH, or none."""
    directories = [environment.get("KUBEBUILDER_ASSETS"), environment.get("PATH")]
    search = os.pathsep.join(filter(None, directories))
    found: dict[str, Path] = {}
    releases = set()
    for program, oldest in module.programs.items():
        path = shutil.which(program, path=search)
        version = _version(Path(path), module.version) if path else ()
        if path is None or version[:2] < oldest:
            return {}
        found[program] = Path(path)
        if program.startswith("kube-"):
            releases.add(version[:2])
    # The programs of Kubernetes must all have the same minor version.
    return found if len(releases) <= 1 else {}


def _version(program: Path, arguments: Sequence[str]) -> tuple[int, ...]:
    try:
        result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    numbers = re.search(r"(\d+)\.(\d+)\.(\d+)", result.stdout + result.stderr)
    return tuple(map(int, numbers.groups())) if numbers else ()


def _run_go(
    module: Module,
    go: Path,
    output: Path,
    scratch: Path,
    environment: Mapping[str, str],
    progress: Progress,
) -> None:
    began = 0.0
    options = [*COMPILE, *([f"-tags={module.tags}"] if module.tags else [])]
    if module.requirements is not None:
        options.append(f"-modfile={module.requirements}")
    packages = 0

    def listing(lines: Sequence[str]) -> None:
        fetched = sum(line.startswith("go: downloading ") for line in lines)
        progress.show(f"{module.name}: {fetched} modules fetched, {minutes(time.monotonic() - began)}")

    def compiling(lines: Sequence[str]) -> None:
        progress.show(f"{module.name}: {progress_of_build(len(lines), packages, time.monotonic() - began)}")

    with Guard() as guard:
        steps: tuple[tuple[list[str | Path], Callable[[Sequence[str]], None]], ...] = (
            ([go, "list", "-deps", *options, "-f={{if .Stale}}{{.ImportPath}}{{end}}", module.package], listing),
            (
                [go, "build", "-v", *options, f"-ldflags={module.link}", "-o", output, module.package],
                compiling,
            ),
        )
        for number, (argv, show) in enumerate(steps):
            log = scratch / f"{number}.log"
            began = time.monotonic()
            lines = run_step(
                guard,
                argv,
                what=module.name,
                log=log,
                directory=module.source,
                environment={**environment, **go_environment()},
                show=show,
            )
            # The first step lists the packages that the second one compiles.
            packages = sum(bool(line) and not line.startswith("go: ") for line in lines)


def run_step(
    guard: Guard,
    argv: Sequence[str | Path],
    *,
    what: str,
    log: Path,
    directory: Path,
    environment: Mapping[str, str | None],
    show: Callable[[Sequence[str]], None],
) -> list[str]:
    """Run a program to its end; `show` gets the lines of its output so far. Returns them all. Raises BuildError."""
    pid = guard.start(argv, log=log, directory=directory, environment=environment)
    while (code := guard.exit_code(pid)) is None:
        show(log.read_text(errors="replace").splitlines())
        time.sleep(POLL_SECONDS)
    lines = log.read_text(errors="replace").splitlines()
    if code != 0:
        tail = "\n".join(f"  {line[:400]}" for line in lines[-LOG_LINES:])
        raise BuildError(f"{what}: `{' '.join(map(str, argv[:3]))} …` ended with code {code}:\n{tail}")
    return lines


def progress_of_build(compiled: int, packages: int, seconds: float) -> str:
    """How far a build is after `seconds`, and how long it will still take.

    A package takes longer than those that it imports, so the first half of the packages takes 0.5 ** 1.4 = 38 % of the
    time (measured with the control plane). The first few are too few for an estimate.
    """
    text = f"{compiled} of {packages} packages compiled, {minutes(seconds)}"
    done = (compiled / packages) ** 1.4 if packages else 1.0
    return f"{text}, about {minutes(seconds / done - seconds)} left" if 0.01 < done < 1 else text


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s" if seconds >= 60 else f"{seconds:.0f} s"
