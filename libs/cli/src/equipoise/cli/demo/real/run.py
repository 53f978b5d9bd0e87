"""A demo run on real nodes. Like an operator, it installs the chart in mode observe and then changes it to mode evict.

It ends when a pod has moved.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.node_loads import NodeLoads
from equipoise.cli.demo.real.objects import NAMESPACE, PODS, WORKLOAD, burning_pods, pods_of, values
from equipoise.cli.exit_codes import CommandFailed
from equipoise.contracts.messages.eviction import Outcome
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import ClusterError
from equipoise.testbed.real_nodes.addresses import node_name
from equipoise.testbed.real_nodes.cluster import SCRAPE_SECONDS, RealCluster
from equipoise.testbed.running_clusters import listed

RELEASE = "equipoise"
RELEASE_NAMESPACE = "equipoise-system"
CHART = Path("charts") / "equipoise"
HELM_TIMEOUT = "5m"
EVICTION_SECONDS = 900.0
"""How long a proposal may take, and how long an eviction. A new pod moves when its usage is known, after four minutes.
After a refusal, the descheduler proposes a pod again ten minutes later.
"""

LOAD_SECONDS = 60.0
POLL_SECONDS = 1.0


class RealDemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run. Times are seconds since the start of the cluster, unless stated otherwise."""

    kubernetes: str
    nodes: int
    nodes_ready: float
    install_seconds: float
    """How long `helm install --wait` took."""

    upgrade_seconds: float
    """How long the change to mode evict took."""

    first_proposal: float
    """The time at which the first dry-run eviction was reported."""

    first_eviction: float
    pod: str
    node: str
    target: str
    """The node where the replacement was intended."""

    replacement: str
    replacement_node: str
    on_target: bool
    evictions: int
    load_before: dict[str, float]
    """Percent of each node's cores, before Equipoise was installed."""

    load_after: dict[str, float]
    """Percent of each node's cores, after the replacement was started. Other work on the machine changes both loads."""

    seconds: float

    def encoded(self) -> str:
        """One JSON object on one line."""
        return msgspec.json.encode(self).decode()


async def run_real_demo(cluster: RealCluster, nodes: int, screen: Screen, *, keep: bool) -> RealDemoResult:
    """Run the demo. Raises CommandFailed if no pod moves in time, and the errors of a cluster that does not start."""
    began = time.monotonic()
    screen.print(f"starting a control plane of Kubernetes and {nodes} nodes with containers on this machine")
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        cluster,
        aiohttp.ClientSession(timeout=timeout) as session,
        cluster.cluster.api() as api,
    ):
        with listed(f"demo-{os.getpid()}", cluster.cluster, nats=False):
            cores = {node_name(number): float(os.cpu_count() or 1) for number in range(1, nodes + 1)}
            loads = NodeLoads(session, cluster.cluster.prometheus_url, cores, LOAD_SECONDS)
            demo = RealDemo(cluster=cluster, api=api, loads=loads, screen=screen, began=began)
            result = await demo.run(list(cores))
            screen.print(
                f"the pod {result.pod} moved from {result.node}; its replacement runs on {result.replacement_node}"
            )
            if keep:
                screen.print(result.encoded())
                screen.print(f"Everything keeps running until Ctrl-C:\n  {cluster.kubectl} get pods -A -o wide")
                await asyncio.Event().wait()
    return result


