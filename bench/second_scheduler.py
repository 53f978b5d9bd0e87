"""`equipoise scheduler` and kube-scheduler on one cluster of 1,000 nodes, in turns: bound pods per second.

python -m bench second_scheduler --pods 1000 --rounds 3
"""

import argparse
import asyncio
import signal
import statistics
import sys
from collections.abc import Mapping, Sequence

from bench.output import progress, report
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.objects import namespace, node, pod, pod_template

OURS, STOCK = "equipoise-scheduler", "default-scheduler"
NODES = 1_000
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{OURS}"
PROGRAM = "from equipoise.cli.main import main; main()"


async def burst(cluster: Cluster, scheduler: str, name: str, count: int) -> float:
    """Bound pods per second, from the first to the last binding in the audit log. The pods are gone afterwards."""
    template = pod_template("web", cpu="100m", memory="128Mi", spec={"schedulerName": scheduler})
    names = [f"{name}-{number}" for number in range(count)]
    await cluster.apply([pod(each, template, namespace="shop") for each in names])
    path = "/api/v1/namespaces/shop/pods"
    await cluster.wait(
        path,
        lambda found: all(each["spec"].get("nodeName") for each in found["items"]),
        timeout=300,
        what="all are bound",
    )
    wanted = set(names)
    times = [binding.time for binding in cluster.bindings() if binding.pod in wanted]
    await cluster.request("DELETE", f"{path}?gracePeriodSeconds=0")
    await cluster.wait(path, lambda found: not found["items"], timeout=300, what="all are gone")
    return (len(times) - 1) / (max(times) - min(times)).total_seconds()


async def measure(pods: int, rounds: int) -> Mapping[str, Sequence[float]]:
    found: dict[str, list[float]] = {STOCK: [], OURS: []}
    async with Cluster() as cluster:
        progress(f"{NODES} nodes")
        await cluster.add_nodes([node(f"node-{number}", cpu=32) for number in range(NODES)])
        await cluster.apply([namespace("shop")])
        address = f"127.0.0.1:{cluster.free_port()}"
        command = ["-c", PROGRAM, "scheduler", "--kubeconfig", str(cluster.kubeconfig), "--listen", address]
        program = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.DEVNULL)
        try:
            await cluster.wait(LEASE, lambda lease: bool(lease["spec"].get("holderIdentity")), what="one leads")
            for number in range(rounds):
                for scheduler in (STOCK, OURS):
                    rate = await burst(cluster, scheduler, f"{scheduler}-{number}", pods)
                    progress(f"round {number + 1}, {scheduler}: {rate:.0f} pods/s")
                    found[scheduler].append(rate)
        finally:
            program.send_signal(signal.SIGTERM)
            await program.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = asyncio.run(measure(options.pods, options.rounds))
    stock, ours = (statistics.median(found[name]) for name in (STOCK, OURS))
    report("second_scheduler", ours, "bound pods/s", baseline=stock, pods=options.pods)


if __name__ == "__main__":
    main()
