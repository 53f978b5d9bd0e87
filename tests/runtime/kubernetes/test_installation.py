"""Two installations in one cluster: the younger one writes nothing."""

import re
from typing import Any

import msgspec
import pytest
from builders import NOW
from kube_objects import a_lease
from prometheus_client import CollectorRegistry

from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.installation import InstallationCheck, OtherInstallation, other_installations
from equipoise.runtime.process.health import Health
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

OURS, OTHER = "equipoise-system", "balance"


def test_the_older_installation_may_write() -> None:
    leases = [a_lease(OURS, created=NOW - 900), a_lease(OTHER, created=NOW - 1_000)]
    assert other_installations(leases, OURS, NOW) == [OtherInstallation(namespace=OTHER, older=True)]
    assert other_installations(leases, OTHER, NOW) == [OtherInstallation(namespace=OURS, older=False)]


def test_of_two_that_were_created_in_the_same_second_exactly_one_may_write() -> None:
    leases = [a_lease(OURS), a_lease(OTHER)]
    older = [each.older for namespace in (OURS, OTHER) for each in other_installations(leases, namespace, NOW)]
    assert sorted(older) == [False, True]


def test_one_without_a_lease_is_the_younger_one() -> None:
    """Its annotators start before its descheduler leads."""
    assert [each.older for each in other_installations([a_lease(OTHER)], OURS, NOW)] == [True]


@pytest.mark.parametrize(
    "unused", [{"holder": ""}, {"renewed": NOW - 601}, {"renewed": None}], ids=["released", "old", "never"]
)
def test_an_installation_that_does_not_work_is_ignored(unused: dict[str, Any]) -> None:
    """Scaled to zero, or its namespace was left behind."""
    assert other_installations([a_lease(OTHER, **unused), a_lease(OURS, created=NOW)], OURS, NOW) == []


async def test_the_check_reports_the_other_installation_until_it_is_gone() -> None:
    """With both namespaces. Only Leases of this name are listed: the role permits no others."""
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    health = Health(configuration_hash="", metrics=CollectorRegistry())
    check = InstallationCheck(kube, OURS, clock, health)
    assert check.problem
    kube.put(LEASES, a_lease(OTHER))
    await check.check()
    assert "in namespace balance" in check.problem
    assert health.problems == [check.problem]
    kube.fail_next("list", resource="leases")
    await check.check()
    assert "in namespace balance" in check.problem
    kube.remove(LEASES, "equipoise-descheduler", OTHER)
    await check.check()
    assert check.problem == ""
    assert health.problems == []
    kube.refuse("list", resource="leases")
    await check.check()
    assert "cannot be checked" in check.problem


def an_unreadable_lease(namespace: str, created: float) -> bytes:
    lease = a_lease(namespace, created=created)
    return re.sub(rb'("renewTime":")\d{4}', rb"\g<1>0000", msgspec.json.encode(lease))


async def test_a_younger_lease_that_cannot_be_read_stops_nothing_and_is_named() -> None:
    """A year that does not exist here, in a Lease that anyone with a namespace may create."""
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    health = Health(configuration_hash="", metrics=CollectorRegistry())
    health.include_unreadable(kube.unreadable)
    kube.put(LEASES, a_lease(OURS, created=NOW - 900))
    lease = kube.put_json(LEASES, an_unreadable_lease(OTHER, NOW - 100))
    assert lease.metadata.unreadable
    check = InstallationCheck(kube, OURS, clock, health)
    assert await check.current_problem() == ""
    assert health.problems == [
        "leases: 1 cannot be read: balance/equipoise-descheduler (spec.renewTime: Invalid RFC3339 encoded datetime)"
    ]
    kube.remove(LEASES, "equipoise-descheduler", OTHER)
    await check.check()
    assert health.problems == []


async def test_an_older_lease_that_cannot_be_read_may_be_in_use() -> None:
    """What is not known is no reason to write."""
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    kube.put(LEASES, a_lease(OURS, created=NOW - 900))
    kube.put_json(LEASES, an_unreadable_lease(OTHER, NOW - 1_000))
    check = InstallationCheck(kube, OURS, clock, Health(configuration_hash="", metrics=CollectorRegistry()))
    assert "in namespace balance is older, and cannot be read (spec.renewTime" in await check.current_problem()


async def test_a_check_that_fails_at_the_start_reports_why() -> None:
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    health = Health(configuration_hash="", metrics=CollectorRegistry())
    check = InstallationCheck(kube, OURS, clock, health)
    kube.fail_next("list", resource="leases")
    problem = await check.current_problem()
    assert problem.startswith("it was not yet checked whether there is another installation: ")
    assert health.problems == [problem]
    assert await check.current_problem() == ""