@dataclass(kw_only=True)
class RealDemo:
    """A run of the demo on a cluster."""

    cluster: RealCluster
    api: Api
    loads: NodeLoads
    screen: Screen
    began: float
    steps: dict[str, float] = field(default_factory=dict)

    async def run(self, nodes: list[str]) -> RealDemoResult:
        ready = self._elapsed()
        self.screen.print(f"{len(nodes)} nodes are ready after {ready:.0f} s")
        before_pods = await self._start_pods(nodes)
        self.screen.print(f"{len(before_pods)} pods compute on {nodes[0]}, as much as they may")
        before = await self._loads_from_now()
        install = await self._helm("install", "observe")
        self.screen.print(f"the chart is installed in mode observe, after {install:.0f} s")
        self._tap()
        proposal = await self._outcome(lambda outcome: True, "proposes a move")
        proposed_at = self._elapsed()
        move = f"{proposal['pod']} from {proposal['node']} to {proposal['target']}"
        self.screen.print(f"it proposes to move {move}: {proposal['reason']}")
        upgrade = await self._helm("upgrade", "evict")
        self.screen.print(f"it may evict now, after an upgrade of {upgrade:.0f} s")
        evicted = await self._outcome(lambda outcome: outcome["outcome"] == Outcome.EVICTED, "evicts a pod")
        evicted_at = self._elapsed()
        replacement, node = await self._replacement(before_pods)
        after = await self._loads_from_now()
        return RealDemoResult(
            kubernetes=(await self.api.request("GET", "/version"))["gitVersion"],
            nodes=len(nodes),
            nodes_ready=round(ready, 1),
            install_seconds=round(install, 1),
            upgrade_seconds=round(upgrade, 1),
            first_proposal=round(proposed_at, 1),
            first_eviction=round(evicted_at, 1),
            pod=evicted["pod"],
            node=evicted["node"],
            target=evicted["target"],
            replacement=replacement,
            replacement_node=node,
            on_target=node == evicted["target"],
            evictions=sum(eviction.succeeded for eviction in self.cluster.cluster.evictions()),
            load_before=_rounded(before),
            load_after=_rounded(after),
            seconds=round(self._elapsed(), 1),
        )

    async def _start_pods(self, nodes: list[str]) -> dict[str, str]:
        """Start all pods on the first node, while the other nodes are cordoned. Returns the node of each pod."""
        for node in nodes[1:]:
            await self.cluster.run(self.cluster.kubectl, "cordon", node)
        await self.api.apply([burning_pods(os.cpu_count() or 1)])
        await self.api.wait(
            self._pods_path, lambda pods: len(pods_of(pods["items"])) == PODS, what=f"{PODS} pods run", timeout=120
        )
        pods = pods_of((await self.api.request("GET", self._pods_path))["items"])
        for node in nodes[1:]:
            await self.cluster.run(self.cluster.kubectl, "uncordon", node)
        return pods

    async def _loads_from_now(self) -> dict[str, float]:
        """The mean load of each node since this call. The newest sample may be as old as a scrape interval."""
        await asyncio.sleep(LOAD_SECONDS + SCRAPE_SECONDS)
        return await self.loads.of_all()

    async def _helm(self, action: str, mode: str) -> float:
        """Install or upgrade the chart in this mode. Returns the seconds that helm took."""
        file = self.cluster.directory / f"values-{mode}.yaml"
        file.write_text(yaml.safe_dump(values(mode, self.cluster.prometheus_url)))
        create = ["--create-namespace"] if action == "install" else []
        began = time.monotonic()
        await self.cluster.run(
            self.cluster.helm, action, RELEASE, CHART, "--namespace", RELEASE_NAMESPACE, *create,
            "--values", file, "--wait", "--timeout", HELM_TIMEOUT,
        )  # fmt: skip
        return time.monotonic() - began

    def _tap(self) -> None:
        """Record the outcomes of evictions, as `equipoise tap` reports them."""
        program = [sys.executable, "-c", "from equipoise.cli.main import main; main()", "tap", "eviction.outcome.>"]
        self.cluster.cluster.guard.start(
            [*program, "-o", "json"],
            log=self.cluster.cluster.log("tap"),
            environment={"KUBECONFIG": str(self.cluster.cluster.kubeconfig)},
        )

    async def _outcome(self, wanted: Callable[[Mapping[str, Any]], bool], what: str) -> Mapping[str, Any]:
        """Wait for the first wanted outcome for a pod of the workload."""
        deadline = time.monotonic() + EVICTION_SECONDS
        log = self.cluster.cluster.log("tap")
        while time.monotonic() < deadline:
            self.cluster.check()
            for line in log.read_text().splitlines():
                if line.startswith("{") and line.endswith("}"):
                    message: dict[str, Any] = json.loads(line)["message"]
                    if message.get("pod", "").startswith(f"{WORKLOAD}-") and wanted(message):
                        return message
            await asyncio.sleep(POLL_SECONDS)
        try:
            plan = await self.cluster.run(sys.executable, "-c", "from equipoise.cli.main import main; main()", "plan")
        except ClusterError as error:
            plan = str(error)
        raise CommandFailed(f"Equipoise has not moved a pod within {EVICTION_SECONDS:g} s ({what}). Its plan:\n{plan}")

    async def _replacement(self, before: Mapping[str, str]) -> tuple[str, str]:
        """Wait for the first new running pod of the workload. Returns its name and node."""
        pods: Any = await self.api.wait(
            self._pods_path,
            lambda pods: bool(pods_of(pods["items"]).keys() - before.keys()),
            what="the replacement runs",
            timeout=120,
        )
        return next((name, node) for name, node in pods_of(pods["items"]).items() if name not in before)

    @property
    def _pods_path(self) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app%3D{WORKLOAD}"

    def _elapsed(self) -> float:
        return time.monotonic() - self.began


def _rounded(loads: Mapping[str, float]) -> dict[str, float]:
    return {name: round(load, 1) for name, load in loads.items()}
