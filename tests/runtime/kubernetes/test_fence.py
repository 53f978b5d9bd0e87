"""A service that runs with its ServiceAccount writes nothing until its admission policy is in effect."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.fence import PROBE, RETRY_PERIOD, until_fenced
from equipoise.runtime.process.health import Health
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

POLICY = "equipoise-annotator-fence"
DENIED = f"leases \"{PROBE}\" is forbidden: ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request"


class Service:
    """Waits for its policy in a cluster in memory."""

    def __init__(self, *, as_service_account: bool = True) -> None:
        self.clock = ManualClock()
        self.kube = MemoryKube(self.clock)
        self.kube.as_service_account = as_service_account
        self.health = Health(configuration_hash="", metrics=CollectorRegistry())

    async def starts(self, seconds: float = 0) -> bool:
        """Whether it may write after this long."""
        probe = Lease(metadata=ObjectMeta(name=PROBE, namespace="equipoise-system"))
        waiting = asyncio.create_task(until_fenced(self.kube, POLICY, LEASES, probe, self.clock, self.health))
        await self.clock.advance(seconds)
        done = waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        return done


async def test_it_starts_when_the_policy_refuses_the_probe() -> None:
    """Nothing is stored, whether it is refused or not."""
    service = Service()
    service.kube.fail_next("create", status=422, message=DENIED)
    assert await service.starts()
    assert service.health.report().problems == []
    assert service.kube.stored(LEASES) == []


async def test_it_waits_while_the_policy_is_not_in_effect() -> None:
    """The problem names the policy and the file; it starts within seconds after both are applied."""
    service = Service()
    assert not await service.starts(3 * RETRY_PERIOD)
    (problem,) = service.health.report().problems
    assert POLICY in problem
    assert "k8s/base/fence.yaml" in problem
    assert service.kube.stored(LEASES) == []
    service.kube.fail_next("create", status=422, message=DENIED)
    assert await service.starts(RETRY_PERIOD)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'leases.coordination.k8s.io is forbidden: User "x" cannot create resource "leases"'),
        (422, "ValidatingAdmissionPolicy 'equipoise-annotator-fence-2' denied request"),
        (500, "etcdserver: request timed out"),
        (0, "no response"),
    ],
)
async def test_another_refusal_proves_nothing(status: int, message: str) -> None:
    """A missing permission, the policy of another, and a server with an error: it waits and reports what it got."""
    service = Service()
    service.kube.fail_next("create", status=status, message=message, times=None)
    assert not await service.starts(RETRY_PERIOD)
    (problem,) = service.health.report().problems
    assert "unknown" in problem
    assert message in problem


async def test_a_kubeconfig_needs_no_policy() -> None:
    """Its user is a person, whom the policies do not restrict."""
    assert await Service(as_service_account=False).starts()
