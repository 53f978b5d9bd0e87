"""Whether the services agree with the API server, by their messages and responses."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.requests import pod_requests
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.plan import PlanRequest, PlanResponse
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.runtime.bus import BusError
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from faults import cluster_setup

if TYPE_CHECKING:
    from faults.rig import Rig

TIMEOUT = 2.0


async def differences(rig: "Rig") -> list[str]:
    """Of the services that run; empty when they agree with a LIST."""
    running = {name.partition("-")[0] for name, program in rig.programs.items() if program.runs}
    found = []
    if "binder" in running:
        found += await _queue(rig)
    before = await rig.kube.list(PODS)
    nodes = [node.metadata.name for node in await rig.kube.list(NODES)]
    if "collector" in running and not rig.collector.publishing:
        found += placement_differences(rig.recorder.placements, nodes, before)
    if "scorer" in running:
        found += await _scorer(rig, nodes, before)
    if "descheduler" in running:
        found += await _descheduler(rig, nodes, before)
    return found


async def _queue(rig: "Rig") -> list[str]:
    waiting = await rig.waiting_intents()
    return [f"{waiting} intents wait in the queue"] if waiting else []


def _by_node(pods: Iterable[Pod]) -> Mapping[str, list[Pod]]:
    of_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
            of_node[pod.spec.node_name].append(pod)
    return of_node


def placement_differences(
    placements: Mapping[str, NodePlacement], nodes: Iterable[str], pods: Iterable[Pod]
) -> list[str]:
    """Of the latest messages of the collector and a LIST."""
    of_node = _by_node(pods)
    published = {name: placement for name, placement in placements.items() if not placement.removed}
    found = [f"{name} is published and does not exist" for name in published.keys() - set(nodes)]
    for node in nodes:
        exist = {pod.metadata.uid for pod in of_node[node]}
        placed = {pod.uid for pod in published[node].pods} if node in published else set()
        if exist != placed:
            found.append(f"{node}: {len(exist - placed)} pods are not published, {len(placed - exist)} do not exist")
    return found


async def _scorer(rig: "Rig", nodes: list[str], pods: Iterable[Pod]) -> list[str]:
    try:
        request = ExplainRequest(pod=PodDemand(namespace=cluster_setup.NAMESPACE, name="new", uid="new"), nodes=nodes)
        explanation = await rig.bus.request(subjects.SCORE_EXPLAIN, request, Explanation, timeout=TIMEOUT)
    except BusError as error:
        return [f"the scorer does not respond: {error}"]
    of_node = _by_node(pods)
    requests = {name: sum(pod_requests(pod).get("cpu", 0.0) for pod in of_node[name]) for name in nodes}
    known = {node.node: node.requests.cpu or 0.0 for node in explanation.nodes}
    return [
        f"{name}: the scorer adds up requests of {known.get(name, 0.0):g} cores of {cores:g}"
        for name, cores in requests.items()
        if abs(known.get(name, 0.0) - cores) > 0.01
    ]


async def _descheduler(rig: "Rig", nodes: list[str], before: Iterable[Pod]) -> list[str]:
    """One leads and renews its Lease; its plan has all nodes, and no pod that does not exist."""
    programs = [program for name, program in rig.programs.items() if name.startswith("descheduler") and program.runs]
    reports: list[dict[str, Any]] = [report for program in programs if (report := await program.readiness())]
    leading = sum(bool(report["leading"]) for report in reports)
    if leading != 1:
        return [f"{leading} deschedulers lead"]
    lease = (await rig.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN)).spec
    age = datetime.fromtimestamp(rig.clock.now(), UTC) - (lease.renew_time or datetime.fromtimestamp(0, UTC))
    if not lease.holder_identity or age.total_seconds() > lease.lease_duration_seconds:
        return [f"the Lease of the deschedulers was renewed {age.total_seconds():.1f} s ago"]
    try:
        plan = await rig.bus.request(subjects.PLAN_PREVIEW, PlanRequest(), PlanResponse, timeout=TIMEOUT)
    except BusError as error:
        return [f"the descheduler does not respond: {error}"]
    found = [] if plan.considered == len(nodes) else [f"a plan of {plan.considered} nodes of {len(nodes)}"]
    exist = {
        (pod.metadata.namespace, pod.metadata.name, pod.spec.node_name) for pod in (*before, *await rig.kube.list(PODS))
    }
    return found + [
        f"the plan moves {move.pod} from {move.node}, where it is not"
        for move in plan.moves
        if (move.namespace, move.pod, move.node) not in exist
    ]
