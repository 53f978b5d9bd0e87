"""The agent on a node with cgroup v2 under a real kernel and kubelet, which is a virtual machine.

First with the systemd driver, then, after a boot, with the driver cgroupfs, the static CPU manager and MemoryQoS.
`python -m e2e.real_nodes.agent_on_v2` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

import asyncio
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml
from deployment.base import BASE, COLOCATION, ROOT
from deployment.kustomize import read_documents
from e2e.real_nodes.installation import machine_load, note, print_result
from e2e.real_nodes.manifests import HOSTNAME
from e2e.real_nodes.virtual_node import (
    NAMESPACE,
    POLL_SECONDS,
    SHELL,
    GroupFiles,
    VirtualNode,
    best_effort,
    busybox,
    is_ready,
    of_containers,
    of_pod,
    until,
)

from equipoise.testbed import objects
from equipoise.testbed.api import Api
from equipoise.testbed.cluster import ClusterError
from equipoise.testbed.objects import Manifest
from equipoise.testbed.real_nodes.cluster import RealCluster, prepare

AGENTS = "equipoise-agent"
AGENT_PODS = f"/api/v1/namespaces/{AGENTS}/pods"
OFFERED = {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "512Mi"}
AMOUNTS = {"kubernetes.io/batch-cpu": "200", "kubernetes.io/batch-memory": "32Mi"}
LIMITS = ("20000 100000", "8", str(32 << 20))
"""`cpu.max`, `cpu.weight` and `memory.high` of a pod with these amounts."""

OF_KUBELET = ("max 100000", "1", "max")
NO_LIMIT = "max 100000"
RESTART_SECONDS = 10
BURNERS = 4
"""One for each CPU."""

QUOTA = {"policy": "quota"}
CPUSET = {"policy": "cpuset", "cpuThreshold": 40, "pressureThreshold": None}
STATIC = {
    "cgroupDriver": "cgroupfs",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "memoryThrottlingFactor": 0.9,
}
"""Settings of the kubelet. MemoryQoS is on by default since 1.37, and writes memory.high only with a factor."""


@dataclass(frozen=True, kw_only=True)
class AgentOnNode:
    """The agent as it is deployed, on the virtual machine only."""

    node: VirtualNode

    async def deploy(self, suppression: Mapping[str, Any]) -> float:
        """Applies the agent. Returns the seconds from the start of its container until it is ready."""
        await self.node.api.apply(agent_documents(self.node.name, suppression))
        pod = await self.ready_pod()
        started = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
        ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")["lastTransitionTime"]
        return (datetime.fromisoformat(ready) - datetime.fromisoformat(started)).total_seconds()

    async def configure(self, suppression: Mapping[str, Any]) -> None:
        """Changes the ConfigMap of a running agent, which the kubelet mounts anew within minutes."""
        documents = agent_documents(self.node.name, suppression)
        await self.node.api.apply([each for each in documents if each["kind"] == "ConfigMap"])

    async def ready_pod(self) -> Manifest:
        async def ready() -> bool:
            pods = (await self.node.api.request("GET", AGENT_PODS))["items"]
            return len(pods) == 1 and is_ready(pods[0])

        await until("the agent is ready", ready)
        pod: Manifest = (await self.node.api.request("GET", AGENT_PODS))["items"][0]
        return pod

    async def get(self, path: str) -> Any:
        """The response of the agent's HTTP server, through the API server."""
        name = (await self.ready_pod())["metadata"]["name"]
        return await self.node.api.request("GET", f"{AGENT_PODS}/{name}:8087/proxy/{path}")

    async def metrics(self) -> dict[str, float]:
        lines = (line.rpartition(" ") for line in (await self.get("metrics")).splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    async def killed(self) -> GroupFiles:
        """SIGKILL. The limits right after it; then waits until its container was started again."""
        files = await self.node.group_files(after="pkill -KILL -f '[e]quipoise[.]agent'")

        async def restarted() -> bool:
            pods = (await self.node.api.request("GET", AGENT_PODS))["items"]
            return any(_restarts(pod) and is_ready(pod) for pod in pods)

        await until("the killed agent is ready again", restarted)
        return files

    async def remove(self) -> None:
        """Deletes the DaemonSet, and waits until the agent has ended."""
        await self.node.api.request("DELETE", f"/apis/apps/v1/namespaces/{AGENTS}/daemonsets/{AGENTS}")

        async def ended() -> bool:
            return not (await self.node.api.request("GET", AGENT_PODS))["items"]

        await until("the agent has ended", ended)


def agent_documents(node: str, suppression: Mapping[str, Any]) -> list[Manifest]:
    """k8s/colocation/agent.yaml with these settings, for one node."""
    documents = deepcopy([*read_documents(BASE / "priority-class.yaml"), *read_documents(COLOCATION / "agent.yaml")])
    for document in documents:
        if document["kind"] == "DaemonSet":
            document["spec"]["template"]["spec"]["nodeSelector"][HOSTNAME] = node
        if document["kind"] == "ConfigMap":
            configuration = yaml.safe_load(document["data"]["equipoise.yaml"])
            configuration["agent"]["suppression"] = dict(suppression)
            document["data"]["equipoise.yaml"] = yaml.safe_dump(configuration)
    return documents


def _restarts(pod: Manifest) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))


