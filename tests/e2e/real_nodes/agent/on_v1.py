"""The agent on a node with cgroup v1 and the systemd driver, which is a virtual machine.

`python -m e2e.real_nodes.agent.on_v1` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

from typing import Any

from e2e.real_nodes.agent.machine import run_on_virtual_machine
from e2e.real_nodes.agent.steps import OFFERED, AgentOnNode, Steps
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
    group = (await node.run(f"ls --directory {ROOT}/cpu/kubepods*")).strip()
    return {"group": group, **await steps.with_systemd()}


if __name__ == "__main__":
    run_on_virtual_machine(CGROUP_V1, run)
