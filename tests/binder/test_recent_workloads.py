"""Reads of workloads that several decisions share."""

import math

import pytest
from builders import a_workload
from kube_objects import a_deployment

from equipoise.binder.shell.recent_workloads import SHARED_FOR, DecisionReads, RecentWorkloads
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, KubeError
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

NAMES = ("web", "db")


def a_cluster() -> tuple[MemoryKube, ManualClock, RecentWorkloads]:
    clock = ManualClock()
    kube = MemoryKube(clock)
    for name in NAMES:
        kube.put(DEPLOYMENTS, a_deployment(name))
    return kube, clock, RecentWorkloads(kube, clock)


async def test_decisions_within_a_second_share_a_read_and_state_when_it_began() -> None:
    kube, clock, recent = a_cluster()
    begin = clock.monotonic()
    first, second = DecisionReads(recent), DecisionReads(recent)
    await first.workload(a_workload("web"))
    await clock.advance(SHARED_FOR - 0.1)
    await second.workload(a_workload("db"))
    await second.workload(a_workload("web"))
    assert [call.name for call in kube.calls] == ["web", "db"]
    assert (first.oldest, second.oldest) == (begin, begin)
    assert (first.shared, second.shared) == (False, True)
    assert DecisionReads(recent).oldest == math.inf


async def test_a_workload_is_read_again_after_a_second_or_when_a_decision_shares_no_reads() -> None:
    kube, clock, recent = a_cluster()
    reads = DecisionReads(recent)
    await reads.workload(a_workload())
    kube.put(DEPLOYMENTS, a_deployment(replicas=3))
    anew = reads.anew()
    assert (await anew.workload(a_workload())).spec.replicas == 3
    kube.put(DEPLOYMENTS, a_deployment(replicas=4))
    assert (await DecisionReads(recent).workload(a_workload())).spec.replicas == 3
    await clock.advance(SHARED_FOR)
    assert (await DecisionReads(recent).workload(a_workload())).spec.replicas == 4


async def test_a_read_that_failed_is_not_shared() -> None:
    kube, _, recent = a_cluster()
    kube.fail_next("get", status=500)
    with pytest.raises(KubeError):
        await DecisionReads(recent).workload(a_workload())
    reads = DecisionReads(recent)
    await reads.workload(a_workload())
    assert not reads.shared
