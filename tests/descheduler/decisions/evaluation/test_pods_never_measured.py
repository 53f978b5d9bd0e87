"""Pods that nobody has measured are no reason to move another pod away from their node."""

from collections.abc import Sequence

import msgspec
import pytest
from builders import GIB, NOW, a_node_utilization, a_workload, a_workload_utilization
from descheduler.decisions.strategies.test_laws import VARIANTS
from descheduler.snapshots import LONG_AGO, a_pod, a_snapshot, evaluation_settings, owners_of, placed
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.eviction.opt_out import OPT_OUT
from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import PodMove
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.decisions.strategies import Strategy
from equipoise.descheduler.decisions.strategies.level_day import LevelDay

NODES = ("node-a", "node-b", "node-c", "node-d")
APPS = tuple(f"app{number}" for number in range(6))
SYSTEM = Resources(cpu=0.2, memory=GIB)
THRESHOLDS = Thresholds(
    high=ResourceThresholds(cpu=65, memory=80),
    low=ResourceThresholds(cpu=45, memory=60),
    prod_high=ResourceThresholds(cpu=40),
    prod_low=ResourceThresholds(cpu=20),
)
"""None for the number of pods: that of pods which never ran is known too."""


class World(msgspec.Struct, frozen=True, kw_only=True):
    """Pods, and what was measured."""

    pods: Sequence[Pod]
    usage: dict[str, Resources]
    """By UID of measured pods."""

    days: dict[str, tuple[float, ...]]
    """Cores in each hour of a replica of an app, with GiB in proportion."""

    def snapshot(self) -> Snapshot:
        on = {name: [pod for pod in self.pods if pod.spec.node_name == name] for name in NODES}
        utilization = {}
        for name, pods in on.items():
            measured = {
                pod.metadata.uid: self.usage[pod.metadata.uid] for pod in pods if pod.metadata.uid in self.usage
            }
            total = [SYSTEM, *measured.values()]
            utilization[name] = a_node_utilization(
                name,
                cpu=sum(each.cpu or 0.0 for each in total),
                memory=sum(each.memory or 0.0 for each in total),
                pods=measured,
                system=SYSTEM,
            )
        profiles = {
            a_workload(app): a_workload_utilization(
                a_workload(app), profile={"cpu": list(day), "memory": [each * GIB for each in day]}
            )
            for app, day in self.days.items()
        }
        snapshot = a_snapshot(*self.pods, nodes=NODES, owners=owners_of(*APPS))
        placements = {
            name: msgspec.structs.replace(placement, pods=[_placed(pod) for pod in on[name]])
            for name, placement in snapshot.placements.items()
        }
        return msgspec.structs.replace(snapshot, nodes=utilization, workloads=profiles, placements=placements)


def _placed(pod: Pod) -> PlacedPod:
    requests = pod.spec.containers[0].resources.requests
    cores = float(requests["cpu"][:-1]) / 1_000
    return msgspec.structs.replace(placed(pod), requests=Resources(cpu=cores, memory=GIB / 8))


def a_container(cores: float) -> Container:
    return Container(
        resources=ResourceRequirements(requests={"cpu": f"{int(1_000 * cores)}m", "memory": str(int(GIB / 8))})
    )


@st.composite
def days(draw: st.DrawFn) -> dict[str, tuple[float, ...]]:
    """Of all apps, or all but one; each has a peak of ten hours."""
    found = {}
    for app in APPS[draw(st.sampled_from([0, 0, 0, 1])) :]:
        low, high, begin = draw(st.floats(0.0, 1.5)), draw(st.floats(0.0, 3.0)), draw(st.integers(0, 23))
        found[app] = tuple(high if (hour - begin) % SLOTS < 10 else low for hour in range(SLOTS))
    return found


@st.composite
def worlds(draw: st.DrawFn) -> World:
    pods, usage = [], {}
    for node in NODES:
        for number in range(draw(st.integers(0, 5))):
            app = draw(st.sampled_from(APPS))
            pod = a_pod(f"{app}-{node}-{number}", node, LONG_AGO, app=app, containers=[a_container(0.1)])
            pods.append(pod)
            if draw(st.integers(0, 15)):
                usage[pod.metadata.uid] = Resources(cpu=draw(st.floats(0.0, 3.0)), memory=GIB * draw(st.floats(0.1, 9)))
    return World(pods=pods, usage=usage, days=draw(days()))


@st.composite
def never_measured(draw: st.DrawFn, node: str) -> World:
    """Pods that wait for their image, or run and use nothing."""
    pods, usage = [], {}
    for number in range(draw(st.integers(1, 4))):
        app = draw(st.sampled_from(APPS))
        since = draw(st.sampled_from([NOW - 30, NOW - 700, NOW - 90_000, LONG_AGO]))
        phase = draw(st.sampled_from(["Pending", "Running"]))
        container = a_container(draw(st.sampled_from([0.001, 0.5, 6.0])))
        pod = a_pod(f"{app}-new-{number}", node, since, app=app, containers=[container])
        pods.append(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase)))
        if draw(st.booleans()):
            usage[pod.metadata.uid] = Resources(cpu=0.0, memory=0.0)
    return World(pods=pods, usage=usage, days={})


def both(world: World, more: World) -> World:
    return World(pods=[*world.pods, *more.pods], usage={**world.usage, **more.usage}, days=world.days)


def kept(pod: Pod) -> Pod:
    """The pod, which must not be moved."""
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations={OPT_OUT: "false"}))


def without_scores(strategy: Strategy) -> EvaluationSettings:
    """A target gets every replacement, whatever else kube-scheduler would prefer: that depends on requests."""
    chosen = evaluation_settings(
        THRESHOLDS, strategies=(strategy,), max_intents_per_evaluation=100, max_intents_per_node=100
    )
    return msgspec.structs.replace(chosen, target_points=10_000)


def moves(strategy: Strategy, world: World) -> Sequence[PodMove]:
    return evaluate(world.snapshot(), without_scores(strategy), needed=1).results[0].plan.moves


@pytest.mark.parametrize("strategy", VARIANTS)
@settings(max_examples=40, deadline=None)
@given(world=worlds(), data=st.data())
def test_a_node_does_not_lose_more_pods_because_of_pods_that_were_never_measured(
    strategy: Strategy, world: World, data: st.DataObject
) -> None:
    """Only the pods of this node may move, so that no other move has an effect on it."""
    node = data.draw(st.sampled_from(NODES))
    pods = [pod if pod.spec.node_name == node else kept(pod) for pod in world.pods]
    world = msgspec.structs.replace(world, pods=pods)
    more = data.draw(never_measured(node))

    before = {move.pod.name for move in moves(strategy, world)}
    after = {move.pod.name for move in moves(strategy, both(world, more))}

    others = after - {pod.metadata.name for pod in more.pods}
    assert len(others) <= len(before)
    # A new pod, which uses nothing, may take the place of another pod in the plan. level_day may choose among pods of
    # about equal gain: a workload with one more pod may lose one more.
    if others == after and not isinstance(strategy, LevelDay):
        assert others <= before