def limits(files: GroupFiles, uid: str) -> tuple[str, str, str]:
    """`cpu.max`, `cpu.weight` and `memory.high` of a pod."""
    return (of_pod(files, uid, "cpu.max"), of_pod(files, uid, "cpu.weight"), of_pod(files, uid, "memory.high"))


def used_cpus(files: GroupFiles, uid: str) -> set[str]:
    """The CPUs that the containers of a pod use, without its sandbox, to which the kubelet gives no CPUs."""
    given = {path.rpartition("/")[0] for path, text in files.items() if text and path.endswith("/cpuset.cpus")}
    effective = {path: text for path, text in files.items() if path.rpartition("/")[0] in given}
    return set(of_containers(effective, uid, "cpuset.cpus.effective"))


def burning(count: int) -> list[str]:
    """The command of a container that keeps this many CPUs busy."""
    return ["sh", "-c", f"for i in $(seq {count}); do while :; do :; done & done; wait"]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What is done on the node, each with what was seen."""

    node: VirtualNode
    agent: AgentOnNode

    async def resolve(self) -> str:
        """What a pod gets from the DNS server of the cluster for the Service of the API server."""
        name = "kubernetes.default.svc.cluster.local"
        resources = {"requests": {"cpu": "10m", "memory": "8Mi"}}
        await self.node.start_pod("resolver", busybox(["sleep", "100000"], resources))
        command = ("--namespace", NAMESPACE, "exec", "resolver", "--", "nslookup", name)
        output = await self.node.real.run(self.node.real.kubectl, *command)
        await self.node.remove_pods("resolver")
        return " ".join(output.split())

    async def limited_pod(self) -> tuple[str, GroupFiles]:
        """The UID of a batch pod, and the limits before there is an agent."""
        resources = {"requests": AMOUNTS, "limits": AMOUNTS}
        uid = await self.node.start_pod("limited", busybox(["sleep", "100000"], resources))
        return uid, await self.node.group_files()

    async def start_burner(self) -> str:
        """Batch work without a limit of its own. Returns the UID of its pod."""
        return await self.node.start_pod("burner", busybox(burning(BURNERS), {"requests": AMOUNTS}))

    async def start_exclusive(self, name: str, cpus: int) -> str:
        """A pod to which the static CPU manager gives CPUs alone. Returns its UID."""
        amounts = {"cpu": str(cpus), "memory": "64Mi"}
        resources = {"requests": amounts, "limits": amounts}
        return await self.node.start_pod(name, busybox(["sleep", "100000"], resources))

    async def start_sensitive(self) -> None:
        """A pod that waits for CPU time, whatever the weights are: it has more threads than there are CPUs."""
        resources = {"requests": {"cpu": "100m", "memory": "16Mi"}}
        await self.node.start_pod("sensitive", busybox(burning(2 * BURNERS), resources))

    async def is_limited(self, uid: str) -> float:
        """Waits until the limits of the pod are those of its amounts. Returns the seconds."""
        began = time.monotonic()
        await self.node.group_files_when("the batch pod is limited", lambda files: limits(files, uid) == LIMITS)
        return round(time.monotonic() - began, 1)

    async def change_is_reverted(self, uid: str, files: GroupFiles) -> None:
        """Writes another quota, as the kubelet does, and waits until the agent has written its own again."""
        path = next(path for path in files if path.endswith("/cpu.max") and of_pod({path: "this"}, uid, "cpu.max"))
        await self.node.write(path, "max")
        await self.is_limited(uid)

    async def killed(self, uid: str) -> dict[str, Any]:
        """The limits while no agent runs, after SIGKILL. The next one continues."""
        files = await self.agent.killed()
        await self.change_is_reverted(uid, files)
        return {"limits": limits(files, uid), "again": limits(await self.node.group_files(), uid)}

    async def kubelet_restarted(self, uid: str) -> float:
        """systemd applies its values again, and the kubelet restarts. Returns the seconds until the limits hold."""
        before = await self.node.run("pidof kubelet")
        # Later, because the restart ends the connection of the command.
        restart = f"systemd-run --quiet --on-active={RESTART_SECONDS} systemctl restart kubelet"
        await self.node.run(f"systemctl daemon-reload && {restart}")

        async def runs() -> bool:
            try:
                return await self.node.run("pidof kubelet") != before
            except ClusterError:  # the command runs through the kubelet
                return False

        await until("another kubelet runs", runs)
        return await self.is_limited(uid)

    async def pressure(self) -> dict[str, Any]:
        """Batch work is limited while a latency-sensitive pod waits, and later no more."""
        await self.start_burner()
        await self.start_sensitive()
        files = await self.node.group_files_when(
            "all batch pods are limited", lambda files: best_effort(files, "cpu.max") not in ("", NO_LIMIT)
        )
        metrics = await self.agent.metrics()
        await self.node.remove_pods("sensitive", "burner")
        await self.node.group_files_when("the limit is lifted", lambda files: best_effort(files, "cpu.max") == NO_LIMIT)
        return {
            "quota": best_effort(files, "cpu.max"),
            "ratio": metrics.get("equipoise_agent_pressure_ratio"),
            "suppressed": metrics.get('equipoise_agent_suppressed_seconds_total{reason="pressure"}', 0.0),
        }

    async def cpuset(self) -> str:
        """The CPUs of batch pods on a busy node, with the policy cpuset. The burner goes on."""
        await self.agent.configure(CPUSET)
        await self.start_burner()
        files = await self.node.group_files_when(
            "batch pods have fewer CPUs", lambda files: best_effort(files, "cpuset.cpus") not in ("", "0-3")
        )
        return best_effort(files, "cpuset.cpus")

    async def cpuset_beside_exclusive(self, burner: str, exclusive: str) -> dict[str, Any]:
        """The CPUs of containers with the policy cpuset: beside one exclusive CPU, and then beside those of a core."""
        await self.agent.deploy(CPUSET)
        one = await self.node.group_files_when(
            "batch pods have fewer CPUs", lambda files: used_cpus(files, burner) == {"2-3"}
        )
        await self.node.remove_pods("exclusive")
        core = await self.start_exclusive("core", 2)
        both = await self.node.group_files_when(
            "batch pods have the other core", lambda files: used_cpus(files, burner) == {"0-1"}
        )
        return {
            "exclusive": [sorted(used_cpus(one, exclusive)), sorted(used_cpus(both, core))],
            "best_effort": [best_effort(files, "cpuset.cpus") for files in (one, both)],
            "problems": (await self.agent.get("readyz"))["problems"],
        }

    async def restored(self, uid: str) -> dict[str, Any]:
        """The agent ends. What the groups have then."""
        await self.agent.remove()
        files = await self.node.group_files()
        return {
            "pod": limits(files, uid),
            "quota": best_effort(files, "cpu.max"),
            "cpus": best_effort(files, "cpuset.cpus.effective"),
        }


async def with_systemd(steps: Steps) -> dict[str, Any]:
    """Everything with the systemd driver."""
    uid, before = await steps.limited_pod()
    ready = await steps.agent.deploy(QUOTA)
    note(f"the agent was ready {ready:.0f} s after its start")
    limited = await steps.is_limited(uid)
    problems = (await steps.agent.get("readyz"))["problems"]
    killed = await steps.killed(uid)
    limited_again = await steps.kubelet_restarted(uid)
    pressure = await steps.pressure()
    cpus = await steps.cpuset()
    restored = await steps.restored(uid)
    await steps.node.remove_pods("limited", "burner")
    return {
        "before": limits(before, uid),
        "agent_ready_seconds": ready,
        "limited_seconds": [limited, limited_again],
        "problems": problems,
        "killed": killed,
        "pressure": pressure,
        "cpuset": cpus,
        "restored": restored,
    }


async def with_static_cpus(steps: Steps) -> dict[str, Any]:
    """The limits beside a kubelet that gives CPUs to a pod alone and writes `memory.high` of containers."""
    exclusive = await steps.start_exclusive("exclusive", 1)
    uid, before = await steps.limited_pod()
    await steps.agent.deploy(QUOTA)
    await steps.is_limited(uid)
    burner = await steps.start_burner()
    await steps.change_is_reverted(uid, before)
    during = await steps.node.group_files()
    problems = (await steps.agent.get("readyz"))["problems"]
    restored = await steps.restored(uid)
    after = await steps.node.group_files()
    cpuset = await steps.cpuset_beside_exclusive(burner, exclusive)
    restored_again = await steps.restored(uid)
    return {
        "before": limits(before, uid),
        "problems": problems,
        "restored": restored,
        "cpuset": cpuset,
        "restored_again": restored_again,
        "exclusive_cpus": [of_containers(files, exclusive, "cpuset.cpus") for files in (before, during, after)],
        "shared_cpus": [of_containers(files, uid, "cpuset.cpus") for files in (before, during, after)],
        "memory_high_of_containers": [of_containers(files, uid, "memory.high") for files in (before, during, after)],
    }


async def run(real: RealCluster, api: Api, booted: float) -> dict[str, Any]:
    """All steps, and what was seen."""
    load = machine_load()
    node = VirtualNode(real=real, api=api)
    steps = Steps(node=node, agent=AgentOnNode(node=node))
    await api.apply([objects.namespace(NAMESPACE)])
    await node.start_shell()
    info = (await api.request("GET", f"/api/v1/nodes/{node.name}"))["status"]["nodeInfo"]
    resolved = await steps.resolve()
    await node.offer(OFFERED)
    systemd = await with_systemd(steps)
    note(f"with the systemd driver: {systemd}")

    real.power_off(node.name)
    await api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{SHELL}?gracePeriodSeconds=0")
    real.power_on(node.name, STATIC)
    again = await node.ready_again(after_loss=True)
    await node.start_shell()
    await node.offer(OFFERED)
    static = await with_static_cpus(steps)
    return {
        "node": {key: info[key] for key in ("kernelVersion", "kubeletVersion", "containerRuntimeVersion")},
        "boot_seconds": [round(booted), round(again)],
        "resolved": resolved,
        "systemd": systemd,
        "static": static,
        "machine_load": [load, machine_load()],
    }


async def check_programs(real: RealCluster) -> None:
    """Raises ClusterError as soon as a component or the virtual machine has ended."""
    while True:
        real.check()
        await asyncio.sleep(POLL_SECONDS)


async def main() -> None:
    real = RealCluster(prepare(ROOT, virtual_machine=True), 1)
    began = time.monotonic()
    async with real, real.cluster.api() as api:
        booted = time.monotonic() - began
        note(f"{real.virtual_node} is ready after {booted:.0f} s")
        async with asyncio.TaskGroup() as group:
            checks = group.create_task(check_programs(real))
            print_result(await run(real, api, booted))
            checks.cancel()


if __name__ == "__main__":
    asyncio.run(main())
