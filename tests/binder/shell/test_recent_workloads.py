"""Reads of workloads that several decisions share."""

import math

import pytest
from binder.ledgers import an_entry
from builders import NOW, a_workload
from kube_objects import a_deployment

from equipoise.binder.shell.recent_workloads import SHARED_FOR, DecisionReads, RecentWorkloads
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, KubeError
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

NAMES = ("web", "db")


def a_cluster() -> tuple[MemoryKube, ManualClock, RecentWorkloads]:
    clock = ManualClock(NOW)
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


async def test_a_shared_read_counts_with_the_time_at_which_it_began() -> None:
    """The status of a workload is late for a while after an eviction."""
    kube, clock, recent = a_cluster()
    entry = an_entry(settled_at=NOW, outcome=Outcome.EVICTED)
    for elapsed, state in ((9.5, "pending"), (10.2, "pending"), (10.6, "ready")):
        await clock.advance(NOW + elapsed - clock.now())
        statuses = await DecisionReads(recent).statuses([entry], NOW + elapsed, 10.0)
        assert [status.state for status in statuses.values()] == [state]
    assert [call.resource for call in kube.calls].count("deployments") == 2
