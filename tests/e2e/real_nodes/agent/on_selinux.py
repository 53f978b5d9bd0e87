"""The agent on a node where SELinux is enforced, which is a virtual machine: with and without its label.

`python -m e2e.real_nodes.agent.on_selinux` with tests/ in PYTHONPATH, as root. Its last line is a JSON document.
"""

from typing import Any

from e2e.real_nodes.agent.machine import run_on_virtual_machine
from e2e.real_nodes.agent.steps import OFFERED, QUOTA, AgentOnNode, Steps
from e2e.real_nodes.virtual_node import NAMESPACE, V2, VirtualNode, until

from equipoise.testbed import objects
from equipoise.testbed.api import Api
from equipoise.testbed.real_nodes.cluster import RealCluster
from equipoise.testbed.real_nodes.virtual_machine.systems import SELINUX

SUPER_PRIVILEGED, CONTAINER = "spc_t", "container_t"
PROCESS = "$(pgrep -f '^python -m equipoise[.]agent$' | head -1)"


async def label(node: VirtualNode) -> str:
    """The SELinux type of the agent's process."""
    return (await node.run(f"cut -d: -f3 /proc/{PROCESS}/attr/current")).strip()


async def denials(node: VirtualNode, selinux_type: str) -> list[str]:
    """What processes of a type were denied, as the kernel has logged it."""
    script = f"journalctl --dmesg --output=cat | grep 'avc:.*scontext=[^ ]*:{selinux_type}:' | sed 's/.*avc:/avc:/'"
    return (await node.run(f"({script} || true) | tail -5")).splitlines()


async def run(real: RealCluster, api: Api) -> dict[str, Any]:
    """All steps, and what was seen."""
    node = VirtualNode(real=real, api=api)
    steps = Steps(node=node, agent=AgentOnNode(node=node))
    await api.apply([objects.namespace(NAMESPACE)])
    await node.start_shell()
    enforced = await node.run("cat /sys/fs/selinux/enforce")
    await node.offer(OFFERED)
    uid, before = await steps.limited_pod()
    await steps.agent.deploy(QUOTA)
    await steps.is_limited(uid)
    labelled: dict[str, Any] = {"type": await label(node), "problems": (await steps.agent.get("readyz"))["problems"]}
    labelled["denials"] = await denials(node, SUPER_PRIVILEGED)
    restored = await steps.restored(uid)

    await steps.agent.deploy(QUOTA, selinux_label=False)

    async def has_problems() -> bool:
        return bool((await steps.agent.get("readyz"))["problems"])

    await until("the agent without its label has problems", has_problems)
    files = await node.group_files()
    return {
        "enforced": enforced.strip(),
        "before": V2.pod_limits(before, uid),
        "labelled": labelled,
        "restored": restored,
        "unlabelled": {
            "type": await label(node),
            "limits": V2.pod_limits(files, uid),
            "problems": (await steps.agent.get("readyz"))["problems"],
            "denials": await denials(node, CONTAINER),
        },
    }


if __name__ == "__main__":
    run_on_virtual_machine(SELINUX, run)
