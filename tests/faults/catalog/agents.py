"""The agent of a node, with cgroups of this machine (v1, as root) for pods of the cluster."""

import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from agent.agent_process import AgentProcess
from agent.real_cgroups import RealCgroups, real_cgroups, why_not

from faults import cluster_setup
from faults.background import background
from faults.catalog.fault import Extent, fault
from faults.catalog.reclaimers import PODS, pods_are_accepted
from faults.rig import Inconclusive, Rig, is_ready

ACCOUNT = "agent-0"
NODE = cluster_setup.NODES[0]
WORKLOAD, COUNT = "limited", 3
REPLICA_SETS = f"/apis/apps/v1/namespaces/{cluster_setup.BATCHES}/replicasets"
VANISHING = 20
"""Times that a group is removed while the agent runs, by `Extent.times`."""

CPU, MEMORY = (cluster_setup.BAND_AMOUNTS[f"kubernetes.io/batch-{each}"] for each in ("cpu", "memory"))
LIMITS = {"cpu.cfs_quota_us": round(CPU * 100), "memory.soft_limit_in_bytes": round(MEMORY)}
"""What a pod may have at most: microseconds per 100 ms, and bytes."""

KUBELET = {"cpu.cfs_quota_us": "-1", "memory.soft_limit_in_bytes": str(2**63 - 4096), "cpu.shares": "2"}
"""The values of a best-effort pod without the agent."""


BEST_EFFORT = "kubepods/besteffort"


class _Pods:
    """The groups of the pods."""

    def __init__(self, rig: Rig, cgroups: RealCgroups, uids: list[str]) -> None:
        self._rig = rig
        self._cgroups = cgroups
        self.groups = [f"{BEST_EFFORT}/pod{uid}" for uid in uids]
        for group in self.groups:
            self.make(group)

    def make(self, group: str) -> None:
        """As the kubelet does."""
        self._cgroups.make(group)
        self._cgroups.put(group, "cpu.shares", KUBELET["cpu.shares"])

    def remove(self, group: str) -> None:
        self._cgroups.remove(group)

    def reset(self) -> None:
        """As systemd does at an update by the kubelet."""
        for group in self.groups:
            self._cgroups.put(group, "cpu.cfs_quota_us", KUBELET["cpu.cfs_quota_us"])

    def values(self, group: str) -> Mapping[str, str]:
        return {name: self._cgroups.get(group, name) for name in KUBELET}

    def limited(self) -> bool:
        """The quota may be less: all pods together may have a limit, if the machine is busy."""
        return all(
            self._cgroups.get(group, name) != KUBELET[name] and int(self._cgroups.get(group, name)) <= limit
            for group in self.groups
            for name, limit in LIMITS.items()
        )

    def quota_of_all(self) -> str:
        return self._cgroups.get(BEST_EFFORT, "cpu.cfs_quota_us")

    async def until_limited(self, what: str) -> None:
        await self._rig.until(self.limited, what)

    async def check(self) -> None:
        """Until cancelled: a value is that of the kubelet, or at most what the pod asks for. Groups may vanish."""
        while True:
            for group in self.groups:
                for name, limit in LIMITS.items():
                    try:
                        found = self._cgroups.get(group, name)
                    except OSError:
                        continue
                    if found != KUBELET[name] and int(found) > limit:
                        self._rig.find(f"{group}: {name} is {found}, and the pod asks for {limit}")
            await asyncio.sleep(0.02)


async def killed_agents(rig: Rig, extent: Extent) -> None:
    """The agent of a node is killed and started again, values are reset, groups of pods vanish while it reads them, and
    it is started while the API server is suspended. At SIGTERM all values are those of the kubelet again."""
    if reason := why_not():
        raise Inconclusive(reason)
    rig.descheduler.epoch = None
    account = {"name": ACCOUNT, "namespace": cluster_setup.OWN}
    await rig.api.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}, _workload()])
    token = await rig.cluster.service_account_token(cluster_setup.OWN, ACCOUNT)
    try:
        await rig.until(lambda: _all_run(rig), "the pods of the band run")
        with real_cgroups() as cgroups:
            groups = _Pods(rig, cgroups, [pod["metadata"]["uid"] for pod in await _pods(rig)])
            cgroups.run(groups.groups[0], "x = b'x' * 30_000_000; import time; time.sleep(600)")
            agent = AgentProcess(rig.cluster, NODE, cgroups.top, token, rig.cluster.directory)
            async with background(groups.check()):
                for _ in range(extent.times):
                    await _killed(rig, agent, groups)
                    await _without_api_server(rig, agent, groups)
                    await _vanishing(rig, agent, groups)
    finally:
        await rig.api.request("DELETE", f"{REPLICA_SETS}/{WORKLOAD}?propagationPolicy=Background")


