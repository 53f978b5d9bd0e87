"""The size of the image, the installation of the chart and the start of its containers, on two real nodes.

Needs root, as `make demo ARGS=--real`. Kubelets report whole seconds. All nodes are this machine, so other programs on
it make every time longer.
"""

import asyncio
import json
import tarfile
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from release.image_archive import read_image

from bench.output import progress, report
from equipoise.cli.demo.real.objects import values
from equipoise.testbed.real_nodes.cluster import RealCluster, prepare

ROOT = Path(__file__).parents[1]
NODES = 2
NAMESPACE = "equipoise-system"
SERVICES = ("collector", "annotator", "scorer", "descheduler", "binder")
TIMEOUT = "5m"
MOST_MEGABYTES, MOST_INSTALL_SECONDS, MOST_START_SECONDS = 100.0, 60.0, 5.0


def layer_megabytes(archive: Path) -> list[tuple[float, float]]:
    """For each layer of an image, from its base up: its files, and the compressed layer."""
    with tarfile.open(archive) as image:
        sizes = []
        for digest in read_image(archive).layers:
            blob = image.getmember(f"blobs/{digest.replace(':', '/')}")
            with tarfile.open(fileobj=image.extractfile(blob), mode="r:*") as layer:
                files = sum(entry.size for entry in layer if entry.isfile())
            sizes.append((files / 1e6, blob.size / 1e6))
    return sizes


def start_seconds(pods: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """From the start of the container until the pod was Ready: the longest time of each component."""
    longest: dict[str, float] = {}
    for pod in pods:
        running = pod["status"].get("containerStatuses", [{}])[0].get("state", {}).get("running")
        ready = [each for each in pod["status"].get("conditions", []) if each["type"] == "Ready"]
        if running is None or not ready or ready[0]["status"] != "True" or "deletionTimestamp" in pod["metadata"]:
            continue
        component = pod["metadata"]["labels"].get("app.kubernetes.io/component", "nats")
        seconds = _seconds(ready[0]["lastTransitionTime"]) - _seconds(running["startedAt"])
        longest[component] = max(seconds, longest.get(component, 0.0))
    return longest


def _seconds(time_of_kubelet: str) -> float:
    return datetime.fromisoformat(time_of_kubelet.replace("Z", "+00:00")).timestamp()


async def measure(cluster: RealCluster) -> None:
    """Install the chart, change its mode, and restart one service after the other."""

    async def kubectl(*words: str) -> str:
        return await cluster.run(cluster.kubectl, "--namespace", NAMESPACE, *words)

    async def helm(action: str, mode: str) -> float:
        file = cluster.directory / "values.yaml"
        file.write_text(yaml.safe_dump(values(mode, cluster.prometheus_url)))
        began = time.monotonic()
        await cluster.run(
            cluster.helm, action, "equipoise", ROOT / "charts" / "equipoise", "--namespace", NAMESPACE,
            "--create-namespace", "--values", file, "--wait", "--timeout", TIMEOUT,
        )  # fmt: skip
        return time.monotonic() - began

    async def started() -> dict[str, float]:
        return start_seconds(json.loads(await kubectl("get", "pods", "--output", "json"))["items"])

    async with cluster:
        seconds = await helm("install", "observe")
        report("real_nodes_install", seconds, "s", target=("<=", MOST_INSTALL_SECONDS))
        for component, longest in sorted((await started()).items()):
            report("real_nodes_start_in_installation", longest, "s", component=component)
        report("real_nodes_upgrade", await helm("upgrade", "evict"), "s")
        for service in SERVICES:
            progress(f"restarting {service}")
            await kubectl("rollout", "restart", f"deployment/equipoise-{service}")
            await kubectl("rollout", "status", f"deployment/equipoise-{service}", f"--timeout={TIMEOUT}")
            longest = (await started())[service]
            report("real_nodes_start", longest, "s", target=("<=", MOST_START_SECONDS), component=service)


def main() -> None:
    """Runs alone: the cluster moves this thread into a network of its own."""
    prepared = prepare(ROOT)
    (archive,) = (path for path in prepared.archives if path.name.startswith("image-equipoise-"))
    base, *added = layer_megabytes(archive)
    report("image_base", base[0], "MB", compressed=round(base[1], 1))
    compressed = round(sum(size for _, size in added), 1)
    report("image_added", sum(files for files, _ in added), "MB", target=("<=", MOST_MEGABYTES), compressed=compressed)
    asyncio.run(measure(RealCluster(prepared, NODES)))


if __name__ == "__main__":
    main()
