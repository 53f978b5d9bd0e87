"""From what is measured to what is proposed, in one process."""

import asyncio
import threading
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
from descheduler.cluster import Cluster, a_node_object
from prometheus_client import CollectorRegistry

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects import (
    LabelSelector,
    ObjectMeta,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
)
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.health import DRY_RUN, REAL, Heartbeat
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.descheduler.decisions.evaluation import preview
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.shell import evaluator as leading
from equipoise.descheduler.shell import looking
from equipoise.descheduler.state.cluster import Fleet, Plan
from equipoise.descheduler.state.cool_downs import CoolDown
from equipoise.descheduler.state.latest_messages import Heard
from equipoise.runtime.bus import NoResponders
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import BUDGETS, LEASES, NODES, PODS, KubeError

FIVE_EVALUATIONS = 4 * 120.0 + 30.0
"""The first one comes at once."""


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    async with cluster.bus:
        yield cluster


@asynccontextmanager
async def running(cluster: Cluster, **settings: Any) -> AsyncIterator[None]:
    """A descheduler at work, leading."""
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


async def test_a_node_that_stays_hot_gives_pods_away(cluster: Cluster) -> None:
    """After five evaluations, and not before, intents name pod, target, relief, reason, expiry and leader."""
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
    assert intent.reason == "node is overutilized, cpu usage(80.00%)>threshold(65.00%)"
    assert intent.expires_at == now + 180
    assert now - 30 <= intent.sampled_at <= now
    assert intent.expected_reduction.cpu == 1.0
    lease = await cluster.kube.get(LEASES, "equipoise-descheduler", "equipoise-system")
    assert intent.epoch == LeaseEpoch(lease_uid=lease.metadata.uid, transitions=0, holder="descheduler-1")
    decision = cluster.last_decision
    assert decision.intents == [intent.id for intent in intents]
    assert decision.nodes[0].node == "node-a"
    assert (decision.nodes[0].state, decision.nodes[0].abnormal_evaluations) == ("hot", 5)


async def test_a_burst_proposes_nothing(cluster: Cluster) -> None:
    """A minute over the mark, sampled four times, is over before it counts twice."""
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


async def test_the_same_old_sample_proves_nothing(cluster: Cluster) -> None:
    """A collector that repeats one sample makes nothing abnormal."""
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
    """The node was hot for an hour; after an eviction it must be hot for five evaluations again."""
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


async def test_moves_under_way_are_not_proposed_again(cluster: Cluster) -> None:
    """Until their outcomes are known, two intents are two intents: no other pod takes their place."""
    cluster.hot_and_idle()
    async with running(cluster, intent_life=Duration(3_600)):
        await cluster.pass_time(2 * FIVE_EVALUATIONS)

    assert len(cluster.intents) == 2
    assert cluster.last_decision.why


async def test_a_refused_pod_rests(cluster: Cluster) -> None:
    """What a limit or a rule refused is not proposed again at the next evaluation; others are."""
    cluster.hot_and_idle()
    async with running(cluster, max_intents_per_node=1):
        await cluster.pass_time(FIVE_EVALUATIONS)
        first = cluster.intents[0]
        await cluster.settle(first, Outcome.REJECTED_LIMIT)
        await cluster.pass_time(240)

    assert len(cluster.intents) == 2
    assert cluster.intents[1].pod != first.pod


async def test_a_replacement_that_comes_back_lets_its_workload_rest(cluster: Cluster) -> None:
    """Evicted, and back on the same node: that workload is left alone much longer than after a good move."""
    for name in ("node-a", "node-b", "node-c"):
        cluster.add_node(name)
    cluster.add_app("web", {f"web-{i}": "node-a" for i in range(4)}, 2.0)
    cool_down = CoolDown(eviction=Duration(60), same_node_return=Duration(1_800))
    async with running(cluster, cool_down=cool_down):
        await cluster.pass_time(FIVE_EVALUATIONS)
        (first,) = cluster.intents
        await cluster.settle(first, Outcome.EVICTED)
        cluster.kube.remove(PODS, first.pod, "shop")
        cluster.add_pod("web-new", "node-a", 2.0)
        await cluster.pass_time(2 * FIVE_EVALUATIONS)

        assert cluster.intents == [first]
        assert any("came back to node-a" in entry.why for entry in cluster.last_decision.refused)
        await cluster.pass_time(3_600, step=60)
    assert len(cluster.intents) > 1


