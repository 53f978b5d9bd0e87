"""The API server responds and lists the nodes."""

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.runtime.kubernetes.client import Forbidden, KubeError

SUBJECT = "API server"


async def kubernetes(environment: Environment) -> list[Finding]:
    try:
        nodes = await environment.nodes()
    except Forbidden as error:
        fix = "use a kubeconfig or context whose user may list nodes"
        return [Finding(state="error", subject=SUBJECT, message=str(error), fix=fix)]
    except KubeError as error:
        fix = "check --kubeconfig and --context, and whether `kubectl get nodes` works"
        return [Finding(state="error", subject=SUBJECT, message=str(error), fix=fix)]
    return [Finding(state="ok", subject=SUBJECT, message=f"responds and lists {len(nodes)} nodes")]
