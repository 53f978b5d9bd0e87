"""A resize that its node has no room for: one pod is evicted for it, and everything that people read names it."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from builders import GIB, a_node_utilization
from descheduler.snapshots import a_pod, a_snapshot, evaluation_settings
from flow.loop import HOT, IDLE, INTERVAL, Loop, settled
from hypothesis import event, given
from hypothesis import strategies as st

from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.metadata import Condition, ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, ContainerStatus, Pod
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.plan import PLAN_REQUEST, PlanResponse
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.strategies.make_room import MakeRoom
from equipoise.descheduler.shell.cluster_watch import trimmed
from equipoise.runtime.kubernetes.client import PODS

RESIZED = "web-1-0"
REASON = "makes room for the resize of shop/web-1-0: 500m CPU missing"


class FullLoop(Loop):
    """Nine pods request a core each of the ten of node-hot, until one of them is resized."""

    def place(self, app: str, name: str, node: str) -> None:
        super().place(app, name, node)
        pod = next(pod for pod in self.kube.stored(PODS) if pod.metadata.name == name)
        self.kube.put(PODS, requesting(pod, "1"))

    def resize(self, cpu: str, generation: int) -> None:
        """The kubelet defers the resize of a pod that has one core."""
        pod = next(pod for pod in self.kube.stored(PODS) if pod.metadata.name == RESIZED)
        held = {"cpu": "1"}
        since = datetime.fromtimestamp(self.clock.now(), UTC)
        pending = Condition(type="PodResizePending", status="True", reason="Deferred", last_transition_time=since)
        status = msgspec.structs.replace(
            pod.status,
            conditions=[*(each for each in pod.status.conditions if each.type != pending.type), pending],
            container_statuses=(
                ContainerStatus(name="main", resources=ResourceRequirements(requests=held), allocated_resources=held),
            ),
        )
        metadata = msgspec.structs.replace(pod.metadata, generation=generation)
        self.kube.put(PODS, msgspec.structs.replace(requesting(pod, cpu), metadata=metadata, status=status))

    def replace_evicted(self) -> None:
        """The ReplicaSet controller and kube-scheduler."""
        running = {pod.metadata.name for pod in self.kube.stored(PODS)}
        for outcome in settled(self, Outcome.EVICTED):
            replacement = f"{outcome.pod}-new"
            if outcome.pod not in running and replacement not in running:
                self.place(outcome.pod.split("-")[0], replacement, outcome.target)

    def decisions(self) -> list[DescheduleDecision]:
        return self.bus.published(DescheduleDecision, "equipoise.decision.descheduler.make_room")


def requesting(pod: Pod, cpu: str) -> Pod:
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"}))
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=[container]))


async def test_one_pod_is_evicted_for_a_deferred_resize_and_no_other_for_the_same_size() -> None:
    """The plan, the intent, the decision and the outcome have the reason.

    Somebody else takes the room that was made: only another size of the pod is a reason to make room again.
    """
    loop = FullLoop()
    async with loop.running(strategies=(MakeRoom(min_wait=Duration(0)),)):
        await loop.pass_time(3 * INTERVAL)
        assert loop.intents() == []
        loop.resize("2500m", generation=2)
        await loop.bus.settled()
        plan = await loop.bus.request(PLAN_PREVIEW, PLAN_REQUEST, PlanResponse, timeout=1.0)
        await loop.until(lambda: bool(loop.evicted()), limit=3 * INTERVAL)
        (outcome,) = settled(loop, Outcome.EVICTED)
        loop.replace_evicted()
        loop.place("web", "web-1-more", HOT)
        await loop.pass_time(20 * INTERVAL)
        (proposed,) = [move for decision in loop.decisions() for move in decision.moves]
        last = loop.decisions()[-1]
        loop.resize("2600m", generation=3)
        await loop.until(lambda: len(loop.evicted()) == 2, limit=10 * INTERVAL)

    assert [move.reason for move in plan.moves] == [REASON]
    assert outcome.pod != RESIZED
    assert outcome.target in IDLE
    assert (outcome.reason, outcome.trigger) == (REASON, f"uid-{RESIZED}.2")
    assert proposed.reason == REASON
    assert {each.pod: each.why for each in last.refused} == {
        f"shop/{RESIZED}": "pods were moved for this size of it before"
    }
    assert settled(loop, Outcome.EVICTED)[1].reason == "makes room for the resize of shop/web-1-0: 600m CPU missing"


QUANTITIES = st.sampled_from(["1", "1500m", "0", "-1", "1e308", "9999999999", "", "one", "1Gi"])
MAYBE_AMOUNTS = st.none() | st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITIES)
REASONS = st.sampled_from(["Deferred"] * 5 + ["Infeasible", "Someday", "", "\x1b[31m"])
TIMES = st.sampled_from(["2026-01-01T00:00:00Z"] * 4 + [None, "2999-01-01T00:00:00Z"])


@st.composite
def statuses(draw: st.DrawFn) -> dict[str, Any]:
    """The status of a pod with a pending resize as any client with the permission may write it."""
    condition = {"type": "PodResizePending", "status": draw(st.sampled_from(["True"] * 5 + ["False", "Unknown"]))}
    if (reason := draw(REASONS)) or draw(st.booleans()):
        condition["reason"] = reason
    if (since := draw(TIMES)) is not None:
        condition["lastTransitionTime"] = since
    reported: dict[str, Any] = {"name": draw(st.sampled_from(["main", "other"]))}
    if (allocated := draw(MAYBE_AMOUNTS)) is not None:
        reported["allocatedResources"] = allocated
    if (effective := draw(MAYBE_AMOUNTS)) is not None:
        reported["resources"] = {"requests": effective}
    ready = {"type": "Ready", "status": "True"}
    return {"phase": "Running", "conditions": [ready, condition], "containerStatuses": [reported]}


@given(status=statuses(), wanted=st.just("1500m") | QUANTITIES)
def test_no_status_of_a_pod_breaks_a_plan_or_lowers_what_its_node_lacks(status: dict[str, Any], wanted: str) -> None:
    """Read as from the API server. A pod is moved for it only if its amounts are known and its reason, too."""
    document = {
        "metadata": {"name": "big", "namespace": "shop", "uid": "uid-big", "labels": {"app": "web"}},
        "spec": {"nodeName": "node-a", "containers": [{"name": "main", "resources": {"requests": {"cpu": wanted}}}]},
        "status": status,
    }
    big = trimmed(msgspec.json.decode(msgspec.json.encode(document), type=Pod))
    others = [requesting(a_pod(f"web-{number}"), "1") for number in range(9)]
    snapshot = a_snapshot(*others, big)
    usage = {pod.metadata.uid: Resources(cpu=0.5, memory=GIB) for pod in others}
    nodes = {**snapshot.nodes, "node-a": a_node_utilization("node-a", cpu=4.5, pods=usage)}
    settings = evaluation_settings(strategies=(MakeRoom(),))

    (result,) = evaluate(msgspec.structs.replace(snapshot, nodes=nodes), settings).results

    pending = status["conditions"][1]
    event(f"moves: {len(result.plan.moves)}")
    for move in result.plan.moves:
        assert pending["status"] == "True"
        assert pending["reason"] == "Deferred"
        assert pending["lastTransitionTime"] == "2026-01-01T00:00:00Z"
        assert move.pod.name != "big"
        assert move.reason == "makes room for the resize of shop/big: 500m CPU missing"
    assert all(refused.why.isprintable() for refused in result.plan.refused)
