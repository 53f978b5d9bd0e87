"""The images of real nodes, built by buildah without a registry, as OCI archives in the cache."""

import hashlib
import importlib.metadata
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from equipoise.runtime.bus.dev_server import nats_server_binary
from equipoise.testbed.binaries.build import minutes
from equipoise.testbed.binaries.toolchain import Progress, keep_newest, made_once
from equipoise.testbed.real_nodes import steps
from equipoise.testbed.real_nodes.node_files import SANDBOX_IMAGE
from equipoise.testbed.real_nodes.tree import BASE_TREE, NODE_TREE, debian_tree

BASE_IMAGE = "localhost/python:3.13-slim"
"""The base image. The Dockerfile has only its short name, which buildah looks up in localhost first."""

BUSYBOX_IMAGE = "docker.io/library/busybox:latest"
NATS_IMAGE = "docker.io/library/nats:2.15-alpine"
PROMETHEUS_IMAGE = "docker.io/prom/prometheus:v3.15.0"
SOURCES = ("Dockerfile", ".dockerignore", "requirements", "libs/common", "libs/cli", "libs/scheduling", "services")
"""The files of a clone from which the image of Equipoise is built."""

ARCHIVES_KEPT = 3
"""The number of images of Equipoise in the cache. Every change of a source file creates a new one."""

FORMAT = "oci-archive"
"""The format of archives, as buildah names it. containerd keeps the digest of the image."""

CERTIFICATES = Path("/etc/ssl/certs")

_BASE = """\
FROM scratch
COPY . /
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEB_PYTHON_INSTALL_LAYOUT=deb_system
CMD ["python3"]
"""
_BUSYBOX = """\
FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
ENV PATH=/bin
CMD ["sleep", "infinity"]
"""
_NATS = f"""\
FROM {BUSYBOX_IMAGE}
COPY nats-server /bin/nats-server
CMD ["nats-server"]
"""
_PROMETHEUS = f"""\
FROM {BUSYBOX_IMAGE}
COPY prometheus /bin/prometheus
ENTRYPOINT ["/bin/prometheus"]
"""


def product_image() -> str:
    """The name of the image in the chart, completed as containerd does."""
    return f"docker.io/library/equipoise:{importlib.metadata.version('equipoise-testbed')}"


class Images:
    """Builds images in a cache. All methods return archives, and raise BuildError."""

    def __init__(self, cache: Path, progress: Progress) -> None:
        self._cache = cache
        self._progress = progress

    def sandbox(self) -> Path:
        """The image of the process that holds the namespaces of a pod and does nothing."""
        return self._small("pause", SANDBOX_IMAGE, _BUSYBOX, {"busybox": self._busybox()})

    def busybox(self) -> Path:
        return self._small("busybox", BUSYBOX_IMAGE, _BUSYBOX, {"busybox": self._busybox()})

    def nats(self) -> Path:
        """The image of NATS, with the programs that the chart runs in it: wget, kill."""
        self.busybox()
        return self._small("nats", NATS_IMAGE, _NATS, {"nats-server": Path(nats_server_binary())})

    def prometheus(self, program: Path) -> Path:
        """The image of Prometheus, with wget for its health check."""
        self.busybox()
        return self._small("prometheus", PROMETHEUS_IMAGE, _PROMETHEUS, {"prometheus": program})

    def product(self, clone: Path, base: str | None = None) -> Path:
        """The image of Equipoise, built with the unchanged Dockerfile of a clone.

        `base`: the image that it is built from, with a registry and a digest; None: the one that is made here.
        """
        key = _digest([FORMAT, base or BASE_TREE.key(), *_contents(clone)])

        def make(archive: Path) -> None:
            options = [*_certificate_volumes(archive.parent), "--layers", "--network=host"]
            if base is None:
                self._base()
                options.append("--pull-never")
            else:
                options.append(f"--build-arg=PYTHON_IMAGE={base}")
            self._build("equipoise", product_image(), clone, clone / "Dockerfile", archive, options)

        archive = self._once("equipoise", key, make)
        os.utime(archive)
        keep_newest(self._cache, "image-equipoise-*.tar", ARCHIVES_KEPT)
        return archive

    def _base(self) -> None:
        """Builds the base image, which is only in buildah's storage. An empty archive marks that it was built."""
        tree = debian_tree(BASE_TREE, self._cache, self._progress)

        def make(archive: Path) -> None:
            file = archive.parent / "Containerfile"
            file.write_text(_BASE)
            self._build("base", BASE_IMAGE, tree, file, None, ["--pull-never"])
            archive.touch()

        self._once("base", _digest([BASE_TREE.key(), _BASE]), make)

    def _busybox(self) -> Path:
        return debian_tree(NODE_TREE, self._cache, self._progress) / "usr" / "bin" / "busybox"

    def _small(self, name: str, image: str, containerfile: str, files: dict[str, Path]) -> Path:
        def make(archive: Path) -> None:
            context = archive.parent / "context"
            context.mkdir()
            for target, source in files.items():
                shutil.copy(source, context / target)
            (context / "Containerfile").write_text(containerfile)
            self._build(name, image, context, context / "Containerfile", archive, ["--pull-never"])

        key = _digest(
            [FORMAT, image, containerfile, *(hashlib.sha256(file.read_bytes()).hexdigest() for file in files.values())]
        )
        return self._once(name, key, make)

    def _once(self, name: str, key: str, make: Callable[[Path], None]) -> Path:
        began = time.monotonic()

        def make_with_notes(target: Path) -> None:
            self._progress.note(f"{name}: building the image, once")
            make(target)
            self._progress.note(f"{name}: built in {minutes(time.monotonic() - began)}")

        return made_once(
            self._cache / f"image-{name}-{key}.tar",
            make_with_notes,
            lambda: self._progress.show(f"{name}: another process builds it, {minutes(time.monotonic() - began)}"),
        )

    def _build(
        self, name: str, image: str, context: Path, file: Path, archive: Path | None, options: Iterable[str]
    ) -> None:
        scratch = archive.parent if archive else file.parent
        storage = scratch / "storage.conf"
        folders = f'graphroot = "{self._cache / "containers"}"\nrunroot = "{scratch / "run"}"\n'
        storage.write_text(f'[storage]\ndriver = "overlay"\n{folders}')
        environment = {"CONTAINERS_STORAGE_CONF": str(storage)}
        steps.run(
            name,
            [
                "buildah",
                "bud",
                "--isolation=chroot",
                *options,
                f"--tag={image}",
                f"--file={file}",
                context,
            ],
            scratch,
            self._progress,
            **environment,
        )
        if archive:
            target = f"{FORMAT}:{archive}:{image}"
            steps.run(f"{name}-archive", ["buildah", "push", image, target], scratch, self._progress, **environment)


def _certificate_volumes(scratch: Path) -> list[str]:
    """The options that let pip and uv trust the CAs of this machine, such as the CA of a company's package index.

    Without them, pip and uv trust only the CAs that they contain.
    """
    (scratch / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}/ca-certificates.crt\n")
    (scratch / "uv").mkdir()
    (scratch / "uv" / "uv.toml").write_text("system-certs = true\n")
    mounts = {CERTIFICATES: CERTIFICATES, scratch / "pip.conf": "/etc/pip.conf", scratch / "uv": "/etc/uv"}
    return [f"--volume={source}:{target}:ro" for source, target in mounts.items()]


def _contents(clone: Path) -> Iterable[str]:
    for name in SOURCES:
        top = clone / name
        files = [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.is_file())
        for path in files:
            if "__pycache__" not in path.parts:
                yield f"{path.relative_to(clone)} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
