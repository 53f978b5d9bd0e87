"""The API server responds and lists the nodes."""

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.runtime.kubernetes.client import Forbidden, KubeError

SUBJECT = "API server"


async def kubernetes(environment: Environment) -> list[Finding]:
    try:
        nodes = await environment.nodes()
    except Forbidden as error:
        return [Finding("error", SUBJECT, str(error), "use a kubeconfig or context whose user may list nodes")]
    except KubeError as error:
        fix = "check --kubeconfig and --context, and whether `kubectl get nodes` works"
        return [Finding("error", SUBJECT, str(error), fix)]
    return [Finding("ok", SUBJECT, f"responds and lists {len(nodes)} nodes")]