async def test_too_little_coverage_moves_nothing_and_says_why(cluster: Cluster) -> None:
    """Below four fifths of the expected nodes everything rests, and /readyz tells of it."""
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


async def test_a_budget_without_room_protects(cluster: Cluster) -> None:
    """A PodDisruptionBudget that allows nothing is not even asked."""
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


async def test_a_cluster_that_cannot_be_watched_is_left_alone(cluster: Cluster) -> None:
    """Without the API server's word the picture grows old: nothing is proposed from it."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(240)
        error = KubeError(0, "Away", "connection refused")
        cluster.kube.refuse("watch", status=503)
        cluster.kube.end_watches(error)
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert not cluster.intents
    assert "the API server is not followed" in cluster.last_decision.why


async def test_only_the_leader_proposes(cluster: Cluster) -> None:
    """A standby listens and keeps still; when the leader goes it takes over and counts from the beginning."""
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


async def test_who_does_not_lead_forgets_too(cluster: Cluster) -> None:
    """A standby hears every outcome for as long as it waits: what is over does not pile up in it."""
    cluster.hot_and_idle()
    async with running(cluster):
        cluster.registry = CollectorRegistry()
        standby = cluster.descheduler("descheduler-2")
        await standby.attach()
        task = asyncio.create_task(standby.run())
        await cluster.pass_time(FIVE_EVALUATIONS)
        for intent in cluster.intents:
            await cluster.settle(intent, Outcome.FAILED)
        assert standby._memory.cool_downs
        # Both share the display of one health: show what the standby's own would.
        cluster.health.leading = False
        await cluster.pass_time(900)
        task.cancel()
        await asyncio.wait([task])
    assert not standby._memory.cool_downs


async def test_a_misread_annotation_is_a_problem_to_see(cluster: Cluster) -> None:
    """Whoever wrote "true" to have a pod evicted is told that it protects."""
    cluster.hot_and_idle()
    (pod,) = [pod for pod in cluster.kube.stored(PODS) if pod.metadata.name == "app0-x"]
    metadata = msgspec.structs.replace(pod.metadata, annotations={"equipoise.dev/evict": "true"})
    cluster.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))
    async with running(cluster):
        await cluster.pass_time(30)
        assert any('pod shop/app0-x ("true")' in problem for problem in cluster.health.problems)


async def test_a_lease_that_was_lost_costs_the_counts(cluster: Cluster) -> None:
    """Who leads again begins again: it does not know what went on in between."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(400)
        cluster.kube.refuse("replace", status=500, resource="leases")
        await cluster.pass_time(30, step=5)
        assert cluster.health.leading is False
        cluster.kube.heal()
        await cluster.pass_time(FIVE_EVALUATIONS - 90)
        assert not cluster.intents
        await cluster.pass_time(120)

    assert {intent.epoch.transitions for intent in cluster.intents} == {1}


async def test_a_node_that_was_cordoned_is_no_target(cluster: Cluster) -> None:
    """What the API server says of a node counts at once."""
    cluster.hot_and_idle()
    spec = msgspec.structs.replace(a_node_object("node-b", 0).spec, unschedulable=True)
    cluster.kube.put(NODES, a_node_object("node-b", cluster.clock.now(), spec=spec))
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)

    assert {intent.target for intent in cluster.intents} == {"node-c"}


async def test_time_may_run_fast(cluster: Cluster) -> None:
    """With every length of time two hundred times shorter the same happens two hundred times sooner."""
    cluster.hot_and_idle()
    async with running(cluster, interval=Duration(0.6), intent_life=Duration(0.9)):
        await cluster.pass_time(2.2, step=0.2)
        assert not cluster.intents
        await cluster.pass_time(0.6, step=0.2)

    assert len(cluster.intents) == 2


async def test_unknown_windows_are_refused_at_once(cluster: Cluster) -> None:
    """A strategy that asks for a window nobody measures would never see anything."""
    with pytest.raises(ConfigurationError, match="asks for window '7m'"):
        cluster.descheduler(strategies=(LowNodeLoad(windows=("7m",)),))


# what becomes of moves


async def test_where_a_replacement_landed_is_told(cluster: Cluster) -> None:
    """Once, by the decision after it was seen, beside what the intent had asked for."""
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
    (landing,) = [landing for decision in cluster.decisions for landing in decision.replacements]
    assert (landing.intent_id, landing.replacement, landing.placed_on) == (intent.id, "app0-new", "node-c")


