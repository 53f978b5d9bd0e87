"""The agent on a node with cgroup v1 and the systemd driver, which is a virtual machine.

`python -m e2e.real_nodes.agent.on_v1` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

from typing import Any

from e2e.real_nodes.agent.machine import run_on_virtual_machine
from e2e.real_nodes.agent.steps import OFFERED, QUOTA, AgentOnNode, Steps
from e2e.real_nodes.virtual_node import NAMESPACE, ROOT, V1, VirtualNode

from equipoise.testbed import objects
from equipoise.testbed.api import Api
from equipoise.testbed.real_nodes.cluster import RealCluster
from equipoise.testbed.real_nodes.virtual_machine.systems import CGROUP_V1


async def run(real: RealCluster, api: Api) -> dict[str, Any]:
    """All steps, and what was seen."""
    node = VirtualNode(real=real, api=api, cgroups=V1)
    steps = Steps(node=node, agent=AgentOnNode(node=node))
    await api.apply([objects.namespace(NAMESPACE)])
    await node.start_shell()
    await node.offer(OFFERED)
    uid, before = await steps.limited_pod()
    ready = await steps.agent.deploy(QUOTA)
    limited = await steps.is_limited(uid)
    problems = (await steps.agent.get("readyz"))["problems"]
    killed = await steps.killed(uid)
    limited_again = await steps.kubelet_restarted(uid)
    pressure = await steps.pressure()
    cpus = await steps.cpuset()
    restored = await steps.restored(uid)
    return {
        "group": (await node.run(f"ls --directory {ROOT}/cpu/kubepods*")).strip(),
        "before": V1.pod_limits(before, uid),
        "agent_ready_seconds": ready,
        "limited_seconds": [limited, limited_again],
        "problems": problems,
        "killed": killed,
        "pressure": pressure,
        "cpuset": cpus,
        "restored": restored,
    }


if __name__ == "__main__":
    run_on_virtual_machine(CGROUP_V1, run)
