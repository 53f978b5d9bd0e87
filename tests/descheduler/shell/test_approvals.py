"""The approved evictions: which pods they name, when they are written, and that nothing is proposed without them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from descheduler.cluster import Cluster

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.eviction.approval import APPROVAL_ROLE, approval_rules
from equipoise.contracts.kubernetes.objects.access import PolicyRule, Role
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.health import DRY_RUN, HEARTBEAT_LIFETIME, REAL, Heartbeat
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.state.moves.pending_moves import TrackedMove, approved_pods
from equipoise.runtime.kubernetes.client import ROLES
from equipoise.testbed.memory.faults import Call

NAMESPACE = "equipoise-system"
FIVE_EVALUATIONS = 4 * 120.0 + 30.0
"""Until the first intents."""


def a_move(pod_uid: str, **fields: Any) -> TrackedMove:
    defaults = {"expires_at": 180.0, "until": 360.0, "node": "node-a", "target": "node-b", "workload": None}
    pod = {"namespace": "shop", "pod": "web-1", "pod_uid": pod_uid, "expected_reduction": Resources()}
    move = {**defaults, "id": f"id-{pod_uid}", **pod, **fields}
    return TrackedMove(**move)


# Which pods


@pytest.mark.parametrize(
    "move",
    [
        a_move("expired", expires_at=100.0 - HEARTBEAT_LIFETIME),
        a_move("evicted", evicted_at=90.0),
        a_move("dry run", dry_run_at=90.0),
        a_move("proposed by another leader", expires_at=0.0),
    ],
    ids=lambda move: move.pod_uid,
)
def test_an_approval_ends_with_its_intent(move: TrackedMove) -> None:
    """When it expires, or has an outcome. An intent of another leader is refused, so it needs none."""
    assert approved_pods([a_move("waiting"), move], now=100.0) == ["waiting"]


# The Role


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """One with a hot node, the Role, and ServiceAccounts."""
    cluster = Cluster()
    cluster.hot_and_idle()
    cluster.kube.as_service_account = True
    cluster.kube.put(ROLES, Role(metadata=ObjectMeta(name=APPROVAL_ROLE, namespace=NAMESPACE)))
    async with cluster.bus:
        yield cluster


@asynccontextmanager
async def running(cluster: Cluster, **settings: Any) -> AsyncIterator[None]:
    descheduler = cluster.descheduler(**settings)
    await descheduler.attach()
    await cluster.measure()
    task = asyncio.create_task(descheduler.run())
    try:
        await cluster.clock.advance(0.0)
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def pass_time(cluster: Cluster, seconds: float, evictions: str = REAL, *, surge_pods: Sequence[str] = ()) -> None:
    """Time passes, and a binder publishes heartbeats."""
    for _ in range(round(seconds / 15)):
        heartbeat = Heartbeat(
            service="binder",
            id="binder-1",
            version="1",
            ready=True,
            evictions=evictions,
            surge_pods=list(surge_pods),
            at=cluster.clock.now(),
        )
        await cluster.bus.publish(subjects.health("binder", "binder-1"), heartbeat)
        await cluster.pass_time(15.0, step=15.0)


def rules(cluster: Cluster) -> list[PolicyRule]:
    (role,) = cluster.kube.stored(ROLES)
    return role.rules or []


async def test_pods_are_approved_before_they_are_proposed(cluster: Cluster) -> None:
    """By UID. A binder may receive the intent before `publish` returns."""
    published = []

    async def on_call(call: Call) -> None:
        if (call.verb, call.resource) == ("replace", "roles"):
            published.append(len(cluster.intents))

    cluster.kube.on_call = on_call
    async with running(cluster):
        await pass_time(cluster, FIVE_EVALUATIONS)

    assert published == [0]
    names = sorted(intent.pod_uid for intent in cluster.intents)
    assert len(names) == 2
    expected = PolicyRule(
        api_groups=["equipoise.dev"], resources=["evictions"], resource_names=names, verbs=["approve"]
    )
    assert rules(cluster) == [expected]


async def test_approvals_are_removed_when_their_intents_have_expired(cluster: Cluster) -> None:
    """At the next evaluation, which proposes nothing."""
    async with running(cluster, intent_lifetime=Duration(200)):
        await pass_time(cluster, FIVE_EVALUATIONS)
        assert rules(cluster)
        cluster.usage = dict.fromkeys(cluster.usage, 0.1)
        await pass_time(cluster, 120)
        assert rules(cluster)
        await pass_time(cluster, 120)

    assert rules(cluster) == []


@pytest.mark.parametrize("evictions", [REAL, DRY_RUN, "paused: maintenance"])
async def test_the_approval_of_a_pod_remains_until_its_move_without_a_gap_ends(
    cluster: Cluster, evictions: str
) -> None:
    """Longer than its intent, and in a pause. No binder adds an approval by naming a pod."""
    async with running(cluster, intent_lifetime=Duration(200)):
        await pass_time(cluster, FIVE_EVALUATIONS)
        slow, _ = cluster.intents
        cluster.usage = dict.fromkeys(cluster.usage, 0.1)
        await pass_time(cluster, 480, evictions, surge_pods=[slow.pod_uid, "another"])
        (rule,) = rules(cluster)
        assert rule.resource_names == [slow.pod_uid]
        await cluster.pass_time(240.0)
        assert rules(cluster) == [rule]
        await pass_time(cluster, 240)

    assert rules(cluster) == []


async def test_a_short_intent_is_approved_until_a_binder_must_have_reported_its_move(cluster: Cluster) -> None:
    """The move may begin when the intent expires, and the next heartbeat that arrives names it 30 s later. Its
    approval could not be given again, and the pod would remain detached."""
    surge = SurgeSettings(mode="always")
    async with running(cluster, intent_lifetime=Duration(10), interval=Duration(15), surge=surge):
        while not cluster.intents:
            await pass_time(cluster, 15)
        begun, _ = cluster.intents[:2]
        cluster.usage = dict.fromkeys(cluster.usage, 0.1)
        await pass_time(cluster, 30)
        await pass_time(cluster, 240, surge_pods=[begun.pod_uid])

    assert begun.pod_uid in (name for rule in rules(cluster) for name in rule.resource_names or ())


async def test_a_pod_is_not_proposed_again_while_it_is_moved_without_a_gap(cluster: Cluster) -> None:
    """Its node stays hot until the replacement is ready, which may take longer than an intent lives."""
    async with running(cluster, intent_lifetime=Duration(200)):
        await pass_time(cluster, FIVE_EVALUATIONS)
        slow, other = cluster.intents
        await pass_time(cluster, 900, surge_pods=[slow.pod_uid])

    proposed = [intent.pod_uid for intent in cluster.intents]
    assert proposed.count(slow.pod_uid) == 1
    assert proposed.count(other.pod_uid) > 1


async def test_a_new_leader_ends_no_approval_before_a_binder_has_reported(cluster: Cluster) -> None:
    (rule,) = approval_rules(["moved", "other"])
    metadata = ObjectMeta(name=APPROVAL_ROLE, namespace=NAMESPACE)
    cluster.kube.put(ROLES, Role(metadata=metadata, rules=[rule]))
    async with running(cluster):
        await cluster.pass_time(240.0)
        assert rules(cluster) == [rule]
        await pass_time(cluster, 120, surge_pods=["moved"])

    assert rules(cluster) == approval_rules(["moved"])


async def test_an_earlier_approval_remains_while_its_intent_lives(cluster: Cluster) -> None:
    """Of two pods one is refused: the other, and the pod that is proposed next, are approved."""
    async with running(cluster, intent_lifetime=Duration(400)):
        await pass_time(cluster, FIVE_EVALUATIONS)
        refused, waiting = cluster.intents
        await cluster.settle(refused, Outcome.REJECTED_LIMIT)
        await pass_time(cluster, 120)

    _, _, new = cluster.intents
    (rule,) = rules(cluster)
    assert rule.resource_names == sorted([waiting.pod_uid, new.pod_uid])


@pytest.mark.parametrize("evictions", [DRY_RUN, "paused: maintenance"])
async def test_nothing_is_approved_while_nothing_is_evicted(cluster: Cluster, evictions: str) -> None:
    """Intents are published as before; earlier approvals end."""
    async with running(cluster, intent_lifetime=Duration(3_600), max_intents_per_workload=4):
        await pass_time(cluster, FIVE_EVALUATIONS)
        assert rules(cluster)
        await pass_time(cluster, 120, evictions)
        assert rules(cluster) == []

        await cluster.settle(cluster.intents[0], Outcome.FAILED)
        await pass_time(cluster, FIVE_EVALUATIONS, evictions)

    assert len(cluster.intents) > 2
    assert rules(cluster) == []


@pytest.mark.parametrize(("status", "why"), [(403, "apply k8s/base/descheduler.yaml"), (409, "409"), (500, "500")])
async def test_nothing_is_proposed_that_cannot_be_approved(cluster: Cluster, status: int, why: str) -> None:
    """/readyz and the decision have the reason. The next evaluation tries again."""
    cluster.kube.refuse("replace", status=status, resource="roles")
    async with running(cluster):
        await pass_time(cluster, FIVE_EVALUATIONS)
        assert cluster.intents == []
        (problem,) = cluster.health.problems
        assert problem == cluster.last_decision.why
        assert "evictions cannot be approved" in problem
        assert why in problem
        cluster.kube.clear_faults()
        await pass_time(cluster, 120)

        assert cluster.health.problems == []
    assert len(cluster.intents) == 2
    assert rules(cluster)


async def test_nothing_is_proposed_while_it_is_unknown_whether_evictions_are_real(cluster: Cluster) -> None:
    """It could not be approved: the evictions may be dry runs."""
    async with running(cluster):
        await cluster.pass_time(FIVE_EVALUATIONS)
        assert cluster.intents == []
        assert rules(cluster) == []
        assert cluster.health.problems == [cluster.last_decision.why]
        assert "no binder has reported" in cluster.last_decision.why
        await pass_time(cluster, 120)

        assert cluster.health.problems == []
    assert len(cluster.intents) == 2


async def test_without_the_role_nothing_is_proposed(cluster: Cluster) -> None:
    """The descheduler does not create it: k8s/base does."""
    cluster.kube.remove(ROLES, APPROVAL_ROLE, NAMESPACE)
    async with running(cluster):
        await pass_time(cluster, FIVE_EVALUATIONS)
        assert any("k8s/base/descheduler.yaml" in problem for problem in cluster.health.problems)

    assert cluster.intents == []
    assert cluster.kube.stored(ROLES) == []


async def test_a_removed_approval_is_written_again(cluster: Cluster) -> None:
    """A tool that applies manifests again may have removed it."""
    async with running(cluster, intent_lifetime=Duration(3_600)):
        await pass_time(cluster, FIVE_EVALUATIONS)
        before = rules(cluster)
        cluster.kube.put(ROLES, Role(metadata=ObjectMeta(name=APPROVAL_ROLE, namespace=NAMESPACE)))
        await pass_time(cluster, 120)

    assert rules(cluster) == before != []


async def test_with_a_kubeconfig_nothing_has_to_be_approved(cluster: Cluster) -> None:
    """No policy restricts its user, and it may have no permission for Roles."""
    cluster.kube.as_service_account = False
    async with running(cluster):
        await pass_time(cluster, FIVE_EVALUATIONS)

    assert len(cluster.intents) == 2
    assert not [call for call in cluster.kube.calls if call.resource == "roles"]