async def test_a_node_that_gets_no_better_is_left_alone(cluster: Cluster) -> None:
    """Each time the others use what was set free: after the second time it rests, and that is said everywhere."""
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
        assert "it did not get better, 2 times in a row: cpu should have fallen by" in decision.cooldowns[0].why
        assert any(entry.node == "node-a" and "did not get better" in entry.why for entry in decision.refused)
        assert any(problem.startswith("nodes are left alone: node-a for ") for problem in cluster.health.problems)
        assert cluster.registry.get_sample_value("equipoise_descheduler_resting_nodes") == 1.0
        told = [relief for each in cluster.decisions for relief in each.load_reductions]
        assert [(relief.node, relief.reduced) for relief in told] == [("node-a", False)] * 2
        await cluster.pass_time(1_800)
        assert len(cluster.intents) > 2
        assert not cluster.health.problems


async def test_who_leads_no_more_says_nothing_of_the_evaluations(cluster: Cluster) -> None:
    """A problem that only evaluations see would stay on its /readyz for ever."""
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


async def test_a_dry_run_is_assumed_until_evictions_are_real(cluster: Cluster) -> None:
    """Its pods are not proposed again; when a binder says that it really evicts, they are."""
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


async def beat(cluster: Cluster, evictions: str) -> None:
    """What a binder says of itself."""
    heartbeat = Heartbeat(
        service="binder", id="binder-1", version="1", ready=True, evictions=evictions, at=cluster.clock.now()
    )
    await cluster.bus.publish(subjects.health("binder", "binder-1"), heartbeat)
    await cluster.clock.advance(0.0)


# what would move


async def shown(cluster: Cluster) -> PlanResponse:
    return await cluster.bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=5.0)


async def test_a_plan_is_shown_before_anything_is_abnormal(cluster: Cluster) -> None:
    """Which pods, from where to where and why, what loads become, and how many evaluations are missing."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.pass_time(150)
        await beat(cluster, DRY_RUN)
        plan = await shown(cluster)

    assert [(move.pod, move.node, move.target) for move in plan.moves] == [
        ("app0-x", "node-a", "node-b"),
        ("app1-x", "node-a", "node-c"),
    ]
    assert plan.moves[0].reason == "node is overutilized, cpu usage(80.00%)>threshold(65.00%)"
    nodes = {node.node: node for node in plan.nodes}
    assert (nodes["node-a"].before.cpu, nodes["node-a"].after.cpu) == pytest.approx((0.8, 0.6))
    assert (nodes["node-b"].before.cpu, nodes["node-b"].after.cpu) == pytest.approx((0.0, 0.1))
    assert (nodes["node-a"].abnormal_evaluations, nodes["node-a"].missing_evaluations) == (2, 3)
    assert (plan.evictions, plan.interval, plan.considered) == ("dry run", 120.0, 3)
    assert plan.leader.holder == "descheduler-1"
    assert not cluster.intents


def test_what_binders_do_is_known_while_they_are_heard() -> None:
    """By our own clock, for 30 s; where they differ, one that really evicts decides."""
    heard = Heard()

    def says(binder: str, evictions: str, at: float) -> None:
        heard.heartbeat(
            Heartbeat(service="binder", id=binder, version="1", ready=True, evictions=evictions, at=0.0), at
        )

    assert heard.evictions(100.0) == ""
    says("one", DRY_RUN, 100.0)
    says("two", "paused: upgrade", 105.0)
    assert heard.evictions(106.0) == DRY_RUN
    says("three", REAL, 110.0)
    assert heard.evictions(111.0) == REAL
    says("three", "", 112.0)
    assert heard.evictions(131.0) == REAL
    assert heard.evictions(141.0) == ""


async def test_showing_plans_changes_nothing(cluster: Cluster) -> None:
    """However often one is asked for, the evaluations say and do the same."""
    cluster.hot_and_idle()
    async with running(cluster):
        for _ in range(round(FIVE_EVALUATIONS / 30)):
            await cluster.pass_time(30)
            before = vars(cluster.last_descheduler._memory).copy()
            for _ in range(3):
                await shown(cluster)
            assert vars(cluster.last_descheduler._memory) == before

    assert [decision.nodes[0].abnormal_evaluations for decision in cluster.decisions] == [1, 2, 3, 4, 5]
    assert len(cluster.intents) == 2


async def test_only_the_leader_shows_plans(cluster: Cluster) -> None:
    """A standby leaves the answer to it; when the leader goes, nobody answers until there is one again."""
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


async def test_moves_under_way_are_in_the_plan(cluster: Cluster) -> None:
    """They are named, and what they bring is in the loads that follow."""
    cluster.hot_and_idle()
    async with running(cluster, intent_life=Duration(3_600)):
        await cluster.pass_time(FIVE_EVALUATIONS)
        plan = await shown(cluster)

    assert [(move.pod, move.node) for move in plan.pending] == [("app0-x", "node-a"), ("app1-x", "node-a")]
    assert plan.moves == []
    (node,) = plan.nodes
    assert (node.before.cpu, node.after.cpu) == pytest.approx((0.8, 0.6))
    assert plan.evictions == ""
    assert plan.why["low_node_load"]


class LooksOn(BinPack, frozen=True, kw_only=True, tag_field="name", tag="looks_on"):
    """Plans nothing, and remembers what it was shown."""

    def plan(self, fleet: Fleet, abnormal: Collection[str]) -> Plan:
        SEEN.append(fleet)
        return Plan(why="it only looks on")


SEEN: list[Fleet] = []


async def test_many_questions_need_few_plans(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks while a plan is made waits for the next one, which is for all who asked before it was begun."""
    cluster.hot_and_idle()
    monkeypatch.setattr(looking, "AT_ONCE", 0)
    made = []
    decide = preview.preview

    def counted(*given: Any, **named: Any) -> PlanResponse:
        made.append(1)
        return decide(*given, **named)

    monkeypatch.setattr(leading, "preview", counted)
    async with running(cluster):
        plans = await asyncio.gather(*(shown(cluster) for _ in range(20)))
        assert len(made) <= 2
        await shown(cluster)

    assert {len(plan.moves) for plan in plans} == {2}
    assert 2 <= len(made) <= 3


