"""Moves without a gap on a real API server, with the controllers of Deployments, ReplicaSets, budgets and endpoints."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from binder.approvals import approve
from binder.ledgers import an_eviction
from binder.worlds import GENEROUS, LEADER
from builders import a_placement, an_intent
from cluster_fixtures import StartCluster
from deployment.base import ROOT, base_documents
from deployment.kustomize import read_kustomization
from prometheus_client import CollectorRegistry

from equipoise.binder.decisions.event import fence_probe
from equipoise.binder.decisions.result import Finish, Proceed
from equipoise.binder.decisions.surge.plan import plan_of
from equipoise.binder.service import SURGE_PROBE
from equipoise.binder.shell.ledger_store import create_ledger
from equipoise.binder.shell.ledger_writer import LedgerWriter
from equipoise.binder.shell.live_reads import read_candidate
from equipoise.binder.shell.surge_mover import SurgeMover
from equipoise.binder.shell.surge_reads import read_surge_candidate
from equipoise.binder.state.cluster_state import ClusterState
from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.surge_move import DETACHED, PLACED, READY, RESERVED
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.surge import SurgeSettings
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.opt_out import DO_NOT_DISRUPT
from equipoise.contracts.eviction.surge import TEMPLATE_HASH, surge_refusal
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.metadata import is_ready
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.configuration import Kubernetes, Shared
from equipoise.runtime.kubernetes.client import EVENTS, PODS, Kube, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.testbed import objects as manifests
from equipoise.testbed.cluster import Cluster

pytestmark = pytest.mark.timeout(300)

NODES = ("node-a", "node-b")
SHOP, OWN, ACCOUNT = "shop", "equipoise-system", "equipoise-binder"
PATIENCE = 90.0
MERGE = "application/merge-patch+json"
FULL = {"key": "example.com/full", "effect": "NoSchedule"}


class Moves:
    """The moves in one cluster. Each turn is that of a binder that has just started, as after a crash."""

    def __init__(self, cluster: Cluster, kube: Kube) -> None:
        self.cluster = cluster
        self.kube = kube
        self.outcomes: dict[str, Outcome] = {}
        self.details: dict[str, str] = {}

    async def _report(self, intent: EvictionIntent, finish: Finish) -> None:
        self.outcomes[intent.pod] = finish.outcome
        self.details[intent.pod] = finish.detail

    def binder(self, timeout: float = 300) -> tuple[LedgerWriter, SurgeMover]:
        surge = SurgeSettings(mode="always", ready_timeout=Duration(timeout))
        shared, clock = Shared(surge=surge), SystemClock()
        ledger = LedgerWriter(self.kube, clock, GENEROUS, OWN, dry_run=False, surge=surge)
        health = Health(configuration_hash="", metrics=CollectorRegistry())
        state = ClusterState(shared.load)
        for node in NODES:
            state.on_placement(a_placement(node, labels={HOSTNAME: node}), clock.now())
        return ledger, SurgeMover(self.kube, clock, health, ledger, state, shared, self._report, random=lambda: 0.0)

    async def deploy(self, app: str, replicas: int, spread: Sequence[Any] = (), **budget: int | str) -> Pod:
        """Runs a Deployment with a Service and a budget; returns one of its pods."""
        template = manifests.pod_template(app)
        template["spec"]["topologySpreadConstraints"] = [*spread]
        documents = [manifests.deployment(app, template, replicas=replicas, namespace=SHOP), a_service(app)]
        if budget:
            document = manifests.pod_disruption_budget(app, app, namespace=SHOP)
            document["spec"] = {"selector": {"matchLabels": {"app": app}}, **budget}
            documents.append(document)
        await self.cluster.apply(documents)
        await self.until_ready(app, replicas)
        return (await self.ready(app))[0]

    async def until_ready(self, app: str, count: int) -> None:
        """Waits until so many pods are ready, a detached one included, and so many endpoints."""
        async with asyncio.timeout(PATIENCE):
            while await self.endpoints(app) < count or len(await self.ready(app)) < count:  # noqa: ASYNC110  polls a real component
                await asyncio.sleep(0.05)

    async def ready(self, app: str) -> list[Pod]:
        return [pod for pod in await self.pods(app) if is_ready(pod.status.conditions)]

    async def pods(self, app: str) -> list[Pod]:
        return await self.kube.list(PODS, SHOP, f"app={app}")

    async def created_in_this_second(self, app: str) -> bool:
        """Whether the time of creation could not tell a replacement from a pod that runs already: it has whole
        seconds. No pod is moved that early: its usage is not known."""
        times = [pod.metadata.creation_timestamp for pod in await self.pods(app)]
        return any(time is None or SystemClock().now() < time.timestamp() + 1 for time in times)

    async def endpoints(self, app: str) -> int:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices"
        slices = await self.cluster.request("GET", f"{path}?labelSelector=kubernetes.io/service-name%3D{app}")
        found = [each for items in slices["items"] for each in items.get("endpoints") or ()]
        return sum(bool(each["conditions"].get("ready")) for each in found)

    async def detach(self, pod: Pod, timeout: float = 300) -> None:
        """Reserves the move and removes the label, as soon as the workload is complete for the API server."""
        ledger, mover = self.binder(timeout)
        app, now = pod.metadata.labels["app"], SystemClock().now()
        why = "unknown"
        async with asyncio.timeout(PATIENCE):
            while why or await self.created_in_this_second(app):
                pod = await self.kube.get(PODS, pod.metadata.name, SHOP)
                surge = await read_surge_candidate(self.kube, await read_candidate(self.kube, pod))
                why = surge_refusal(surge)
        intent = an_intent(
            pod.metadata.name, id=f"intent-{app}", pod_uid=pod.metadata.uid, node=pod.spec.node_name, epoch=LEADER,
            workload=surge.candidate.workload, decided_at=now, sampled_at=now, expires_at=now + 180,
        )  # fmt: skip
        plan = plan_of(surge)
        assert plan is not None
        eviction = an_eviction(namespace=SHOP, workload=plan.workload, replicas=plan.replicas, node=intent.node)
        reserved = await ledger.reserve(intent, eviction, lambda _: None, plan)
        assert isinstance(reserved, Proceed)
        await mover.detach(intent, plan, within=30.0)

    async def carry_on(self, until: str = "") -> None:
        """Ends all moves, or returns when one is in the stage `until`."""
        async with asyncio.timeout(PATIENCE):
            while True:
                ledger, mover = self.binder()
                current = await ledger.read()
                assert isinstance(current, Ledger)
                if until in [move.stage for move in current.surge_moves] or not current.surge_moves:
                    return
                for move in current.surge_moves:
                    with suppress(KubeError):  # a conflict: the next turn reads again
                        await mover.advance(move.intent.id)
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def never_fewer(self, app: str, replicas: int) -> AsyncIterator[None]:
        """Checks that the Service has its ready endpoints at all times."""
        fewest = replicas

        async def watch() -> None:
            nonlocal fewest
            while True:
                fewest = min(fewest, await self.endpoints(app))

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        assert fewest >= replicas

    @asynccontextmanager
    async def full(self, *nodes: str) -> AsyncIterator[None]:
        """No new pod is placed on these nodes, at once: kube-scheduler knows their taint."""
        try:
            for node in nodes:
                await self.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [FULL]}})
            for node in nodes:
                async with asyncio.timeout(PATIENCE):
                    while await self.takes_a_pod(node):
                        pass
            yield
        finally:
            for node in nodes:
                await self.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": None, "unschedulable": None}})

    async def takes_a_pod(self, node: str) -> bool:
        """Whether kube-scheduler places a new pod on the node. It reads nodes and pods by separate watches, so it can
        place a pod on a node whose taint is older than the pod."""
        template = manifests.pod_template("probe")
        template["spec"]["nodeSelector"] = {HOSTNAME: node}
        await self.cluster.apply([manifests.pod("probe", template, namespace=SHOP)])
        try:
            while True:
                pod = await self.kube.get(PODS, "probe", SHOP)
                if pod.spec.node_name or any(one.type == "PodScheduled" for one in pod.status.conditions):
                    return bool(pod.spec.node_name)
                await asyncio.sleep(0.02)
        finally:
            await self.cluster.request("DELETE", f"/api/v1/namespaces/{SHOP}/pods/probe?gracePeriodSeconds=0")

    async def patch(self, path: str, body: Any) -> None:
        async with self.cluster.api() as api:
            await api.request("PATCH", path, body, content_type=MERGE)


def a_service(app: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": app, "namespace": SHOP},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
    }


@pytest.fixture(scope="module")
async def moves(start_cluster: StartCluster) -> AsyncIterator[Moves]:
    cluster = start_cluster()
    await cluster.add_nodes([manifests.node(name) for name in NODES])
    await cluster.apply([manifests.namespace(SHOP), manifests.namespace(OWN)])
    async with connect_kube(Kubernetes(kubeconfig=str(cluster.kubeconfig)), "binder", SystemClock()) as kube:
        await create_ledger(kube, OWN, SystemClock())
        yield Moves(cluster, kube)


@pytest.mark.parametrize(
    ("app", "replicas", "budget"),
    [
        ("single", 1, {"maxUnavailable": 0}),
        ("kept", 1, {"minAvailable": 1}),
        ("three", 3, {"minAvailable": "100%"}),
        ("free", 1, {}),
    ],
)
async def test_a_pod_that_cannot_be_evicted_moves_without_a_gap(
    moves: Moves, app: str, replicas: int, budget: dict[str, int | str]
) -> None:
    """Each turn is that of another binder. Takes seconds: two stages are five seconds apart."""
    pod = await moves.deploy(app, replicas, **budget)
    name, uid = pod.metadata.name, pod.metadata.uid
    if budget:
        refused = await moves.kube.evict(SHOP, name, uid=uid, dry_run=True)
        assert (refused.status, refused.disruption_budget) == (429, True)
    async with moves.full(pod.spec.node_name), moves.never_fewer(app, replicas):
        await moves.detach(pod)
        await moves.carry_on()
    assert moves.outcomes[name] == Outcome.EVICTED
    assert all(pod.metadata.controller is not None for pod in await moves.ready(app))


@pytest.fixture
async def fenced(moves: Moves) -> AsyncIterator[Moves]:
    """The moves of a binder that has only what k8s/base and k8s/surge permit its account."""
    cluster = moves.cluster
    accounts = ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    policies = ("equipoise-binder-fence", "equipoise-surge-fence")
    base = [each for each in base_documents() if each["kind"] in accounts or each["metadata"]["name"] in policies]
    await cluster.apply([*base, *read_kustomization(ROOT / "k8s" / "surge")])
    clock = SystemClock()
    connection = Kubernetes(service_account=str((await cluster.service_account_token(OWN, ACCOUNT)).parent))
    async with connect_kube(connection, "binder", clock, environment=cluster.in_cluster_environment) as kube:
        health = Health(configuration_hash="", metrics=CollectorRegistry())
        for policy, name in (("equipoise-binder-fence", PROBE), ("equipoise-surge-fence", SURGE_PROBE)):
            async with asyncio.timeout(PATIENCE):
                await until_fenced(kube, policy, EVENTS, fence_probe(OWN, name, clock.now()), clock, health)
        yield Moves(cluster, kube)


async def test_the_account_of_the_binder_suffices_for_a_move_and_for_its_end(fenced: Moves) -> None:
    """A single replica moves, and one whose replacement is not ready in time is given back without an approval. Takes
    seconds, as above."""
    pod = await fenced.deploy("permitted", 1, maxUnavailable=0)
    await approve(fenced.cluster, pod.metadata.uid)
    async with fenced.full(pod.spec.node_name), fenced.never_fewer("permitted", 1):
        await fenced.detach(pod)
        await fenced.carry_on()
    assert fenced.outcomes[pod.metadata.name] == Outcome.EVICTED

    pod = await fenced.deploy("returned", 1, maxUnavailable=0)
    await approve(fenced.cluster, pod.metadata.uid)
    async with fenced.full(*NODES), fenced.never_fewer("returned", 1):
        await fenced.detach(pod, timeout=1)
        await approve(fenced.cluster, "another")
        await fenced.carry_on()
    assert fenced.outcomes[pod.metadata.name] == Outcome.FAILED
    assert "the pod was restored" in fenced.details[pod.metadata.name]


@pytest.mark.parametrize("stage", [RESERVED, DETACHED, PLACED, READY])
async def test_a_rollout_that_begins_meanwhile_replaces_the_pod(moves: Moves, stage: str) -> None:
    """In any stage; a move may already have ended in the last one. Takes seconds, as above."""
    app = f"rolled-{stage}"
    pod = await moves.deploy(app, 2, maxUnavailable=0)
    async with moves.full(pod.spec.node_name), moves.never_fewer(app, 2):
        await moves.detach(pod)
        await moves.carry_on(until=stage)
        template = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
        await moves.patch(f"/apis/apps/v1/namespaces/{SHOP}/deployments/{app}", template)
        await moves.carry_on()
    assert moves.outcomes[pod.metadata.name] == Outcome.EVICTED
    assert all(pod.metadata.controller is not None for pod in await moves.ready(app))


async def test_a_pod_whose_replacement_finds_no_node_is_given_back(moves: Moves) -> None:
    """Takes seconds, as above."""
    pod = await moves.deploy("restored", 1, maxUnavailable=0)
    async with moves.full(*NODES), moves.never_fewer("restored", 1):
        await moves.detach(pod, timeout=1)
        await moves.carry_on()
    after = await moves.kube.get(PODS, pod.metadata.name, SHOP)
    assert moves.outcomes[pod.metadata.name] == Outcome.FAILED
    assert after.metadata.uid == pod.metadata.uid
    assert after.metadata.controller is not None
    assert after.metadata.labels[TEMPLATE_HASH] == pod.metadata.labels[TEMPLATE_HASH]
    assert after.metadata.annotations.keys().isdisjoint((DETACHED_HASH, DO_NOT_DISRUPT))
    async with asyncio.timeout(PATIENCE):
        while len(await moves.pods("restored")) > 1:  # noqa: ASYNC110  polls a real component
            await asyncio.sleep(0.05)


EMPTIED = {
    "cordoned": {"unschedulable": True},
    "removed": {"taints": [FULL, {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]},
}


@pytest.mark.parametrize("how", EMPTIED)
async def test_a_pod_is_given_back_when_its_node_is_emptied(moves: Moves, how: str) -> None:
    """Minutes before the time for its replacement is over, which finds no node here. Takes seconds, as above."""
    app = f"emptied-{how}"
    pod = await moves.deploy(app, 1, maxUnavailable=0)
    node = f"/api/v1/nodes/{pod.spec.node_name}"
    async with moves.full(*NODES), moves.never_fewer(app, 1):
        await moves.detach(pod)
        await moves.patch(node, {"spec": EMPTIED[how]})
        await moves.carry_on()
    assert moves.outcomes[pod.metadata.name] == Outcome.FAILED
    assert f"the pod was restored: node {pod.spec.node_name}: node is" in moves.details[pod.metadata.name]


async def test_the_outcome_states_that_the_spread_of_the_workload_is_violated(moves: Moves) -> None:
    """Nodes with 1 and 1 pods get 0 and 2: kube-scheduler counts the detached pod. The replacement is ready before the
    binder finds it, so the move is finished. Takes seconds, as above."""
    selector = {"matchLabels": {"app": "spread"}}
    spread = {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    pod = await moves.deploy("spread", 2, [spread])
    async with moves.full(pod.spec.node_name), moves.never_fewer("spread", 2):
        await moves.detach(pod)
        await moves.until_ready("spread", 3)
        await moves.carry_on()
    assert moves.outcomes[pod.metadata.name] == Outcome.EVICTED
    assert "node(s) didn't match pod topology spread constraints" in moves.details[pod.metadata.name]


async def test_the_pod_of_a_deployment_that_is_deleted_meanwhile_goes(moves: Moves) -> None:
    """Takes seconds, as above."""
    pod = await moves.deploy("deleted", 1)
    await moves.detach(pod)
    await moves.cluster.request("DELETE", f"/apis/apps/v1/namespaces/{SHOP}/deployments/deleted")
    await moves.carry_on()
    async with asyncio.timeout(PATIENCE):
        while await moves.pods("deleted"):  # noqa: ASYNC110  polls a real component
            await asyncio.sleep(0.05)
