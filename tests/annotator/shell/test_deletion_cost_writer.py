"""Deletion costs of pods before a scale-down, with bus, API server and clock of memory."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from annotator.worlds import World
from builders import a_node_utilization, a_placed_pod, a_placement, a_workload, a_workload_utilization
from kube_objects import a_pod, owned_by

from equipoise.annotator.decisions.deletion_order import First
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.annotator.shell.deletion_cost_writer import CHECK_PERIOD, MAX_ATTEMPTS
from equipoise.contracts.bus.subjects import node_placement, node_utilization, workload_utilization
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.eviction.deletion_cost import DELETION_COST, is_own_cost
from equipoise.contracts.kubernetes.labels import ZONE
from equipoise.contracts.kubernetes.objects.pod import Pod, SchedulingGroup, TopologySpreadConstraint
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.runtime.kubernetes.client import PODS

HOUR = 3_600.0
NODES = {"n0": 9.0, "n1": 7.0, "n2": 3.0, "n3": 3.0, "n4": 3.0}
"""The cores that each of five nodes of ten uses."""

WEB = a_workload()
STEADY = [20.0] * 24


def a_day(at: float) -> list[float | None]:
    """Twenty pods in each hour, and ten from the next hour on."""
    day: list[float | None] = list(STEADY)
    day[int(at // HOUR + 1) % 24] = 10.0
    return day


class ScaledWorld(World):
    """Five nodes, each with four pods of a Deployment."""

    async def begin_with(self, first: First | str = "hottestNodes", identity: str = "annotator-1") -> None:
        settings = msgspec.convert({"deletionCosts": first}, AnnotatorSettings)
        await self.begin(identity, settings)

    async def until_minutes_before_an_hour(self, minutes: float = 10.0) -> None:
        await self.clock.advance((-60 * minutes - self.clock.now()) % HOUR)

    def put_pods(self, change: Callable[[str, str], dict[str, Any]] = lambda name, node: {}) -> None:
        """`change` returns other fields of a pod, by its name and node."""
        for node in NODES:
            for number in range(4):
                name = f"{node}-{number}"
                self.kube.put(PODS, a_pod(name, node=node, **change(name, node)))

    async def publish(self, workload: Workload = WEB, by_hour: list[float | None] | None = None) -> None:
        """What the collector publishes now."""
        self.sequence += 1
        now = self.clock.now()
        common: dict[str, Any] = {"sequence": self.sequence}
        measured = common | {"sampled_at": now, "queried_at": now}
        for node, cores in NODES.items():
            pods = [a_placed_pod(f"{node}-{number}", workload=workload) for number in range(4)]
            placement = a_placement(node, pods, labels={ZONE: node}, **common)
            await self.bus.publish(node_placement(node), placement)
            await self.bus.publish(node_utilization(node), a_node_utilization(node, cores, **measured))
        profile = {"cpu": [0.5] * 24, "memory": [1e6] * 24}
        days = a_day(now) if by_hour is None else by_hour
        utilization = a_workload_utilization(workload, replicas=20, replicas_by_hour=days, profile=profile, **measured)
        await self.bus.publish(workload_utilization(workload), utilization)
        await self.clock.advance(CHECK_PERIOD + 20)  # a check, with its requests

    def pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in self.kube.stored(PODS)}

    def costs(self) -> dict[str, str]:
        found = {name: pod.metadata.annotations.get(DELETION_COST) for name, pod in self.pods().items()}
        return {name: cost for name, cost in found.items() if cost is not None}

    def marked(self) -> Counter[str]:
        """The number of pods with a cost, by node."""
        return Counter(name.split("-")[0] for name in self.costs())

    @property
    def calls(self) -> int:
        return sum(call.resource == "pods" for call in self.kube.calls)


@pytest.fixture
async def world() -> AsyncIterator[ScaledWorld]:
    world = ScaledWorld()
    yield world
    for identity in list(world.running):
        await world.end(identity)


async def test_by_default_no_pod_is_read_or_written(world: ScaledWorld) -> None:
    world.put_pods()
    await world.begin()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert world.calls == 0


@pytest.mark.parametrize(
    ("level", "first", "written"),
    [
        ("off", "hottestNodes", False),
        ("scaleDowns", None, True),
        ("scaleDowns", "none", False),
        ("levelDay", None, True),
    ],
)
async def test_a_level_decides_whether_costs_are_written(
    world: ScaledWorld, level: MovesLevel, first: str | None, written: bool
) -> None:
    """Where the setting is absent; where it is set, it can only be less."""
    world.put_pods()
    settings = msgspec.convert({"deletionCosts": first}, AnnotatorSettings)
    await world.begin("annotator-1", settings, level=level)
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert bool(world.costs()) == written


async def test_pods_on_the_hottest_nodes_get_the_lowest_costs(world: ScaledWorld) -> None:
    """Minutes before the scale-down, as many as will be deleted; the hottest node first."""
    world.put_pods()
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert world.marked() == {"n0": 4, "n1": 4, "n2": 1, "n3": 1}
    assert all(map(is_own_cost, world.costs().values()))
    assert min(world.costs(), key=lambda name: int(world.costs()[name])).startswith("n0")
    written = {"kind": "Pod", "result": "written"}
    assert world.metrics["annotator-1"].get_sample_value("equipoise_annotator_writes_total", written) == 10


async def test_nodes_are_emptied_one_after_the_other(world: ScaledWorld) -> None:
    """Those with the lowest load first, if they have equally many pods."""
    world.put_pods()
    await world.begin_with("emptiestNodes")
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert world.marked() == {"n2": 4, "n3": 4, "n4": 2}


async def test_costs_are_written_once_for_each_scale_down(world: ScaledWorld) -> None:
    """Not again for the same one; for the one of the next hour, again."""
    world.put_pods()
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()
    before = world.calls
    await world.publish()
    assert world.calls == before

    await world.until_minutes_before_an_hour()
    await world.publish()
    assert world.calls > before


async def test_costs_of_the_last_scale_down_are_replaced(world: ScaledWorld) -> None:
    """Pods that remained, although they had a cost, lose it if others should go first now."""
    old = {"metadata": {"annotations": {DELETION_COST: "-9999"}}}
    world.put_pods(lambda name, node: old if node == "n4" else {})
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert world.marked() == {"n0": 4, "n1": 4, "n2": 1, "n3": 1}


@pytest.mark.parametrize("by_hour", [STEADY, [], [None] * 24], ids=["steady", "unknown", "no hour known"])
async def test_without_an_expected_scale_down_nothing_is_read(world: ScaledWorld, by_hour: list[float | None]) -> None:
    world.put_pods()
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish(by_hour=by_hour)

    assert world.calls == 0


async def test_earlier_in_the_hour_nothing_is_read(world: ScaledWorld) -> None:
    """The loads of the nodes may change."""
    world.put_pods()
    await world.begin_with()
    await world.until_minutes_before_an_hour(30)
    await world.publish()

    assert world.calls == 0


OBSTACLES: dict[str, dict[str, Any]] = {
    "a cost of another program": {"metadata": {"annotations": {DELETION_COST: "-1"}}},
    "a cost that is almost one of ours": {"metadata": {"annotations": {DELETION_COST: "-90001"}}},
    "no cost at all": {"metadata": {"annotations": {DELETION_COST: "soon"}}},
    "another ReplicaSet": {"metadata": {"owner_references": owned_by("ReplicaSet", "web-new")}},
    "another controller": {"metadata": {"owner_references": owned_by("CloneSet", "web", "apps.kruise.io")}},
    "no controller": {"metadata": {"owner_references": []}},
    "a gang": {"spec": {"scheduling_group": SchedulingGroup(pod_group_name="train")}},
    "not readable": {"metadata": {"unreadable": "by the test"}},
}


@pytest.mark.parametrize("name", OBSTACLES)
async def test_one_pod_of_another_kind_prevents_all_writes(world: ScaledWorld, name: str) -> None:
    """Costs of two writers, or of two revisions, would mix."""
    world.put_pods(lambda pod, node: OBSTACLES[name] if pod == "n4-3" else {})
    before = world.pods()
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert world.pods() == before


@pytest.mark.parametrize(
    "workload",
    [
        a_workload(kind="StatefulSet"),
        a_workload(kind="CloneSet", group="apps.kruise.io"),
        msgspec.structs.replace(WEB, namespace="kube-system"),
    ],
    ids=["StatefulSet", "CloneSet", "excluded namespace"],
)
async def test_other_workloads_are_not_read(world: ScaledWorld, workload: Workload) -> None:
    world.put_pods()
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish(workload)

    assert world.calls == 0


async def test_pods_that_are_excluded_from_evictions_go_last(world: ScaledWorld) -> None:
    """Their owner wants to keep them."""
    kept = {"metadata": {"annotations": {"equipoise.dev/evict": "false"}}}
    world.put_pods(lambda name, node: kept if node == "n0" else {})
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert world.marked() == {"n1": 4, "n2": 2, "n3": 2, "n4": 2}


async def test_the_topology_spread_of_the_pods_is_kept(world: ScaledWorld) -> None:
    """Every node is a zone here: from each, as many pods go."""
    constraint = TopologySpreadConstraint(topology_key=ZONE, max_skew=1)
    world.put_pods(lambda name, node: {"spec": {"topology_spread_constraints": [constraint]}})
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert world.marked() == dict.fromkeys(NODES, 2)


async def test_a_pod_that_was_deleted_or_replaced_is_left_out(world: ScaledWorld) -> None:
    """The UID distinguishes them."""
    world.put_pods(lambda name, node: {"metadata": {"uid": "another"}} if name == "n0-0" else {})
    world.kube.remove(PODS, "n0-1", "shop")
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert not {"n0-0", "n0-1"} & world.costs().keys()
    assert world.marked()["n0"] == 2


@pytest.mark.parametrize(("conflicts", "written"), [(MAX_ATTEMPTS - 1, 10), (MAX_ATTEMPTS, 9)])
async def test_a_pod_that_changes_meanwhile_is_read_again(world: ScaledWorld, conflicts: int, written: int) -> None:
    """Its kubelet has written its status."""
    world.put_pods()
    for _ in range(conflicts):
        world.kube.fail_next("annotate", status=409, reason="Conflict", resource="pods", name="n0-0")
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()

    assert len(world.costs()) == written


async def test_a_missing_permission_is_reported_and_tried_again(world: ScaledWorld) -> None:
    """In the next check, as long as the scale-down is expected."""
    world.put_pods()
    world.kube.refuse("annotate", resource="pods")
    await world.begin_with()
    await world.until_minutes_before_an_hour()
    await world.publish()
    assert "deletion costs of the pods of" in "; ".join(world.health["annotator-1"].problems)
    assert world.costs() == {}

    world.kube.clear_faults()
    await world.publish()
    assert len(world.costs()) == 10
    assert "deletion costs" not in "; ".join(world.health["annotator-1"].problems)


async def test_of_several_replicas_one_writes(world: ScaledWorld) -> None:
    """Each pod is read and written once."""
    world.put_pods()
    for number in range(3):
        await world.begin_with(identity=f"annotator-{number}")
    await world.clock.advance(60)
    await world.until_minutes_before_an_hour()
    await world.publish()

    reads = Counter(call.name for call in world.kube.calls if call.resource == "pods" and call.verb == "get")
    assert set(reads.values()) == {1}
    assert len(world.costs()) == 10