async def test_strategies_go_on_from_one_another(cluster: Cluster) -> None:
    """What the first one proposes is under way for the next, at evaluations as in plans."""
    cluster.hot_and_idle()
    SEEN.clear()
    both = (LowNodeLoad(), LooksOn())
    async with running(cluster, strategies=both, consecutive_abnormalities=5):
        await shown(cluster)
        planned = SEEN[-1]
        await cluster.pass_time(FIVE_EVALUATIONS)
        proposed = SEEN[-1]

    assert len(cluster.intents) == 2
    for fleet in (planned, proposed):
        assert fleet.in_flight == 2
        assert [node.projected("5m").cpu for node in fleet.nodes] == pytest.approx([6.0, 1.0, 1.0])


async def test_a_blind_descheduler_shows_why(cluster: Cluster) -> None:
    """No plan is made of too little, and the answer says so."""
    cluster.hot_and_idle()
    async with running(cluster):
        await cluster.measure(expected=4)
        plan = await shown(cluster)

    assert plan.moves == []
    assert plan.why == {"low_node_load": "the load of 3 of 4 nodes is known, 80% needed"}


async def test_a_big_cluster_is_judged_beside_the_loop(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a thread, and with the same result."""
    cluster.hot_and_idle()
    monkeypatch.setattr(looking, "AT_ONCE", 0)
    threads: set[int] = set()
    decide = preview.preview

    def watched(*given: Any, **named: Any) -> PlanResponse:
        threads.add(threading.get_ident())
        return decide(*given, **named)

    monkeypatch.setattr(leading, "preview", watched)
    async with running(cluster):
        asking = asyncio.create_task(shown(cluster))
        plan = await asking

    assert [move.pod for move in plan.moves] == ["app0-x", "app1-x"]
    assert threads
    assert threading.get_ident() not in threads


async def test_both_default_strategies_are_asked(cluster: Cluster) -> None:
    """What is hot now, and the coming day; each tells its own decision."""
    cluster.hot_and_idle()
    async with running(cluster, strategies=DeschedulerSettings().strategies):
        await cluster.pass_time(60)

    assert {decision.strategy for decision in cluster.decisions} == {"low_node_load", "level_day"}


async def test_a_day_above_the_fleets_is_levelled(cluster: Cluster) -> None:
    """Pods without a profile go on as they are: so does their node, and after five evaluations it gives some away."""
    cluster.hot_and_idle()
    async with running(cluster, strategies=(LevelDay(),)):
        await cluster.pass_time(FIVE_EVALUATIONS - 60)
        assert not cluster.intents
        await cluster.pass_time(60)

    assert {intent.node for intent in cluster.intents} == {"node-a"}
    assert {intent.strategy for intent in cluster.intents} == {"level_day"}
    assert all(intent.reason.startswith("its day is ") for intent in cluster.intents)
