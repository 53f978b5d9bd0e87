"""The daily load of nodes, from the profiles of their pods' workloads."""

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_batch_pod, a_node_utilization, a_placed_pod, a_placement

from equipoise.contracts.configuration.settings import BatchWorkWeight, LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import UsageOf
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.load.demand import pod_usage
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.state.daily_usage import DailyUsage

WEB = Workload(kind="Deployment", group="apps", namespace="shop", name="web")
USAGE: UsageOf = pod_usage({}, load=LoadSettings(), chain=("measured", "request", "limit", "default"), now=NOW)
BASE = np.array([10.0, 64 * GIB])
NONE = np.zeros((1, 2))
"""Nothing is reserved."""


def a_profile(cpu: list[float | None], memory: list[float | None] | None = None) -> WorkloadUtilization:
    """Of WEB, per replica."""
    return WorkloadUtilization(
        workload=WEB, replicas=3, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=1,
        windows={"5m": WindowUsage(sampled_at=NOW, mean=Resources(cpu=1.0, memory=GIB))},
        profile={"cpu": cpu, "memory": memory if memory is not None else [GIB] * SLOTS},
    )  # fmt: skip


def utilization_of(pods: list[PlacedPod]) -> NodeUtilization:
    """Each pod is measured at half a core; the node uses another half outside its pods."""
    return msgspec.structs.replace(
        a_node_utilization("a", 1.0),
        system=Resources(cpu=0.5, memory=0.0),
        pods={pod.uid: Resources(cpu=0.5, memory=GIB) for pod in pods},
    )


def update(daily: DailyUsage, row: int, utilization: NodeUtilization, placement: NodePlacement) -> None:
    constant = daily.constant_usage(row, utilization, placement, USAGE, NOW)
    daily.update(np.array([row]), constant, BASE[np.newaxis])


def cores_per_hour(pods: list[str], profile: WorkloadUtilization | None, terminating: str = "") -> list[float]:
    """The daily usage of a node with these pods of WEB."""
    daily = DailyUsage(BatchWorkWeight())
    daily.grow(1)
    if profile is not None:
        daily.on_workload(profile)
    placed = [
        msgspec.structs.replace(a_placed_pod(name, workload=WEB), terminating=name == terminating) for name in pods
    ]
    update(daily, 0, utilization_of(placed), a_placement("a", placed))
    found: list[float] = (10.0 * daily.loads(np.array([0]), NONE, NOW).share[0, 0]).tolist()
    return found


def test_a_nodes_daily_load_is_the_sum_of_its_pods_profiles_and_its_system_usage() -> None:
    """Two pods of one core by day and none by night."""
    profile = a_profile([1.0] * 12 + [0.0] * 12)

    assert np.allclose(cores_per_hour(["x", "y"], profile), [2.5] * 12 + [0.5] * 12)


def test_a_pod_without_a_profile_uses_its_measured_usage_all_day() -> None:
    """Half a core each, and the system's half."""
    assert np.allclose(cores_per_hour(["x", "y"], None), [1.5] * SLOTS)


def test_a_terminating_pod_counts_as_it_is_measured() -> None:
    """Its workload would count with half a core all day; its end is not known."""
    profile = a_profile([1.0] * 12 + [0.0] * 12)

    assert np.allclose(cores_per_hour(["x", "y"], profile, terminating="y"), [2.0] * 12 + [1.0] * 12)


@pytest.mark.parametrize(("ends_in", "cores"), [(30.0, 1.0), (60.0, 1.0), (61.0, 1.5), (-1.0, 1.5)])
def test_a_terminating_pod_that_ends_soon_is_not_in_the_forecast(ends_in: float, cores: float) -> None:
    """Its end is before a new pod is busy. One that should have ended may run on, for example with a finalizer."""
    daily = DailyUsage(BatchWorkWeight())
    daily.grow(1)
    ending = a_placed_pod("y", workload=WEB, terminating=True, terminates_at=NOW + ends_in)
    placed = [a_placed_pod("x", workload=WEB), ending]
    update(daily, 0, utilization_of(placed), a_placement("a", placed))

    assert np.allclose(10.0 * daily.loads(np.array([0]), NONE, NOW).share[0, 0], [cores] * SLOTS)


def test_the_mean_is_that_of_known_nodes() -> None:
    """A row that was cleared or never used does not count as an idle node."""
    daily = DailyUsage(BatchWorkWeight())
    daily.grow(3)
    for row, cores in ((0, 2.0), (1, 4.0)):
        utilization = msgspec.structs.replace(a_node_utilization("a", cores), system=Resources(cpu=cores, memory=0.0))
        update(daily, row, utilization, a_placement("a", []))

    assert np.allclose(daily.loads(np.array([0]), NONE, NOW).mean[0], 0.3)
    daily.clear(1)
    assert np.allclose(daily.loads(np.array([0]), NONE, NOW + 10).mean[0], 0.2)


def test_changed_profiles_and_pods_count_from_the_nodes_next_message_on() -> None:
    """Of a workload whose profile is new, changed or removed, and of a pod that left."""
    daily = DailyUsage(BatchWorkWeight())
    daily.grow(1)
    pods = [a_placed_pod(name, workload=WEB) for name in ("x", "y")]
    both, one = a_placement("a", pods), a_placement("a", pods[:1])

    def cores(placement: NodePlacement) -> float:
        update(daily, 0, utilization_of(pods), placement)
        return round(10 * float(daily.loads(np.array([0]), NONE, NOW).share[0, 0, 0]), 6)

    found = [cores(both)]
    for level in (1.0, 1.0, 2.0):
        daily.on_workload(a_profile([level] * SLOTS))
        found.append(cores(both))
    found.append(cores(one))
    daily.remove_workload(WEB)
    found.append(cores(one))
    daily.on_workload(a_profile([3.0] * SLOTS))
    daily.on_workload(a_profile([None] * SLOTS))
    found.append(cores(both))

    assert found == [1.5, 2.5, 2.5, 4.5, 2.5, 1.0, 1.5]


def test_batch_work_counts_with_its_weight_in_every_hour() -> None:
    """With a profile and without one: a fifth of its cores, all of its memory."""
    job, other = a_batch_pod("job-1", workload=WEB), a_batch_pod("job-2", workload=None)
    daily = DailyUsage(BatchWorkWeight())
    daily.grow(1)
    daily.on_workload(a_profile([1.0] * 12 + [0.0] * 12))

    update(daily, 0, utilization_of([job, other]), a_placement("a", [job, other]))

    share = daily.loads(np.array([0]), NONE, NOW).share[0]
    assert np.allclose(10.0 * share[0], [0.5 + 0.2 + 0.1] * 12 + [0.5 + 0.1] * 12)
    assert np.allclose(share[1] * BASE[1], 2 * GIB)
