"""A descheduler that empties nodes: what it publishes and proposes, and what a new leader goes on with."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from descheduler.cluster import Cluster

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.messages.consolidation import (
    ConsolidationRequest,
    ConsolidationResponse,
    NodesBeingEmptied,
    PricedNodes,
)
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.health import DRY_RUN, REAL, Heartbeat
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.runtime.kubernetes.client import NODES, PODS

ACT = Consolidation(mode="act", margin=0.0)
EVALUATION = 120.0
STEP = 30.0


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Three nodes at 10 % with a pod each."""
    cluster = Cluster()
    async with cluster.bus:
        for number in range(3):
            cluster.add_node(f"node-{number}")
            cluster.add_app(f"app{number}", {f"app{number}-x": f"node-{number}"}, 1.0)
            await cluster.measure_app(f"app{number}", 1.0, whole_day=True)
        yield cluster


@asynccontextmanager
async def running(cluster: Cluster, consolidation: Consolidation = ACT, **fields: Any) -> AsyncIterator[None]:
    """A descheduler that leads; binders evict."""
    descheduler = cluster.descheduler(consolidation=consolidation, **fields)
    await descheduler.attach()
    await cluster.measure()
    task = asyncio.create_task(descheduler.run())
    try:
        await cluster.clock.advance(0.0)
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled(), task.exception()


async def evaluations(cluster: Cluster, count: int, evictions: str = REAL, *, campaign: bool = False) -> None:
    """As many evaluations later. A binder reports all the time."""
    for _ in range(round(count * EVALUATION / STEP)):
        at = cluster.clock.now()
        heartbeat = Heartbeat(
            service="binder",
            id="binder-1",
            version="1",
            ready=True,
            evictions=evictions,
            campaign_permits=campaign,
            at=at,
        )
        await cluster.bus.publish(subjects.health("binder", "binder-1"), heartbeat)
        await cluster.pass_time(STEP, step=STEP)


def emptied(cluster: Cluster) -> list[NodesBeingEmptied]:
    return cluster.bus.published(NodesBeingEmptied, subjects.NODES_EMPTYING)


def taint(cluster: Cluster, name: str) -> None:
    """What the annotator does."""
    node = next(node for node in cluster.kube.stored(NODES) if node.metadata.name == name)
    taints = [consolidation_taint(cluster.clock.now())]
    cluster.kube.put(NODES, msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints)))


async def answer(cluster: Cluster, request: ConsolidationRequest) -> ConsolidationResponse:
    return await cluster.bus.request(subjects.PLAN_CONSOLIDATION, request, ConsolidationResponse, timeout=5.0)


async def test_a_node_is_published_first_and_then_its_pods_move(cluster: Cluster) -> None:
    """The message is valid until a few evaluations were missed."""
    async with running(cluster):
        await evaluations(cluster, 1)
        assert not cluster.intents
        await evaluations(cluster, 1)
        (chosen,) = {each.node for message in emptied(cluster) for each in message.nodes}
        taint(cluster, chosen)
        await evaluations(cluster, 2)

    latest = emptied(cluster)[-1]
    assert latest.valid_until - latest.evaluated_at == 4 * EVALUATION
    assert {(intent.strategy, intent.node) for intent in cluster.intents} == {("consolidate", chosen)}
    assert cluster.registry.get_sample_value("equipoise_descheduler_nodes_being_emptied") == 0.0


async def test_no_pod_moves_to_the_node_that_is_being_emptied_although_it_has_no_taint(cluster: Cluster) -> None:
    """The annotator may be late, or have no permission. The day is leveled when the node is empty."""
    cluster.add_app("busy", {f"busy-{number}": "node-1" for number in range(4)}, 1.0)
    await cluster.measure_app("busy", 1.0, whole_day=True)
    level_day = LevelDay(threshold=1.0, min_gain=0.0)
    async with running(cluster, strategies=(level_day,), consecutive_abnormalities=1):
        await evaluations(cluster, 6)
        (chosen,) = emptied(cluster)[-1].nodes
        decisions = [each for each in cluster.decisions if each.strategy == "level_day"]

    since = [intent for intent in cluster.intents if intent.decided_at > chosen.since]
    assert {(intent.strategy, intent.node) for intent in since} == {("consolidate", chosen.node)}
    assert decisions[-1].why == f"it waits until {chosen.node} has been emptied, because no node has to be relieved"


async def test_the_day_is_leveled_while_an_empty_node_waits_for_its_removal(cluster: Cluster) -> None:
    """Perhaps no autoscaler ever removes it."""
    cluster.add_node("node-x")
    taint(cluster, "node-x")
    async with running(cluster, strategies=(LevelDay(),), consecutive_abnormalities=1):
        await evaluations(cluster, 3)
        decision = next(each for each in reversed(cluster.decisions) if each.strategy == "level_day")

    assert [node.node for node in emptied(cluster)[-1].nodes] == ["node-x"]
    assert "has been emptied" not in decision.why


