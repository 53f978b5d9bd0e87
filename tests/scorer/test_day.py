"""The coming day of nodes, from the profiles of their pods' workloads."""

import msgspec
import numpy as np
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import WindowUsage, WorkloadUtilization
from equipoise.scorer.state.daily_usage import FleetDays
from equipoise.scorer.state.load_correction import UsageOf, pod_usage

WEB = Workload(kind="Deployment", group="apps", namespace="shop", name="web")
USAGE: UsageOf = pod_usage({}, load=LoadSettings(), chain=("measured", "request", "limit", "default"), now=NOW)


def a_workload(cpu: list[float | None], memory: list[float | None] | None = None) -> WorkloadUtilization:
    return WorkloadUtilization(
        workload=WEB, replicas=3, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=1,
        windows={"5m": WindowUsage(sampled_at=NOW, mean=Resources(cpu=1.0, memory=GIB))},
        profile={"cpu": cpu, "memory": memory if memory is not None else [GIB] * SLOTS},
    )  # fmt: skip


def the_day_of(pods: list[str], *, workload: WorkloadUtilization | None, leaving: str = "") -> list[float]:
    """Cores in each hour of a node with these pods of WEB, each measured at half a core; its system uses 0.5."""
    days = FleetDays()
    days.grow(1)
    if workload is not None:
        days.learn(workload)
    placed = [msgspec.structs.replace(a_placed_pod(name, workload=WEB), terminating=name == leaving) for name in pods]
    utilization = msgspec.structs.replace(
        a_node_utilization("a", 1.0),
        system=Resources(cpu=0.5, memory=0.0),
        pods={pod.uid: Resources(cpu=0.5, memory=GIB) for pod in placed},
    )
    days.take(0, utilization, a_placement("a", placed), USAGE, np.array([10.0, 64 * GIB]))
    found: list[float] = (10.0 * days.of(np.array([0]), None, NOW).share[0, 0]).tolist()
    return found


def test_a_nodes_day_is_the_sum_of_its_pods_days_and_its_own_use() -> None:
    """Two pods of one core by day and none by night."""
    workload = a_workload([1.0] * 12 + [0.0] * 12)

    assert np.allclose(the_day_of(["x", "y"], workload=workload), [2.5] * 12 + [0.5] * 12)


def test_a_pod_without_a_day_uses_all_day_what_it_uses_now() -> None:
    """As measured."""
    assert np.allclose(the_day_of(["x", "y"], workload=None), [1.5] * SLOTS)


def test_a_pod_that_leaves_has_no_day_here() -> None:
    """It will work elsewhere."""
    assert np.allclose(the_day_of(["x", "y"], workload=None, leaving="y"), [1.0] * SLOTS)


def test_the_mean_is_that_of_the_known_nodes() -> None:
    """A row that was dropped, or never filled, is no idle node."""
    days = FleetDays()
    days.grow(3)
    for row, cores in ((0, 2.0), (1, 4.0)):
        utilization = msgspec.structs.replace(a_node_utilization("a", cores), system=Resources(cpu=cores, memory=0.0))
        days.take(row, utilization, a_placement("a", []), USAGE, np.array([10.0, 64 * GIB]))

    assert np.allclose(days.of(np.array([0]), None, NOW).mean[0], 0.3)
    days.drop(1)
    assert np.allclose(days.of(np.array([0]), None, NOW + 10).mean[0], 0.2)


def test_a_node_goes_by_the_days_and_the_pods_that_are_known_when_it_is_measured() -> None:
    """A workload's day that came, changed or was forgotten, and a pod that left, count from the next message on."""
    days = FleetDays()
    days.grow(1)
    pods = [a_placed_pod(name, workload=WEB) for name in ("x", "y")]
    utilization = msgspec.structs.replace(
        a_node_utilization("a", 1.0),
        system=Resources(cpu=0.5, memory=0.0),
        pods={pod.uid: Resources(cpu=0.5, memory=GIB) for pod in pods},
    )
    both, one = a_placement("a", pods), a_placement("a", pods[:1])

    def cores(placement: NodePlacement) -> float:
        days.take(0, utilization, placement, USAGE, np.array([10.0, 64 * GIB]))
        return round(10 * float(days.of(np.array([0]), None, NOW).share[0, 0, 0]), 6)

    found = [cores(both)]
    for level in (1.0, 1.0, 2.0):
        days.learn(a_workload([level] * SLOTS))
        found.append(cores(both))
    found.append(cores(one))
    days.forget(WEB)
    found.append(cores(one))
    days.learn(a_workload([3.0] * SLOTS))
    days.learn(a_workload([None] * SLOTS))
    found.append(cores(both))

    assert found == [1.5, 2.5, 2.5, 4.5, 2.5, 1.0, 1.5]
