"""Proof that the admission policy of a service is in effect, before the service writes.

The policies refuse an object of one name, which nothing else uses. Creating it in a dry run stores nothing, not even
without the policy.
"""

from typing import TypeVar

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.kubernetes.client import Kube, KubeError, Resource
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.health import Health

PROBE = "equipoise-fence-check"
"""Name of the object that the policies refuse."""

RETRY_PERIOD = 10.0
"""Seconds between two attempts: a policy takes effect some seconds after it was applied."""

T = TypeVar("T", bound=Object)


async def until_fenced(
    kube: Kube,
    policy: str,
    resource: Resource[T],
    probe: T,
    clock: Clock,
    health: Health,
    *,
    manifest: str = "k8s/base/fence.yaml",
) -> None:
    """Returns when the policy refuses `probe`, an object that the service's role allows it to create.

    `manifest`: the file that has the policy. Until then /readyz reports why not. Returns at once with a kubeconfig: its
    user is not the service's own account.
    """
    while kube.as_service_account and (why := await fence_problem(kube, policy, resource, probe, manifest)):
        health.set_problem("fence", why)
        await clock.sleep(RETRY_PERIOD)
    health.set_problem("fence", None)


async def fence_problem(kube: Kube, policy: str, resource: Resource[T], probe: T, manifest: str) -> str:
    """Why it is not certain that the policy refuses `probe`; empty if it does."""
    try:
        await kube.create(resource, probe, dry_run=True)
    except KubeError as error:
        refused = error.status in (403, 422) and f"ValidatingAdmissionPolicy '{policy}'" in error.message
        return "" if refused else f"it is unknown whether the admission policy {policy} is in effect: {error}"
    return (
        f"the admission policy {policy} does not restrict this service, so it writes nothing: apply "
        f"{manifest}, which needs Kubernetes 1.30 or newer (with Helm: upgrade the release)"
    )
