"""What is done with the agent on the virtual machine, each step with what was seen."""

import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml
from deployment.base import BASE, COLOCATION
from deployment.kustomize import read_documents
from e2e.real_nodes.manifests import HOSTNAME
from e2e.real_nodes.virtual_node import (
    NAMESPACE,
    GroupFiles,
    VirtualNode,
    best_effort,
    busybox,
    is_ready,
    of_containers,
    of_pod,
    until,
)

from equipoise.testbed.cluster import ClusterError
from equipoise.testbed.objects import Manifest

AGENTS = "equipoise-agent"
AGENT_PODS = f"/api/v1/namespaces/{AGENTS}/pods"
OFFERED = {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "512Mi"}
AMOUNTS = {"kubernetes.io/batch-cpu": "200", "kubernetes.io/batch-memory": "32Mi"}
"""Those of `CgroupVersion.of_agent`."""

RESTART_SECONDS = 10
BURNERS = 4
"""One for each CPU."""

QUOTA = {"policy": "quota"}
CPUSET = {"policy": "cpuset", "cpuThreshold": 40, "pressureThreshold": None}


@dataclass(frozen=True, kw_only=True)
class AgentOnNode:
    """The agent as it is deployed, on the virtual machine only."""

    node: VirtualNode

    async def deploy(self, suppression: Mapping[str, Any], *, selinux_label: bool = True) -> float:
        """Applies the agent. Returns the seconds from the start of its container until it is ready."""
        await self.node.api.apply(agent_documents(self.node.name, suppression, selinux_label=selinux_label))
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


def agent_documents(node: str, suppression: Mapping[str, Any], *, selinux_label: bool = True) -> list[Manifest]:
    """k8s/colocation/agent.yaml with these settings, for one node, with or without its label for SELinux."""
    documents = deepcopy([*read_documents(BASE / "priority-class.yaml"), *read_documents(COLOCATION / "agent.yaml")])
    for document in documents:
        if document["kind"] == "DaemonSet":
            spec = document["spec"]["template"]["spec"]
            spec["nodeSelector"][HOSTNAME] = node
            if not selinux_label:
                del spec["securityContext"]["seLinuxOptions"]
        if document["kind"] == "ConfigMap":
            configuration = yaml.safe_load(document["data"]["equipoise.yaml"])
            configuration["agent"]["suppression"] = dict(suppression)
            document["data"]["equipoise.yaml"] = yaml.safe_dump(configuration)
    return documents


def _restarts(pod: Manifest) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))


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

    async def with_systemd(self) -> dict[str, Any]:
        """All steps with the systemd driver. The pods `limited` and `burner` remain."""
        uid, before = await self.limited_pod()
        ready = await self.agent.deploy(QUOTA)
        limited = await self.is_limited(uid)
        problems = (await self.agent.get("readyz"))["problems"]
        killed = await self.killed(uid)
        limited_again = await self.kubelet_restarted(uid)
        pressure = await self.pressure()
        cpus = await self.cpuset()
        return {
            "before": self.node.cgroups.pod_limits(before, uid),
            "agent_ready_seconds": ready,
            "limited_seconds": [limited, limited_again],
            "problems": problems,
            "killed": killed,
            "pressure": pressure,
            "cpuset": cpus,
            "restored": await self.restored(uid),
        }

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
        cgroups = self.node.cgroups
        await self.node.group_files_when(
            "the batch pod is limited", lambda files: cgroups.pod_limits(files, uid) == cgroups.of_agent
        )
        return round(time.monotonic() - began, 1)

    async def change_is_reverted(self, uid: str, files: GroupFiles) -> None:
        """Writes another quota, as the kubelet does, and waits until the agent has written its own again."""
        cgroups = self.node.cgroups
        path = next(path for path in files if of_pod({path: "this"}, uid, cgroups.quota))
        await self.node.write(path, cgroups.no_quota.partition(" ")[0])
        await self.is_limited(uid)

    async def killed(self, uid: str) -> dict[str, Any]:
        """The limits while no agent runs, after SIGKILL. The next one continues."""
        files = await self.agent.killed()
        await self.change_is_reverted(uid, files)
        again = await self.node.group_files()
        return {"limits": self.node.cgroups.pod_limits(files, uid), "again": self.node.cgroups.pod_limits(again, uid)}

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
        cgroups = self.node.cgroups
        await self.start_burner()
        await self.start_sensitive()
        files = await self.node.group_files_when(
            "all batch pods are limited", lambda files: best_effort(files, cgroups.quota) not in ("", cgroups.no_quota)
        )
        metrics = await self.agent.metrics()
        await self.node.remove_pods("sensitive", "burner")
        await self.node.group_files_when(
            "the limit is lifted", lambda files: best_effort(files, cgroups.quota) == cgroups.no_quota
        )
        return {
            "quota": best_effort(files, cgroups.quota),
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
        files, cgroups = await self.node.group_files(), self.node.cgroups
        return {
            "pod": cgroups.pod_limits(files, uid),
            "quota": best_effort(files, cgroups.quota),
            "cpus": best_effort(files, cgroups.effective_cpus),
        }
