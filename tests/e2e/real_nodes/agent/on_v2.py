"""The agent on a node with cgroup v2 under a real kernel and kubelet, which is a virtual machine.

First with the systemd driver, then, after a boot, with the driver cgroupfs, the static CPU manager and MemoryQoS.
`python -m e2e.real_nodes.agent.on_v2` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

from typing import Any

from e2e.real_nodes.agent.machine import run_on_virtual_machine
from e2e.real_nodes.agent.steps import OFFERED, QUOTA, AgentOnNode, Steps
from e2e.real_nodes.installation import note
from e2e.real_nodes.virtual_node import NAMESPACE, SHELL, V2, VirtualNode, of_containers

from equipoise.testbed import objects
from equipoise.testbed.api import Api
from equipoise.testbed.real_nodes.cluster import RealCluster
from equipoise.testbed.real_nodes.virtual_machine.systems import CGROUP_V2

STATIC = {
    "cgroupDriver": "cgroupfs",
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0",
    "memoryThrottlingFactor": 0.9,
}
"""Settings of the kubelet. MemoryQoS is on by default since 1.37, and writes memory.high only with a factor."""


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
        "before": V2.pod_limits(before, uid),
        "problems": problems,
        "restored": restored,
        "cpuset": cpuset,
        "restored_again": restored_again,
        "exclusive_cpus": [of_containers(files, exclusive, "cpuset.cpus") for files in (before, during, after)],
        "shared_cpus": [of_containers(files, uid, "cpuset.cpus") for files in (before, during, after)],
        "memory_high_of_containers": [of_containers(files, uid, "memory.high") for files in (before, during, after)],
    }


async def run(real: RealCluster, api: Api) -> dict[str, Any]:
    """All steps, and what was seen."""
    node = VirtualNode(real=real, api=api)
    steps = Steps(node=node, agent=AgentOnNode(node=node))
    await api.apply([objects.namespace(NAMESPACE)])
    await node.start_shell()
    resolved = await steps.resolve()
    await node.offer(OFFERED)
    systemd = await steps.with_systemd()
    await node.remove_pods("limited", "burner")
    note(f"with the systemd driver: {systemd}")

    real.power_off(node.name)
    await api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{SHELL}?gracePeriodSeconds=0")
    real.power_on(node.name, STATIC)
    again = await node.ready_again(after_loss=True)
    await node.start_shell()
    await node.offer(OFFERED)
    static = await with_static_cpus(steps)
    return {
        "second_boot_seconds": round(again),
        "resolved": resolved,
        "systemd": systemd,
        "static": static,
    }


if __name__ == "__main__":
    run_on_virtual_machine(CGROUP_V2, run)
