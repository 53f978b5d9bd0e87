"""The webhook of placement hints: how long the API server waits for it, per new pod.

The webhook is a process of its own, with hints of 100 workloads in one namespace. Pods are created in a dry run, one
after the other, and the times are those that the API server measures itself.
"""

import asyncio
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench.output import progress, report
from equipoise.cli.certificates.issue import new_ca, server_pair
from equipoise.contracts.hints.definition import definition
from equipoise.contracts.hints.policy import NAME
from equipoise.contracts.hints.webhook import PODS_WEBHOOK, SERVICE, configuration, webhooks
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace

PODS = 1_000
NAMESPACE = "equipoise-system"
WORKLOADS = 100
BUCKET = re.compile(
    r'apiserver_admission_webhook_admission_duration_seconds_bucket\{.*name="'
    + re.escape(PODS_WEBHOOK)
    + r'".*le="(\S+?)"\} (\S+)'
)


def hints() -> dict[str, Any]:
    terms = ((32, 0, 12), (16, 6, 18), (8, 12, 24), (4, 18, 30), (-50, 40, 65))
    hint = " ".join(f"{weight}:{','.join(map(str, range(first, end)))}" for weight, first, end in terms)
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "PlacementHints",
        "metadata": {"name": NAME, "namespace": "shop"},
        "until": "2036-01-01T00:00:00Z",
        "nodes": " ".join(f"ip-10-0-{number}-17.eu-west-1.compute.internal" for number in range(100)),
        # Each is another hint: a workload has its own where the object has space for it.
        "distinctHints": [f"{hint},{65 + number % 35}" for number in range(WORKLOADS)],
        "workloads": {f"StatefulSet.db-{number}": number for number in range(WORKLOADS)},
    }


def pod(number: int) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"db-{number % WORKLOADS}", "uid": "0"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "ownerReferences": [owner | {"controller": True}]},
        "spec": {"containers": [{"name": "main", "image": "fake"}], "automountServiceAccountToken": False},
    }


async def create(api: Api, place: str) -> list[float]:
    """Milliseconds of each creation."""
    times = []
    for number in range(PODS):
        begun = time.perf_counter()
        await api.request("POST", f"/api/v1/namespaces/{place}/pods?dryRun=All", pod(number))
        times.append((time.perf_counter() - begun) * 1_000)
    return sorted(times)


async def measured(api: Api) -> dict[float, float]:
    """Calls of the webhook by their upper bound in seconds."""
    text = await api.request("GET", "/metrics")
    return {float(le): float(count) for le, count in BUCKET.findall(text)}


def cpu_seconds(address: str) -> float:
    """The CPU time of the webhook since its start."""
    with urlopen(f"http://{address}/metrics") as response:
        return float(re.search(r"^process_cpu_seconds_total (\S+)", response.read().decode(), re.MULTILINE)[1])  # type: ignore[index]


async def measure(cluster: Cluster, folder: Path) -> None:
    now, port = SystemClock().now(), cluster.free_port()
    ca = new_ca(now)
    pair = server_pair(ca, [f"{SERVICE}.{NAMESPACE}.svc"], [], 1, now)
    (folder / "tls.crt").write_bytes(pair.certificate_text)
    (folder / "tls.key").write_bytes(pair.key_text)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    await cluster.apply([*map(namespace, ("shop", "quiet", NAMESPACE)), definition(), service])
    path = "/apis/equipoise.dev/v1alpha1"
    await cluster.wait(path, lambda found: bool(found["resources"]), what="the kind of the hints is served")
    entries = webhooks(ca=ca.certificate_text, namespace=NAMESPACE, port=port, hinted=["shop"])
    await cluster.apply([hints(), configuration() | {"webhooks": entries}])
    health = f"127.0.0.1:{cluster.free_port()}"
    prefix = "EQUIPOISE_ANNOTATOR__HINTS__WEBHOOK"
    environment = os.environ | {
        "EQUIPOISE_KUBERNETES__KUBECONFIG": str(cluster.kubeconfig),
        "EQUIPOISE_ANNOTATOR__HEALTH": health,
        f"{prefix}__LISTEN": f"127.0.0.1:{port}",
        f"{prefix}__TLS__CERTIFICATE_FILE": str(folder / "tls.crt"),
        f"{prefix}__TLS__KEY_FILE": str(folder / "tls.key"),
    }
    command = (sys.executable, "-m", "equipoise.annotator.shell.hints_webhook")
    webhook = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with cluster.api() as api:
            path = "/api/v1/namespaces/shop/pods?dryRun=All"
            while "affinity" not in (await api.request("POST", path, pod(0)))["spec"]:  # noqa: ASYNC110  a request
                await asyncio.sleep(0.1)
            await create(api, "shop")  # warm
            before, begun = await measured(api), cpu_seconds(health)
            hinted = await create(api, "shop")
            after, taken = await measured(api), cpu_seconds(health) - begun
            without = await create(api, "quiet")
    finally:
        webhook.terminate()
        await webhook.wait()
    calls = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    report(
        "hints_webhook_within_5_ms", 100 * calls[0.005] / max(calls.values()), "% of the calls", target=(">=", 99.0),
        calls=max(calls.values()),
    )  # fmt: skip
    report("hints_webhook_cpu", 1_000 * taken / PODS, "ms of CPU per pod", target=("<=", 5.0))
    for name, place in (("p50", PODS // 2), ("p99", PODS * 99 // 100)):
        report(f"hints_webhook_creation_{name}", hinted[place], "ms", without=round(without[place], 2))


def main() -> None:
    progress(f"{PODS} pods, one after the other, with hints of {WORKLOADS} workloads")
    with Cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(cluster, Path(folder)))


if __name__ == "__main__":
    main()
