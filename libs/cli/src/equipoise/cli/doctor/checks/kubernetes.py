"""Checks that the API server lists the nodes, and that no other installation of Equipoise runs in the cluster."""

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.runtime.kubernetes.client import Forbidden, KubeError
from equipoise.runtime.kubernetes.installation import read_other_installations, refusal

SUBJECT = "API server"
INSTALLATION = "installation"


async def kubernetes(environment: Environment) -> list[Finding]:
    try:
        nodes = await environment.nodes()
    except Forbidden as error:
        return [Finding("error", SUBJECT, str(error), "use a kubeconfig or context whose user may list nodes")]
    except KubeError as error:
        fix = "check --kubeconfig and --context, and whether `kubectl get nodes` works"
        return [Finding("error", SUBJECT, str(error), fix)]
    return [Finding("ok", SUBJECT, f"responds and lists {len(nodes)} nodes"), *await _installations(environment)]


async def _installations(environment: Environment) -> list[Finding]:
    namespace = environment.settings.shared.kubernetes.namespace
    try:
        others = await read_other_installations(environment.api(), namespace, environment.clock.now())
    except KubeError as error:
        return [Finding("unknown", INSTALLATION, f"other installations cannot be listed: {error}")]
    fix = "delete one of them: kubectl delete namespace NAMESPACE"
    return [
        Finding("error", INSTALLATION, refusal(namespace, other.namespace, other.unreadable), fix)
        if other.older
        else Finding("warning", INSTALLATION, refusal(other.namespace, namespace), fix)
        for other in others
    ]
