"""An installation from the files of a release alone, on nodes of the testbed: what is published can be installed."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from equipoise.testbed.api import ApiError
from equipoise.testbed.binaries.build import BuildError
from equipoise.testbed.binaries.toolchain import NoGoError
from equipoise.testbed.cluster import ClusterError
from equipoise.testbed.real_nodes.addresses import node_name
from equipoise.testbed.real_nodes.cluster import RealCluster, prepare
from equipoise.testbed.real_nodes.requirements import RealNodesError
from release import ReleaseError
from release.chart import ImageReference, chart_image
from release.image_archive import index_digest
from release.verification import verify_release

NAME = "equipoise"
NAMESPACE = "equipoise-system"
TEST = "job/equipoise-test"
TIMEOUT = "5m"


@dataclass(frozen=True, kw_only=True)
class Installed:
    """The figures of an installation."""

    image: str
    """The image by its digest, as the chart names it."""

    containers: dict[str, int]
    """How many containers run an image, by the name that their nodes report."""

    load_seconds: float
    """How long the nodes took to import the image."""

    install_seconds: float
    """How long `helm install --wait` took."""

    test_seconds: float
    """How long `helm test` took."""


def install_release(folder: Path, public_key: Path, nodes: int) -> Installed:
    """Verify the files, and install them on a new cluster, which ends with this call. Raises ReleaseError."""
    files = verify_release(folder, public_key)
    chart, archive = (_only(files, folder, ending) for ending in (".tgz", "-image.tar"))
    image = chart_image(chart)
    if image.digest != index_digest(archive):
        raise ReleaseError(f"{chart} installs another image than {archive} has: build the release again")
    try:
        cluster = RealCluster(prepare(None), nodes)
        return asyncio.run(_install(cluster, nodes, chart, archive, image))
    except (ApiError, BuildError, ClusterError, NoGoError, RealNodesError) as error:
        raise ReleaseError(str(error)) from None


async def _install(cluster: RealCluster, nodes: int, chart: Path, archive: Path, image: ImageReference) -> Installed:
    async with cluster:
        began = time.monotonic()
        for number in range(1, nodes + 1):
            await cluster.import_image(node_name(number), archive, image.name)
        loaded = time.monotonic()
        where = ("--namespace", NAMESPACE)
        source = f"url={cluster.prometheus_url},config.collector.prometheus.profile=kubelet"  # outside of the cluster
        await cluster.run(
            cluster.helm, "install", NAME, chart, *where, "--create-namespace", "--wait", "--timeout", TIMEOUT,
            "--set", f"config.collector.prometheus.{source}",
            "--set", "nats.persistence.enabled=false",  # the nodes have no StorageClass
        )  # fmt: skip
        installed = time.monotonic()
        try:
            await cluster.run(cluster.helm, "test", NAME, *where, "--timeout", TIMEOUT)
        except ClusterError as error:
            raise ClusterError(f"{error}\n{await cluster.run(cluster.kubectl, 'logs', *where, TEST)}") from None
        tested = time.monotonic()
        pods = json.loads(await cluster.run(cluster.kubectl, "get", "pods", *where, "--output", "json"))["items"]
    return Installed(
        image=f"{image.name}@{image.digest}",
        containers=dict(Counter(each["imageID"] for pod in pods for each in pod["status"]["containerStatuses"])),
        load_seconds=round(loaded - began, 1),
        install_seconds=round(installed - loaded, 1),
        test_seconds=round(tested - installed, 1),
    )


def _only(files: list[Path], folder: Path, ending: str) -> Path:
    found = [path for path in files if path.name.endswith(ending)]
    if len(found) != 1:
        raise ReleaseError(
            f"{folder} has {len(found)} files that end in {ending}, expected one: a release without an image cannot be "
            "installed from its files"
        )
    return found[0]
