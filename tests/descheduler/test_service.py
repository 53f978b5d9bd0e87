"""The service in one process: from measurements to intents, decisions and plans."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
from descheduler.cluster import Cluster, a_node_object
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.settings import PressureThresholds, Thresholds
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget, PodDisruptionBudgetSpec
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.health import DRY_RUN, REAL, Heartbeat
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.pressure import Pressure
from equipoise.descheduler.decisions.strategies import AnyStrategy
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.cooldowns import CooldownSettings
from equipoise.runtime.bus import NoResponders
from equipoise.runtime.kubernetes.client import BUDGETS, LEASES, NODES, PODS, KubeError

PRESSURE = Thresholds(pressure=PressureThresholds(cpu=40))
FIVE_EVALUATIONS = 4 * 120.0 + 30.0
"""The first one is at once."""


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with cluster.bus:
        yield cluster


@asynccontextmanager
async def running(cluster: Cluster, **settings: Any) -> AsyncIterator[None]:
    """A descheduler that leads."""
    descheduler = cluster.last_descheduler = cluster.descheduler(**settings)
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


async def test_a_lasting_hot_node_leads_to_intents(cluster: Cluster) -> None:
    """After five evaluations, with pod, target, expected reduction, reason, expiry and leader."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS - 60)
        assert not cluster.intents
        await cluster.pass_time(60)

    intents = cluster.intents
    assert len(intents) == 2
    assert {intent.node for intent in intents} == {"node-a"}
    assert {intent.target for intent in intents} == {"node-b", "node-c"}
    intent, now = intents[0], intents[0].decided_at
    assert intent.reason == "node is hot: cpu 80.0% is above 65%"
    assert intent.expires_at == now + 180
    assert now - 30 <= intent.sampled_at <= now
    assert intent.expected_reduction.cpu == 1.0
    lease = await cluster.kube.get(LEASES, "equipoise-descheduler", "equipoise-system")
    assert intent.epoch == LeaseEpoch(lease_uid=lease.metadata.uid, transitions=0, holder="descheduler-1")
    decision = cluster.last_decision
    assert decision.intents == [intent.id for intent in intents]
    assert decision.nodes[0].node == "node-a"
    assert (decision.nodes[0].state, decision.nodes[0].abnormal_evaluations) == ("hot", 5)


