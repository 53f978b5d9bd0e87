"""The API server: is it there, and does it show us the nodes?"""

from equipoise.cli.doctor.environment import Surroundings
from equipoise.cli.doctor.finding import Finding
from equipoise.contracts.kubernetes.objects import Node
from equipoise.runtime.kubernetes.client import Forbidden, KubeError

WHERE = "API server"


async def kubernetes(around: Surroundings) -> list[Finding]:
    try:
        return [told(await around.nodes())]
    except KubeError as error:
        return [refused(error)]


def told(nodes: list[Node]) -> Finding:
    return Finding(state="ok", where=WHERE, what=f"answers, and shows {len(nodes)} nodes")


def refused(error: KubeError) -> Finding:
    if isinstance(error, Forbidden):
        to_do = "use a kubeconfig or context whose user may list nodes"
    else:
        to_do = "is this the right cluster (--kubeconfig, --context), and does `kubectl get nodes` work?"
    return Finding(state="error", where=WHERE, what=str(error), to_do=to_do)
