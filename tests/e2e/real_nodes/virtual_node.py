"""The node that is a virtual machine: commands in it, its cgroups, and pods that run on it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from e2e.real_nodes.installation import note
from e2e.real_nodes.manifests import HOSTNAME

from equipoise.agent.decisions.cgroup_names import pod_uid, qos_group
from equipoise.testbed import objects
from equipoise.testbed.api import Api, ApiError
from equipoise.testbed.cluster import ClusterError
from equipoise.testbed.objects import Manifest
from equipoise.testbed.real_nodes.cluster import RealCluster

NAMESPACE = "offline"
SHELL = "shell"
STEP_SECONDS = 900.0
"""Every step takes seconds on a machine, and twenty times as long in a virtual machine beside other work."""

POLL_SECONDS = 3.0
CPUS = "cpuset.cpus"
ROOT = "/sys/fs/cgroup"

GroupFiles = Mapping[str, str]
"""The contents of cgroup files by their paths below the root; files without contents are missing."""


@dataclass(frozen=True, kw_only=True)
class CgroupVersion:
    """The names and values of the limits that the agent writes."""

    hierarchies: tuple[str, ...]
    """The folders below the root that have groups of pods."""

    limits: tuple[str, str, str]
    """The files with the quota, the weight and the soft limit of memory of a pod."""

    effective_cpus: str
    """The file with the CPUs that a group has. Those that were written are in `cpuset.cpus`."""

    of_kubelet: tuple[str, str, str]
    """The limits of a best-effort pod without the agent."""

    of_agent: tuple[str, str, str]
    """The limits of a batch pod with the amounts 200m and 32Mi."""

    @property
    def no_quota(self) -> str:
        return self.of_kubelet[0]

    @property
    def quota(self) -> str:
        return self.limits[0]

    def pod_limits(self, files: GroupFiles, uid: str) -> tuple[str, ...]:
        """The limits of a pod, as in `of_agent`."""
        return tuple(of_pod(files, uid, name) for name in self.limits)


V2 = CgroupVersion(
    hierarchies=("",),
    limits=("cpu.max", "cpu.weight", "memory.high"),
    effective_cpus="cpuset.cpus.effective",
    of_kubelet=("max 100000", "1", "max"),
    of_agent=("20000 100000", "8", str(32 << 20)),
)
V1 = CgroupVersion(
    hierarchies=("cpu/", "memory/", "cpuset/"),
    limits=("cpu.cfs_quota_us", "cpu.shares", "memory.soft_limit_in_bytes"),
    effective_cpus="cpuset.effective_cpus",
    of_kubelet=("-1", "2", str(2**63 - 4096)),
    of_agent=("20000", "204", str(32 << 20)),
)


def best_effort(files: GroupFiles, name: str) -> str:
    """The content of a file of the group of all best-effort pods."""
    return next((text for path, text in files.items() if _is_file(path, name) and _is_best_effort(path)), "")


def of_pod(files: GroupFiles, uid: str, name: str) -> str:
    """The content of a file of the group of a pod."""
    return next((text for path, text in files.items() if _is_file(path, name) and _uid(path) == uid), "")


def of_containers(files: GroupFiles, uid: str, name: str) -> list[str]:
    """The contents of a file of the groups of the containers of a pod, and of its sandbox."""
    parents = {path: PurePosixPath(path).parent.parent.name for path in files if _is_file(path, name)}
    return sorted(files[path] for path, parent in parents.items() if pod_uid(parent) == uid)


def _is_file(path: str, name: str) -> bool:
    return PurePosixPath(path).name == name


def _is_best_effort(path: str) -> bool:
    return qos_group(PurePosixPath(path).parent.name) == "besteffort"


def _uid(path: str) -> str | None:
    return pod_uid(PurePosixPath(path).parent.name)


@dataclass(frozen=True, kw_only=True)
class VirtualNode:
    """The virtual machine of a cluster."""

    real: RealCluster
    api: Api
    cgroups: CgroupVersion = V2

    @property
    def name(self) -> str:
        return self.real.virtual_node

    async def start_shell(self) -> None:
        """Starts the pod in which `run` runs commands, and waits for it."""
        container = {
            "name": "main",
            "image": "busybox",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sleep", "100000"],
            "securityContext": {"privileged": True},
            "resources": {"requests": {"cpu": "50m", "memory": "16Mi"}},
            "volumeMounts": [{"name": "host", "mountPath": "/host"}],
        }
        spec = {"hostPID": True, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
        await self.start_pod(SHELL, container, **spec)

    async def start_pod(self, name: str, container: Mapping[str, Any], **spec: Any) -> str:
        """Creates a pod on this node and waits until it is ready. Returns its UID."""
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {
                "nodeSelector": {HOSTNAME: self.name},
                "terminationGracePeriodSeconds": 1,
                "restartPolicy": "Always",
                "containers": [container],
                **spec,
            },
        }
        await self.api.apply([objects.pod(name, template, namespace=NAMESPACE)])
        pod = await self.api.wait(
            f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", is_ready, timeout=STEP_SECONDS, what=f"{name} is ready"
        )
        return str(pod["metadata"]["uid"])

    async def remove_pods(self, *names: str) -> None:
        """Deletes pods and waits until they are gone."""
        for name in names:
            await self.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
        for name in names:
            await self.gone(f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")

    async def gone(self, path: str) -> None:
        async def is_gone() -> bool:
            try:
                await self.api.request("GET", path)
            except ApiError as error:
                return error.status == 404
            return False

        await until(f"{path} is gone", is_gone)

    async def run(self, script: str) -> str:
        """The output of a shell script in the virtual machine. Raises ClusterError."""
        return await self.real.run(
            self.real.kubectl, "--namespace", NAMESPACE, "exec", SHELL, "--", "chroot", "/host", "/bin/sh", "-c", script
        )

    async def group_files(self, *, after: str = "true") -> GroupFiles:
        """The limits of all groups of pods, right after a command. Raises ClusterError."""
        included = " ".join(f"--include={name}" for name in (*self.cgroups.limits, CPUS, self.cgroups.effective_cpus))
        folders = " ".join(f"{ROOT}/{hierarchy}kubepods*" for hierarchy in self.cgroups.hierarchies)
        output = await self.run(f"{after} && grep --recursive --with-filename {included} '' {folders}")
        found = (line.partition(":") for line in output.splitlines())
        return {path.removeprefix(f"{ROOT}/"): text for path, _, text in found}

    async def group_files_when(self, what: str, condition: Callable[[GroupFiles], bool]) -> GroupFiles:
        """The limits of all groups of pods as soon as they fulfil a condition."""
        files: GroupFiles = {}

        async def holds() -> bool:
            nonlocal files
            try:
                files = await self.group_files()
            except ClusterError as error:  # the kubelet answers late, or a group has ended while it was read
                note(str(error).splitlines()[-1])
                return False
            return condition(files)

        await until(what, holds)
        return files

    async def write(self, path: str, text: str) -> None:
        """Writes a cgroup file."""
        await self.run(f"echo {text} > {ROOT}/{path}")

    async def ready_again(self, *, after_loss: bool) -> float:
        """Waits until the node is ready, and before that, until it is not. Returns the seconds."""
        began = time.monotonic()
        path = f"/api/v1/nodes/{self.name}"
        for ready in (False, True) if after_loss else (True,):
            await self.api.wait(
                path,
                lambda node, wanted=ready: is_ready(node) == wanted,
                timeout=2 * STEP_SECONDS,
                what=f"{self.name} is {'ready' if ready else 'not ready'}",
            )
        return time.monotonic() - began

    async def offer(self, amounts: Mapping[str, str]) -> None:
        """Lets the node offer what batch pods request, as the reclaimer does."""
        path = f"/api/v1/nodes/{self.name}/status"
        await self.api.patch(path, {"status": {"capacity": dict(amounts), "allocatable": dict(amounts)}})


async def until(what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    """Polls a real component until it shows the expected state."""
    began = time.monotonic()
    while not await condition():
        if time.monotonic() > began + STEP_SECONDS:
            raise SystemExit(f"{what}: not after {STEP_SECONDS:g} s")
        await asyncio.sleep(POLL_SECONDS)
    note(f"{what}, after {time.monotonic() - began:.0f} s")


def busybox(command: Sequence[str], resources: Mapping[str, Any]) -> Manifest:
    """A container that runs a command."""
    return {
        "name": "main",
        "image": "busybox",
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "resources": dict(resources),
    }


def is_ready(item: Manifest) -> bool:
    """Whether a pod or node is ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in item["status"].get("conditions", ()))