@pytest.mark.parametrize("subject", [subjects.node_utilization("node-a"), subjects.utilization_cycle("all")])
async def test_a_measurement_of_the_far_future_is_dropped(cluster: Cluster, subject: str) -> None:
    """A single one could stop all proposals until then: the collectors publish lower epochs."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.measure()
        kind = UtilizationCycle if "cycle" in subject else NodeUtilization
        measured = cluster.bus.published(kind, subject)[-1]
        await cluster.bus.publish(subject, msgspec.structs.replace(measured, queried_at=1e11, epoch=1_900_000_000_000))
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert len(cluster.intents) == 2


async def test_lasting_pressure_leads_to_an_intent_below_the_load_threshold(cluster: Cluster) -> None:
    """One pod of a node at 40 %. The decision has the pressure and its reason."""
    cluster.hot_and_idle(apps=4)
    cluster.usage = dict.fromkeys(cluster.usage, 1.0)
    cluster.waiting = {"node-a": 0.5, "node-b": 0.3, "node-c": 0.0}
    async with running(cluster, thresholds=PRESSURE):
        await cluster.pass_time(FIVE_EVALUATIONS - 60)
        assert not cluster.intents
        await cluster.pass_time(60)

    (intent,) = cluster.intents
    assert ("node-a", "node-c") == (intent.node, intent.target)
    assert "node is hot: pods wait for CPU 50% of the time (above 40%)" == intent.reason
    node = next(node for node in cluster.last_decision.nodes if node.node == "node-a")
    assert ("hot", ["cpu"], Pressure(cpu=0.5)) == (node.state, node.waits_for, node.pressure)


async def test_no_intent_for_a_busy_node_without_pressure_if_pressure_is_required(cluster: Cluster) -> None:
    cluster.hot_and_idle()
    cluster.waiting = {"node-a": 0.1}
    async with running(cluster, thresholds=PRESSURE, require_pressure=True):
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert not cluster.intents
    assert "but its pods do not wait for others (10% of the time)" in cluster.last_decision.why
    assert ["node-a"] == [refused.node for refused in cluster.last_decision.refused]


async def test_a_burst_proposes_nothing(cluster: Cluster) -> None:
    """A minute above the threshold counts once, with four samples."""
    cluster.hot_and_idle()
    hot, cool = dict(cluster.usage), dict.fromkeys(cluster.usage, 0.1)
    cluster.usage = cool
    async with running(cluster):
        await cluster.pass_time(105, step=15)
        cluster.usage = hot
        await cluster.pass_time(60, step=15)
        cluster.usage = cool
        await cluster.pass_time(FIVE_EVALUATIONS)

    seen = [node for decision in cluster.decisions for node in decision.nodes]
    assert max(node.abnormal_evaluations for node in seen) == 1
    assert not cluster.intents


async def test_a_repeated_sample_counts_once(cluster: Cluster) -> None:
    """A collector that republishes one sample makes no node abnormal."""
    cluster.hot_and_idle()
    begun = cluster.clock.now()
    async with running(cluster):
        for _ in range(18):
            await cluster.measure(sampled_at=begun)
            cluster.kube.bookmark()
            await cluster.clock.advance(30)

    assert not cluster.intents
    assert cluster.last_decision.nodes[0].state == "unknown"


async def test_the_count_restarts_after_an_eviction(cluster: Cluster) -> None:
    """The node must be hot at five evaluations again."""
    cluster.hot_and_idle()
    async with running(cluster, max_intents_per_node=1):
        await cluster.pass_time(FIVE_EVALUATIONS)
        (first,) = cluster.intents
        cluster.usage = dict.fromkeys(cluster.usage, 1.3)
        await cluster.settle(first, Outcome.EVICTED)
        cluster.kube.remove(PODS, first.pod, "shop")
        cluster.add_pod(f"{first.pod}-new", "node-b", 0.1, app=first.pod.removesuffix("-x"))
        await cluster.pass_time(FIVE_EVALUATIONS - 240)
        assert len(cluster.intents) == 1
        await cluster.pass_time(360)

    assert len(cluster.intents) == 2


async def test_pending_moves_are_not_proposed_again(cluster: Cluster) -> None:
    """Until their outcomes are known, no other pod is proposed either."""
    cluster.hot_and_idle()
    async with running(cluster, intent_lifetime=Duration(3_600)):
        await cluster.pass_time(2 * FIVE_EVALUATIONS)

    assert len(cluster.intents) == 2
    assert cluster.last_decision.why


async def test_a_refused_pod_is_in_cooldown(cluster: Cluster) -> None:
    """It is not proposed at the next evaluation. Others are."""
    cluster.hot_and_idle()
    async with running(cluster, max_intents_per_node=1):
        await cluster.pass_time(FIVE_EVALUATIONS)
        first = cluster.intents[0]
        await cluster.settle(first, Outcome.REJECTED_LIMIT)
        await cluster.pass_time(240)

    assert len(cluster.intents) == 2
    assert cluster.intents[1].pod != first.pod


async def test_a_replacement_that_returns_starts_a_cooldown_of_its_workload(cluster: Cluster) -> None:
    """Much longer than the cooldown after a successful move."""
    for name in ("node-a", "node-b", "node-c"):
        cluster.add_node(name)
    cluster.add_app("web", {f"web-{i}": "node-a" for i in range(4)}, 2.0)
    cooldown = CooldownSettings(eviction=Duration(60), same_node_return=Duration(1_800))
    async with running(cluster, cooldown=cooldown):
        await cluster.pass_time(FIVE_EVALUATIONS)
        (first,) = cluster.intents
        await cluster.settle(first, Outcome.EVICTED)
        cluster.kube.remove(PODS, first.pod, "shop")
        cluster.add_pod("web-new", "node-a", 2.0)
        await cluster.pass_time(2 * FIVE_EVALUATIONS)

        assert cluster.intents == [first]
        assert any("returned to node-a" in entry.why for entry in cluster.last_decision.refused)
        await cluster.pass_time(3_600, step=60)
    assert len(cluster.intents) > 1


async def test_nothing_moves_without_coverage(cluster: Cluster) -> None:
    """Below four fifths of the expected nodes. /readyz and the decisions have the reason."""
    cluster.hot_and_idle()
    async with running(cluster):
        for _ in range(18):
            await cluster.measure(expected=4)
            cluster.kube.bookmark()
            await cluster.clock.advance(30)

        assert not cluster.intents
        assert cluster.last_decision.why == "the load of 3 of 4 nodes is known, 80% needed"
        assert cluster.health.problems == [cluster.last_decision.why]
        await cluster.pass_time(120)
    assert cluster.intents
    assert not cluster.health.problems


async def test_an_exhausted_budget_protects(cluster: Cluster) -> None:
    """No eviction is proposed that the PodDisruptionBudget would refuse."""
    cluster.hot_and_idle()
    selector = LabelSelector(match_labels={"app": "app0"})
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="budget", namespace="shop"), spec=PodDisruptionBudgetSpec(selector=selector)
    )
    cluster.kube.put(BUDGETS, budget)
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert [intent.pod for intent in cluster.intents] == ["app1-x", "app2-x"]
    assert "PodDisruptionBudget budget allows no disruption" in [entry.why for entry in cluster.last_decision.refused]


async def test_nothing_moves_while_the_watch_is_interrupted(cluster: Cluster) -> None:
    """The objects may be outdated."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(240)
        error = KubeError(0, "Away", "connection refused")
        cluster.kube.refuse("watch", status=503)
        cluster.kube.end_watches(error)
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert not cluster.intents
    assert "the watch of the API server is interrupted" in cluster.last_decision.why