async def test_consolidation_waits_while_a_campaign_levels(cluster: Cluster) -> None:
    """The nodes that it was emptying are no targets meanwhile, and it goes on with them."""
    taint(cluster, "node-2")
    async with running(cluster):
        await evaluations(cluster, 3, campaign=True)
        (decision,) = [each for each in cluster.decisions if each.strategy == "consolidate"][-1:]
        assert decision.why == "a campaign levels the nodes (equipoise rebalance)"
        assert not cluster.intents
        await evaluations(cluster, 3)
        assert {intent.node for intent in cluster.intents} == {"node-2"}


async def test_a_new_leader_goes_on_with_the_node_that_has_the_taint(cluster: Cluster) -> None:
    """Its memory is empty. Another node would have come first."""
    taint(cluster, "node-2")
    async with running(cluster):
        await evaluations(cluster, 3)

    assert [each.node for each in emptied(cluster)[-1].nodes] == ["node-2"]
    assert {intent.node for intent in cluster.intents} == {"node-2"}


async def test_an_empty_node_that_stays_is_a_problem(cluster: Cluster) -> None:
    """/readyz names the one that no autoscaler removes."""
    taint(cluster, "node-0")
    async with running(cluster, Consolidation(mode="act", margin=0.0, removal_timeout=Duration(600))):
        await evaluations(cluster, 3)
        for intent in cluster.intents:
            await cluster.settle(intent, Outcome.EVICTED)
            cluster.kube.remove(PODS, intent.pod, "shop")
        cluster.add_pod("app0-new", "node-1", 1.0, app="app0")
        await evaluations(cluster, 8)

        assert any("node-0 has been empty for" in problem for problem in cluster.health.problems)
        assert "no autoscaler removed it" in cluster.decisions[-1].why
        assert [each.node for each in emptied(cluster)[-1].nodes] == ["node-0"]


@pytest.mark.parametrize(
    ("mode", "evictions", "level", "why"),
    [
        ("observe", REAL, None, "consolidation.mode is observe"),
        ("act", DRY_RUN, None, "no pod is evicted: dry run"),
        ("act", REAL, "hotNodes", "consolidate moves no pods at moves.level hotNodes"),
    ],
)
async def test_nothing_is_emptied_without_permission(
    cluster: Cluster, mode: Any, evictions: str, level: Any, why: str
) -> None:
    """The decision names what could go nevertheless."""
    async with running(cluster, Consolidation(mode=mode, margin=0.0), level=level):
        await evaluations(cluster, 3, evictions)

    assert not any(message.nodes for message in emptied(cluster))
    assert not cluster.intents
    decision = next(each for each in reversed(cluster.decisions) if each.strategy == "consolidate")
    assert decision.why.startswith(why)
    assert any(node.why.startswith("it could go: ") for node in decision.nodes)


async def test_the_leader_answers_which_nodes_could_go_although_consolidation_is_off(cluster: Cluster) -> None:
    """With the prices of the request, and what prevents that it acts."""
    async with running(cluster, Consolidation(margin=0.0)):
        prices = [PricedNodes(labels={"kubernetes.io/hostname": "node-2"}, per_hour=0.5)]
        found = await answer(cluster, ConsolidationRequest(prices=prices, currency="EUR"))
        plain = await answer(cluster, ConsolidationRequest())

    assert [node.node for node in found.nodes] == ["node-2", "node-0"]
    assert (found.emptiable, found.pods, found.considered) == (2, 2, 3)
    assert (found.per_hour, found.currency, found.unpriced) == (0.5, "EUR", 1)
    assert found.why == "consolidation.mode is off"
    assert [node.node for node in plain.nodes] == ["node-0", "node-1"]
    assert (plain.per_hour, plain.currency) == (None, "")
    assert plain.hottest_after is not None
    assert plain.hottest_after.load == pytest.approx(0.3)
    assert not emptied(cluster)


async def test_a_limit_that_is_exhausted_changes_no_answer(cluster: Cluster) -> None:
    """Its cooldown delays moves, and ends."""
    async with running(cluster):
        await evaluations(cluster, 3)
        for intent in cluster.intents:
            limit = {"limit": "evictionsPerCluster", "limit_scope": "cluster"}
            await cluster.settle(intent, Outcome.REJECTED_LIMIT, retry_at=cluster.clock.now() + 3_600, **limit)
        assert cluster.intents
        await cluster.pass_time(STEP, step=STEP)
        found = await answer(cluster, ConsolidationRequest())

    assert found.emptiable > 0


async def test_errors_of_profiles_come_from_the_measurements_of_workloads(cluster: Cluster) -> None:
    """With an error of four cores each, two pods would be above the threshold."""
    async with running(cluster, Consolidation(margin=0.0)):
        for number in range(3):
            await cluster.measure_app(f"app{number}", 1.0, whole_day=True, error=4.0)
        await cluster.clock.advance(0.0)
        assert (await answer(cluster, ConsolidationRequest())).emptiable == 0