def _workload() -> dict[str, Any]:
    """A ReplicaSet of the node: without a controller, pods are not evicted."""
    pod = cluster_setup.band_pods("0", 1)[0]
    labels = {"app": WORKLOAD}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"] | {"nodeName": NODE}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": WORKLOAD, "namespace": cluster_setup.BATCHES},
        "spec": {"replicas": COUNT, "selector": {"matchLabels": labels}, "template": template},
    }


async def _pods(rig: Rig) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await rig.api.request("GET", f"{PODS}?labelSelector=app%3D{WORKLOAD}"))["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


async def _all_run(rig: Rig) -> bool:
    return sum(map(is_ready, await _pods(rig))) == COUNT


SETTINGS = {"memoryEviction": {"threshold": 0.2, "release": 0.1}}
"""By which a pod should be evicted at once; `evict` is false."""


async def _killed(rig: Rig, agent: AgentProcess, groups: _Pods) -> None:
    """At a random time of its start or of a round."""
    for _ in range(5):
        with agent.running(**SETTINGS):
            await asyncio.sleep(rig.generator.uniform(0.1, 1.0))
            agent.end(signal.SIGKILL)
        groups.reset()
    with agent.running(**SETTINGS):
        await groups.until_limited("the pods are limited after SIGKILL")
        chosen = 'reason="memory",result="dry_run"} 1'
        await rig.until(lambda: chosen in agent.get("/metrics")[1], "an eviction is logged only")
        agent.end(signal.SIGKILL)
    if not groups.limited():
        rig.find("SIGKILL of the agent changed limits")


async def _without_api_server(rig: Rig, agent: AgentProcess, groups: _Pods) -> None:
    """An agent that knows no pods leaves their values as they are; one that knew them keeps the limits."""
    rig.cluster.kill("kube-apiserver", signal.SIGSTOP)
    try:
        with agent.running(**SETTINGS):
            await rig.until(lambda: _rounds(agent) >= 3, "rounds without pods")
            if not groups.limited():
                rig.find("an agent that does not know the pods changed their limits")
            agent.end(signal.SIGKILL)
    finally:
        rig.cluster.kill("kube-apiserver", signal.SIGCONT)
    with agent.running(**SETTINGS):
        await rig.until(agent.ready, "the agent is ready")
        rig.cluster.kill("kube-apiserver", signal.SIGSTOP)
        try:
            groups.reset()
            await groups.until_limited("limits are kept without the API server")
        finally:
            rig.cluster.kill("kube-apiserver", signal.SIGCONT)
        agent.end(signal.SIGKILL)


def _rounds(agent: AgentProcess) -> float:
    lines = agent.get("/metrics")[1].splitlines()
    line = next((each for each in lines if each.startswith("equipoise_agent_rounds_total")), "0")
    return float(line.split()[-1])


async def _vanishing(rig: Rig, agent: AgentProcess, groups: _Pods) -> None:
    """And SIGTERM at the end."""
    with agent.running(**SETTINGS | {"period": 0.1}):
        await rig.until(agent.ready, "the agent is ready")
        for _ in range(VANISHING):
            group = groups.groups[-1]
            groups.remove(group)
            await asyncio.sleep(rig.generator.uniform(0.0, 0.2))
            groups.make(group)
            await asyncio.sleep(rig.generator.uniform(0.0, 0.2))
        await groups.until_limited("the group that was created again is limited")
        if code := agent.end(signal.SIGTERM):
            rig.find(f"the agent ended with code {code}")
    for group in groups.groups:
        if (found := groups.values(group)) != KUBELET:
            rig.find(f"{group} has {found} after SIGTERM")
    if (quota := groups.quota_of_all()) != "-1":
        rig.find(f"all pods together have the quota {quota} after SIGTERM")


FAULTS = (fault(killed_agents, 46, intents=0, evictions=0, also=pods_are_accepted, why_not=why_not),)