async def test_only_the_leader_proposes(cluster: Cluster) -> None:
    """When the leader ends, the standby takes over and counts from zero."""
    cluster.hot_and_idle()
    async with AsyncExitStack() as first:
        await first.enter_async_context(running(cluster))
        cluster.registry = CollectorRegistry()
        async with running(cluster, identity="descheduler-2"):
            await cluster.pass_time(240)
            await first.aclose()
            await cluster.pass_time(FIVE_EVALUATIONS - 60)
            assert not cluster.intents
            await cluster.pass_time(90)

    assert {intent.epoch.holder for intent in cluster.intents} == {"descheduler-2"}


async def test_a_standby_prunes_too(cluster: Cluster) -> None:
    """It receives every outcome, and what expired must not pile up."""
    cluster.hot_and_idle()
    async with running(cluster):
        cluster.registry = CollectorRegistry()
        standby = cluster.descheduler("descheduler-2")
        await standby.attach()
        task = asyncio.create_task(standby.run())
        await cluster.pass_time(FIVE_EVALUATIONS)
        for intent in cluster.intents:
            await cluster.settle(intent, Outcome.FAILED)
        assert standby._tracker.cooldowns
        # Both share one Health: set it to what the standby's own would be.
        cluster.health.leading = False
        await cluster.pass_time(900)
        task.cancel()
        await asyncio.wait([task])
    assert not standby._tracker.cooldowns


async def test_an_unexpected_annotation_is_a_problem(cluster: Cluster) -> None:
    """/readyz reports that "true" protects the pod."""
    cluster.hot_and_idle()
    (pod,) = [pod for pod in cluster.kube.stored(PODS) if pod.metadata.name == "app0-x"]
    metadata = msgspec.structs.replace(pod.metadata, annotations={"equipoise.dev/evict": "true"})
    cluster.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))
    async with running(cluster):
        await cluster.pass_time(30)
        assert any('pod shop/app0-x ("true")' in problem for problem in cluster.health.problems)


