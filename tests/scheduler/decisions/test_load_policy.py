"""Scores of the scorer's policies in `equipoise scheduler`: those that the extender would give."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest
from builders import NOW, a_node_utilization, a_placement, a_workload, a_workload_utilization
from prometheus_client import CollectorRegistry
from scheduler.live_schedulers import live_scheduler
from scheduling.pods import a_node, a_pod
from scorer.clusters import a_cycle, an_outcome
from scorer.example_policies import EXAMPLES

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.kubernetes.objects.metadata import OwnerReference
from equipoise.runtime.bus import Bus, BusUnavailable
from equipoise.runtime.process.health import Health
from equipoise.scheduler.decisions.load_policy import NAME, LoadPolicy
from equipoise.scheduler.service import BUS_PAUSE_SECONDS, LOAD_SECONDS
from equipoise.scheduler.settings import LoadScoring, scheduler_configuration, with_policy
from equipoise.scheduler.shell.load_feed import LoadFeed
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import MAX_SCORE
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scorer.decisions.demand import pod_demand
from equipoise.scorer.decisions.policies import SINGLE_POLICIES
from equipoise.scorer.service import Scorer
from equipoise.scorer.settings import ExtenderSettings, ScorerSettings
from equipoise.scorer.state.scoring_state import ScoringState
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock

CORES = {"node-a": 7.0, "node-b": 1.0, "node-c": 4.0, "node-d": 9.5}
"""Used, of 10."""


SCORING = LoadScoring(load=LoadSettings(), scorer=ScorerSettings())


def scoring_state(settings: ScorerSettings) -> ScoringState:
    return ScoringState(LoadSettings(), settings, max_score=MAX_SCORE)


async def publish(bus: Bus, cores: Mapping[str, float] = CORES) -> None:
    for node, cpu in cores.items():
        await bus.publish(subjects.node_placement(node), a_placement(node))
        await bus.publish(subjects.node_utilization(node), a_node_utilization(node, cpu))
    await bus.publish(subjects.utilization_cycle("0"), a_cycle(len(cores)))


@asynccontextmanager
async def opened(bus: MemoryBus) -> AsyncIterator[Bus]:
    yield bus


def a_health() -> Health:
    return Health(configuration_hash="", metrics=CollectorRegistry())


def owned(name: str, workload: str) -> PodInfo:
    """A pod of a StatefulSet."""
    pod = a_pod(name, {"cpu": "500m"}, namespace="shop").pod
    owner = OwnerReference(api_version="apps/v1", kind="StatefulSet", name=workload, uid=workload, controller=True)
    metadata = msgspec.structs.replace(pod.metadata, owner_references=[owner])
    return PodInfo(msgspec.structs.replace(pod, metadata=metadata))


@pytest.mark.parametrize("policy", sorted(SINGLE_POLICIES))
async def test_the_scores_are_those_of_the_scorer(policy: str) -> None:
    """After the same messages, for one pod after the other: with reservations, and after an eviction."""
    clock = ManualClock(NOW)
    settings = ScorerSettings(policy=EXAMPLES[policy], extender=ExtenderSettings(max_score=100))
    state = scoring_state(settings)
    plugin = LoadPolicy(state, clock.now)
    snapshot = ClusterSnapshot([a_node(name) for name in CORES])
    async with MemoryBus(clock) as bus:
        scorer = Scorer(
            settings=settings, load=LoadSettings(), thresholds=Thresholds(), bus=bus, clock=clock, health=a_health(),
            metrics=CollectorRegistry(),
        )  # fmt: skip
        await scorer.attach()
        feed = asyncio.create_task(LoadFeed(state, clock, a_health()).run(bus))
        db = a_workload("db", kind="StatefulSet")
        await publish(bus)
        subject = subjects.workload_utilization(db)
        await bus.publish(subject, a_workload_utilization(db, cpu=2.5))
        outcome = an_outcome(workload=db, node="node-b", target="node-c")
        await bus.publish(subjects.eviction_outcome("node-b", outcome.pod_uid), outcome)
        await bus.settled()

        found = []
        for pod in (owned("one", "web"), owned("two", "db"), owned("three", "db"), owned("four", "web")):
            rows = snapshot.rows[: 3 if pod.name == "one" else None]
            expected = scorer.prioritize(pod_demand(pod.pod), snapshot.names(rows)).scores.tolist()
            found.append(plugin.score(CycleState(), pod, snapshot, rows).tolist())
            assert expected == found[-1], pod
        feed.cancel()
    assert found[1][1] == min(found[1]), "a pod of this workload was evicted from it"
    if not settings.policy.statistics:  # others are not measured here, and all nodes equal without them
        assert 0 == found[1][1] < max(found[1])


async def test_pods_run_where_the_load_is_low() -> None:
    """Requests are equal everywhere: without the plugin, the fullest node would be as good as any."""
    clock = ManualClock(NOW)
    async with MemoryBus(clock) as bus:
        await publish(bus)
        async with live_scheduler(clock=clock, load=SCORING, bus=lambda: opened(bus)) as live:
            for name in CORES:
                live.add_node(name, cpu="10")
            await live.settle()
            live.add_pod("web", "500m")
            await live.settle()

            assert "node-b" == live.node_of("web")
            assert [] == live.health.report().problems


async def test_without_loads_pods_are_scheduled_as_without_the_plugin() -> None:
    """The bus refuses the credentials at first, and has no message of a node then."""
    clock = ManualClock(NOW)
    refusals = ["wrong password"]
    async with MemoryBus(clock) as bus:

        @asynccontextmanager
        async def refusing() -> AsyncIterator[Bus]:
            if refusals:
                raise BusUnavailable(refusals.pop())
            yield bus

        async with live_scheduler(clock=clock, load=SCORING, bus=refusing) as live:
            live.add_node("node-a")
            live.add_node("node-b")
            live.add_pod("web")
            await live.settle()
            assert not live.node_of("web"), "the loads may be received yet"
            await clock.advance(LOAD_SECONDS)
            assert live.node_of("web")
            assert ["wrong password"] == live.health.report().problems

            await clock.advance(BUS_PAUSE_SECONDS)
            assert [
                "no collector has completed a cycle yet: `equipoise doctor` finds why"
            ] == live.health.report().problems
            live.add_pod("api")
            await live.settle()
            assert {"node-a", "node-b"} == {live.node_of("web"), live.node_of("api")}


def test_the_setting_neutral_makes_all_scores_equal() -> None:
    plugin = LoadPolicy(scoring_state(ScorerSettings()), lambda: NOW, neutral=True)
    snapshot = ClusterSnapshot([a_node("a"), a_node("b")])

    assert [0, 0] == plugin.score(CycleState(), a_pod(), snapshot, snapshot.rows).tolist()


def test_a_policy_by_its_name() -> None:
    settings = ScorerSettings(policy=SINGLE_POLICIES["profile"]())

    assert settings is with_policy(settings, "profile")
    assert "dynamic" == with_policy(settings, "dynamic").policy.policy_name()
    with pytest.raises(InvalidConfiguration, match="--policy best: there is no such policy; known: dynamic, "):
        with_policy(settings, "best")


def test_a_configuration_enables_the_plugin_by_its_name() -> None:
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - plugins: {{score: {{enabled: [{{name: {NAME}, weight: 7}}]}}}}
"""
    (profile,) = scheduler_configuration(text, {}, load=True).profiles
    (default,) = scheduler_configuration(None, {}, load=True).profiles

    assert [(NAME, 7)] == [(each.name, each.weight) for each in profile.plugins["score"].enabled]
    assert (NAME, 5) in [(each.name, each.weight) for each in default.plugins["multiPoint"].enabled]
    with pytest.raises(InvalidConfiguration, match=NAME):
        scheduler_configuration(text, {}, load=False)
    with pytest.raises(InvalidConfiguration, match="is the name of the plugin of --policy"):
        scheduler_configuration(text, {NAME: lambda arguments, handle: LoadPolicy}, load=True)  # type: ignore[arg-type,return-value]