async def test_the_counts_are_lost_with_the_lease(cluster: Cluster) -> None:
    """The next leadership counts from zero."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(400)
        cluster.kube.refuse("replace", status=500, resource="leases")
        await cluster.pass_time(30, step=5)
        assert cluster.health.leading is False
        cluster.kube.clear_faults()
        await cluster.pass_time(FIVE_EVALUATIONS - 90)
        assert not cluster.intents
        await cluster.pass_time(120)

    assert {intent.epoch.transitions for intent in cluster.intents} == {1}


async def test_a_cordoned_node_is_no_target(cluster: Cluster) -> None:
    """From the next evaluation on."""
    cluster.hot_and_idle()
    spec = msgspec.structs.replace(a_node_object("node-b", 0).spec, unschedulable=True)
    cluster.kube.put(NODES, a_node_object("node-b", cluster.clock.now(), spec=spec))
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert {intent.target for intent in cluster.intents} == {"node-c"}


async def test_durations_may_be_compressed(cluster: Cluster) -> None:
    """With every duration two hundred times shorter the same happens two hundred times sooner."""
    cluster.hot_and_idle()
    async with running(cluster, interval=Duration(0.6), intent_lifetime=Duration(0.9)):
        await cluster.pass_time(2.2, step=0.2)
        assert not cluster.intents
        await cluster.pass_time(0.6, step=0.2)

    assert len(cluster.intents) == 2


# results of moves


async def test_the_node_of_a_replacement_is_reported(cluster: Cluster) -> None:
    """Once, in the next decision, with the target of the intent and the hint of the replacement."""
    hint = cluster.hints["app0-new"] = PlacedHint(preferred=2, avoided=1, weight=100)
    cluster.hot_and_idle()
    async with running(cluster, max_intents_per_node=1):
        await cluster.pass_time(FIVE_EVALUATIONS)
        (intent,) = cluster.intents
        (move,) = cluster.last_decision.moves
        await cluster.settle(intent, Outcome.EVICTED)
        cluster.kube.remove(PODS, intent.pod, "shop")
        cluster.add_pod("app0-new", "node-c", 1.0, app="app0")
        await cluster.pass_time(360)

    assert (move.intent_id, move.pod, move.target) == (intent.id, intent.pod, intent.target)
    assert (move.expected_reduction, move.expires_at, move.sampled_at) == (
        intent.expected_reduction,
        intent.expires_at,
        intent.sampled_at,
    )
    (replacement,) = [replacement for decision in cluster.decisions for replacement in decision.replacements]
    assert (replacement.intent_id, replacement.replacement, replacement.placed_on) == (intent.id, "app0-new", "node-c")
    assert replacement.hint == hint
    assert (replacement.target, replacement.result) == ("node-b", "elsewhere")
    counts = {
        result: cluster.registry.get_sample_value("equipoise_descheduler_replacements_total", {"result": result})
        for result in ("as_planned", "elsewhere", "returned")
    }
    assert counts == {"as_planned": 0.0, "elsewhere": 1.0, "returned": 0.0}


async def test_a_node_without_load_reduction_is_in_cooldown(cluster: Cluster) -> None:
    """The other pods use what an eviction freed. After the second time decisions, /readyz and metrics report it."""
    cluster.hot_and_idle()
    async with running(cluster, max_intents_per_node=1):
        for number in range(2):
            await cluster.pass_time(FIVE_EVALUATIONS + 120)
            intent = cluster.intents[number]
            await cluster.settle(intent, Outcome.EVICTED)
            cluster.kube.remove(PODS, intent.pod, "shop")
            cluster.add_pod(f"{intent.pod}-new", "node-b", 0.1, app=intent.pod.removesuffix("-x"))
            left = [pod.metadata.uid for pod in cluster.kube.stored(PODS) if pod.spec.node_name == "node-a"]
            cluster.usage |= dict.fromkeys(left, 8.0 / len(left))
        await cluster.pass_time(1_200)

        assert len(cluster.intents) == 2
        decision = cluster.last_decision
        assert [each.node for each in decision.cooldowns] == ["node-a"]
        assert "no load reduction after evictions, 2 times in a row: cpu " in decision.cooldowns[0].why
        assert any(entry.node == "node-a" and "no load reduction" in entry.why for entry in decision.refused)
        assert any(problem.startswith("nodes in cooldown: node-a for ") for problem in cluster.health.problems)
        assert cluster.registry.get_sample_value("equipoise_descheduler_nodes_in_cooldown") == 1.0
        reductions = [reduction for each in cluster.decisions for reduction in each.load_reductions]
        assert [(reduction.node, reduction.reduced) for reduction in reductions] == [("node-a", False)] * 2
        await cluster.pass_time(1_800)
        assert len(cluster.intents) > 2
        assert not cluster.health.problems


async def test_problems_of_evaluations_end_with_the_leadership(cluster: Cluster) -> None:
    """Otherwise they would remain in /readyz for ever."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.measure(expected=4)
        cluster.kube.bookmark()
        await cluster.clock.advance(120)
        assert cluster.health.problems
        cluster.kube.refuse("replace", status=500, resource="leases")
        await cluster.pass_time(30, step=5)
        assert cluster.health.leading is False
        assert not cluster.health.problems


async def test_a_dry_run_counts_as_done_until_evictions_are_real(cluster: Cluster) -> None:
    """Its pods are proposed again once a binder reports that it really evicts."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)
        first = cluster.intents
        for intent in first:
            await cluster.settle(intent, Outcome.DRY_RUN)
        await beat(cluster, DRY_RUN)
        await cluster.pass_time(2 * FIVE_EVALUATIONS)

        assert cluster.intents == first
        decision = cluster.last_decision
        assert {each.pod for each in decision.dry_run_moves} == {intent.pod for intent in first}
        assert [(each.node, each.load.cpu) for each in decision.nodes if each.node == "node-a"] == [("node-a", 0.6)]
        await beat(cluster, REAL)
        await cluster.pass_time(FIVE_EVALUATIONS + 120)
    assert {intent.pod for intent in cluster.intents[2:]} == {intent.pod for intent in first}
    assert cluster.last_decision.dry_run_moves == []


async def test_limits_that_dry_runs_exhausted_delay_no_eviction(cluster: Cluster) -> None:
    """The first evaluation after a binder reports that it evicts proposes the pods again."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)
        await beat(cluster, DRY_RUN)
        first = cluster.intents
        exhausted = {"limit": "evictionsPerCluster", "limit_scope": "cluster", "dry_run": True}
        for intent in first:
            now = cluster.clock.now()
            await cluster.settle(intent, Outcome.REJECTED_LIMIT, retry_at=now + 3_600, **exhausted)
        await cluster.pass_time(600)
        assert cluster.intents == first
        assert "limits.evictionsPerCluster is exhausted" in {each.why for each in cluster.last_decision.refused}
        await beat(cluster, REAL)
        await cluster.pass_time(120)

    assert {intent.pod for intent in cluster.intents[2:]} == {intent.pod for intent in first}


@pytest.mark.parametrize("permits", [True, False])
async def test_a_campaign_goes_on_after_a_limit_that_its_budget_replaces(cluster: Cluster, permits: bool) -> None:
    """Refusals before its start delay it no longer than until the next evaluation. One that is paused or held changes
    nothing."""
    cluster.hot_and_idle()
    async with running(cluster):
        await beat(cluster, REAL)
        await cluster.pass_time(FIVE_EVALUATIONS)
        first = cluster.intents
        for intent in first:
            scope = {"limit": "evictionsPerCluster", "limit_scope": "cluster"}
            await cluster.settle(intent, Outcome.REJECTED_LIMIT, retry_at=cluster.clock.now() + 3_600, **scope)
        await cluster.pass_time(120)
        assert first
        assert cluster.intents == first
        for _ in range(6):  # a heartbeat counts for less time than between two evaluations
            await cluster.pass_time(20)
            await beat(cluster, REAL, campaign="campaign chg-1", campaign_permits=permits)
        await cluster.pass_time(20)

    assert {intent.pod for intent in cluster.intents[len(first) :]} == (
        {each.pod for each in first} if permits else set()
    )


async def beat(cluster: Cluster, evictions: str, **fields: Any) -> None:
    """A heartbeat of a binder."""
    heartbeat = Heartbeat(
        service="binder", id="binder-1", version="1", ready=True, evictions=evictions, at=cluster.clock.now(), **fields
    )
    await cluster.bus.publish(subjects.health("binder", "binder-1"), heartbeat)
    await cluster.clock.advance(0.0)


# plans


async def shown(cluster: Cluster) -> PlanResponse:
    return await cluster.bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=5.0)


async def test_a_plan_is_available_before_a_node_is_abnormal(cluster: Cluster) -> None:
    """Pods, sources, targets and reasons, the loads before and after, and the missing evaluations."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(150)
        await beat(cluster, DRY_RUN)
        plan = await shown(cluster)

    assert [(move.pod, move.node, move.target) for move in plan.moves] == [
        ("app0-x", "node-a", "node-b"),
        ("app1-x", "node-a", "node-c"),
    ]
    assert plan.moves[0].reason == "node is hot: cpu 80.0% is above 65%"
    nodes = {node.node: node for node in plan.nodes}
    assert (nodes["node-a"].before.cpu, nodes["node-a"].after.cpu) == pytest.approx((0.8, 0.6))
    assert (nodes["node-b"].before.cpu, nodes["node-b"].after.cpu) == pytest.approx((0.0, 0.1))
    assert (nodes["node-a"].abnormal_evaluations, nodes["node-a"].missing_evaluations) == (2, 3)
    assert (plan.evictions, plan.interval, plan.considered, plan.unknown) == ("dry run", 120.0, 3, 0)
    assert plan.leader.holder == "descheduler-1"
    assert not cluster.intents


async def test_plan_requests_change_nothing(cluster: Cluster) -> None:
    """The evaluations between them have the same results."""
    cluster.hot_and_idle()
    async with running(cluster):
        for _ in range(round(FIVE_EVALUATIONS / 30)):
            await cluster.pass_time(30)
            before = vars(cluster.last_descheduler._tracker).copy()
            for _ in range(3):
                await shown(cluster)
            assert vars(cluster.last_descheduler._tracker) == before

    assert [decision.nodes[0].abnormal_evaluations for decision in cluster.decisions] == [1, 2, 3, 4, 5]
    assert len(cluster.intents) == 2


async def test_only_the_leader_responds_to_plan_requests(cluster: Cluster) -> None:
    """Without a leader nobody responds."""
    cluster.hot_and_idle()
    async with AsyncExitStack() as first:
        await first.enter_async_context(running(cluster))
        cluster.registry = CollectorRegistry()
        async with running(cluster, identity="descheduler-2"):
            await cluster.pass_time(60)
            assert (await shown(cluster)).leader.holder == "descheduler-1"
            await first.aclose()
            with pytest.raises(NoResponders):
                await shown(cluster)
            await cluster.pass_time(60)
            assert (await shown(cluster)).leader.holder == "descheduler-2"


async def test_a_move_whose_replacement_is_placed_is_not_pending_in_the_plan(cluster: Cluster) -> None:
    """Although the next evaluation, which reports where it was placed, has not taken place yet."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)
        for intent in cluster.intents:
            await cluster.settle(intent, Outcome.EVICTED)
        assert len((await shown(cluster)).pending) == 2
        cluster.kube.remove(PODS, "app0-x", "shop")
        cluster.add_pod("app0-y", "node-b", 1.0, app="app0")
        await cluster.clock.advance(0.0)
        plan = await shown(cluster)

    assert [move.pod for move in plan.pending] == ["app1-x"]


async def test_pending_moves_are_in_the_plan(cluster: Cluster) -> None:
    """By name, and in the loads afterwards."""
    cluster.hot_and_idle()
    async with running(cluster, intent_lifetime=Duration(3_600)):
        await cluster.pass_time(FIVE_EVALUATIONS)
        plan = await shown(cluster)

    assert [(move.pod, move.node) for move in plan.pending] == [("app0-x", "node-a"), ("app1-x", "node-a")]
    assert plan.moves == []
    (node,) = plan.nodes
    assert (node.before.cpu, node.after.cpu) == pytest.approx((0.8, 0.6))
    assert plan.evictions == ""
    assert plan.why["low_node_load"]


async def test_a_plan_without_coverage_has_the_reason(cluster: Cluster) -> None:
    """And no moves."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.measure(expected=4)
        plan = await shown(cluster)

    assert plan.moves == []
    assert plan.why == {"low_node_load": "the load of 3 of 4 nodes is known, 80% needed"}


async def test_texts_of_tenants_neither_hide_a_decision_nor_a_plan(cluster: Cluster) -> None:
    """Each annotation may have a quarter of a megabyte, and the bus takes one per message."""
    cluster.hot_and_idle()
    for pod in cluster.kube.stored(PODS):
        annotations = {"equipoise.dev/evict": "\x1b]0;x\x07" + "x" * 250_000}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        cluster.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)
        plan = await shown(cluster)

    for refused in (cluster.last_decision.refused, plan.refused):
        assert {each.why[:40] for each in refused} == {'annotation equipoise.dev/evict=" ]0;x xx'}
        assert len(refused) == 8
    assert len(msgspec.json.encode(plan)) < 20_000


async def test_every_strategy_publishes_decisions(cluster: Cluster) -> None:
    """Of the current load and of the forecast day."""
    cluster.hot_and_idle()
    async with running(cluster, strategies=(LowNodeLoad(), LevelDay())):
        await cluster.pass_time(60)

    assert {decision.strategy for decision in cluster.decisions} == {"low_node_load", "level_day"}


@pytest.mark.parametrize(
    ("level", "strategies", "proposed"),
    [
        ("off", None, set()),
        ("scaleDowns", None, set()),
        ("withoutGap", None, set()),  # no pod of this cluster can be moved without a gap
        ("hotNodes", None, {"low_node_load"}),
        ("hotNodes", (LevelDay(), LowNodeLoad()), {"low_node_load"}),
        ("hotNodes", (LevelDay(),), set()),
        ("levelDay", (LevelDay(),), {"level_day"}),
        (None, (LevelDay(),), {"level_day"}),
        (None, None, {"low_node_load"}),
    ],
)
async def test_a_level_is_a_ceiling_of_what_strategies_propose(
    cluster: Cluster, level: MovesLevel | None, strategies: tuple[AnyStrategy, ...] | None, proposed: set[str]
) -> None:
    cluster.hot_and_idle()
    for number in range(8):
        await cluster.measure_app(f"app{number}", 1.0, whole_day=True)
    async with running(cluster, level=level, strategies=strategies):
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert {intent.strategy for intent in cluster.intents} == proposed
    assert proposed or f"moves.level {level}" in str([*cluster.decisions])


async def test_a_node_whose_day_is_above_the_clusters_is_relieved(cluster: Cluster) -> None:
    """Intents are published after five evaluations."""
    cluster.hot_and_idle()
    for number in range(8):
        await cluster.measure_app(f"app{number}", 1.0, whole_day=True)
    async with running(cluster, strategies=(LevelDay(),)):
        await cluster.pass_time(FIVE_EVALUATIONS - 60)
        assert not cluster.intents
        await cluster.pass_time(60)

    assert {intent.node for intent in cluster.intents} == {"node-a"}
    assert {intent.strategy for intent in cluster.intents} == {"level_day"}
    assert all(intent.reason.startswith("its day is ") for intent in cluster.intents)
