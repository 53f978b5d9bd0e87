"""The fleet of `make_room` in memory, for machines on which the real API server cannot keep up.

The services' own evaluation, limits, ledger and cooldowns run in virtual time, and the scheduling library places the
pods. Only kubelets and the API server are simulated: a resize is enacted if the allocated requests of the node leave
room for it, tried again every 10 s, and a pod that is moved is replaced on its target at once. The grace period after a
start is over.
"""

import random
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import median
from typing import Any

import msgspec

from bench.descheduler.make_room import GROWTH, NODE_MILLI, RESIZING_PERIOD, USED, full_trace
from bench.output import report
from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.result import Finish
from equipoise.binder.state.ledger import Ledger, ReplacementStatus
from equipoise.binder.state.ledger_entry import new_entry
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import LoadSettings, Namespaces, Thresholds
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.messages import proposals
from equipoise.descheduler.decisions.evaluation.pipeline import evaluate
from equipoise.descheduler.decisions.evaluation.snapshot import Snapshot, WatchedObjects
from equipoise.descheduler.decisions.strategies.make_room import MakeRoom
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.moves.tracker import Tracker
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.model.pod_info import PodInfo

START = 1_800_000_000.0
STEP = 10.0
GIB = 2.0**30
EPOCH = LeaseEpoch(lease_uid="bench", transitions=0, holder="bench")
RESIZES, NODES, SEED, HOURS = 100, 40, 1, 3.0
REQUESTED = 0.97
"""The share of the cores that the workloads request. What fits on no node is left out."""


def _time_text(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def read(document: Any, kind: Any) -> Any:
    """The object of a manifest."""
    return msgspec.json.decode(msgspec.json.encode(document), type=kind)


LONG_AGO = _time_text(START - 7 * 86_400)
READY = {"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}


class Fleet:
    """Nodes, pods and the kubelets' accounts. Amounts are millicores."""

    def __init__(self, requested: float) -> None:
        trace = full_trace(SEED, NODES, requested)
        self.scheduler = ClusterScheduler(random.Random(SEED))
        self.nodes: dict[str, Node] = {}
        for node in trace.nodes:
            metadata = {
                "name": node.name, "uid": node.name, "creationTimestamp": LONG_AGO,
                "labels": {"kubernetes.io/hostname": node.name},
            }  # fmt: skip
            amounts = {"cpu": f"{NODE_MILLI}m", "memory": "32Gi", "pods": "110"}
            status = {"allocatable": amounts, "capacity": amounts, "conditions": [READY]}
            self.nodes[node.name] = read({"metadata": metadata, "status": status}, Node)
            self.scheduler.put(msgspec.structs.replace(self.nodes[node.name], kind="Node"))
        self.node_of: dict[str, str] = {}
        self.app_of: dict[str, str] = {}
        self.size: dict[str, int] = {}
        self.allocated: dict[str, int] = {}
        self.deferred: dict[str, str] = {}
        self.generation: dict[str, int] = defaultdict(lambda: 1)
        self.replicas: dict[str, int] = defaultdict(int)
        self.template: dict[str, int] = {}
        for pod in trace.pods:
            workload = trace.workloads[pod.workload]
            self.app_of[pod.name], self.size[pod.name] = workload.name, workload.request_cpu_milli
            self.template[workload.name] = workload.request_cpu_milli
            self.allocated[pod.name] = self.size[pod.name]
            node_name = self.scheduler.place(PodInfo(self.pod(pod.name))).node
            if node_name:
                self.node_of[pod.name] = node_name
                self.replicas[workload.name] += 1
        self.moved = 0

    @property
    def requested(self) -> float:
        return sum(self.size[name] for name in self.node_of) / NODE_MILLI / NODES

    def pod(self, name: str) -> Pod:
        """The pod as the API server has it."""
        app = self.app_of[name]
        held = {"cpu": f"{self.allocated[name]}m", "memory": "100Mi"}
        wanted = held | {"cpu": f"{self.size[name]}m"}
        conditions = [READY]
        if name in self.deferred:
            conditions = [READY, {
                "type": "PodResizePending", "status": "True", "reason": "Deferred",
                "lastTransitionTime": self.deferred[name],
            }]  # fmt: skip
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-1", "controller": True}
        document = {
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "creationTimestamp": LONG_AGO,
                "generation": self.generation[name], "labels": {"app": app, "pod-template-hash": "1"},
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeName": self.node_of.get(name, ""),
                "containers": [{"name": "main", "resources": {"requests": wanted}}],
            },
            "status": {
                "phase": "Running", "conditions": conditions, "qosClass": "Burstable", "startTime": LONG_AGO,
                "containerStatuses": [{"name": "main", "resources": {"requests": held}, "allocatedResources": held}],
            },
        }  # fmt: skip
        pod: Pod = read(document, Pod)
        return pod

    def room(self, node: str) -> int:
        """What the kubelet of a node has not allocated."""
        return NODE_MILLI - sum(self.allocated[name] for name, on in self.node_of.items() if on == node)

    def try_resize(self, name: str, now: float) -> bool:
        """What the kubelet does: enacts the resize, or defers it."""
        if self.room(self.node_of[name]) >= self.size[name] - self.allocated[name]:
            self.allocated[name] = self.size[name]
            self.deferred.pop(name, None)
            return True
        self.deferred.setdefault(name, _time_text(now))
        return False

    def move(self, name: str, target: str) -> str:
        """Replaces the pod on the target by one with the size of the template."""
        app = self.app_of[name]
        self.moved += 1
        replacement = f"{app}-moved-{self.moved}"
        self.app_of[replacement] = app
        self.size[replacement] = self.allocated[replacement] = self.template[app]
        del self.node_of[name]
        self.node_of[replacement] = target
        return replacement

    def workloads(self) -> Mapping[Workload, WorkloadObject]:
        found: dict[Workload, WorkloadObject] = {}
        for app, count in self.replicas.items():
            status = {"replicas": count, "readyReplicas": count, "availableReplicas": count, "updatedReplicas": count}
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "controller": True}
            spec = {
                "replicas": count, "selector": {"matchLabels": {"app": app, "pod-template-hash": "1"}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
            }  # fmt: skip
            for kind, name, owners in (("Deployment", app, []), ("ReplicaSet", f"{app}-1", [owner])):
                document = {
                    "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": owners},
                    "spec": spec, "status": status,
                }  # fmt: skip
                key = Workload(kind=kind, group="apps", namespace="shop", name=name)
                found[key] = read(document, WorkloadObject)
        return found

    def watched(self) -> WatchedObjects:
        return WatchedObjects(
            nodes=list(self.nodes.values()),
            pods=[self.pod(name) for name in self.node_of],
            namespaces={"shop": read({"metadata": {"name": "shop"}}, Namespace)},
            workloads=self.workloads(),
        )

    def utilizations(self, now: float) -> dict[str, NodeUtilization]:
        pods: dict[str, dict[str, Resources]] = {node: {} for node in self.nodes}
        for name, node in self.node_of.items():
            pods[node][name] = Resources(cpu=USED * self.allocated[name] / 1_000, memory=GIB / 20)
        found = {}
        for node, usages in pods.items():
            mean = Resources(
                cpu=sum(usage.cpu or 0.0 for usage in usages.values()), memory=len(usages) * GIB / 20 + GIB
            )
            value = WindowUsage(sampled_at=now - 5, mean=mean, p95=mean, max=mean, deviation=Resources())
            found[node] = NodeUtilization(
                node=node, uid=node, base=Resources(cpu=NODE_MILLI / 1_000, memory=32 * GIB), sampled_at=now - 5,
                queried_at=now, windows={window.name: value for window in LoadSettings().windows}, epoch=1, sequence=1,
                pods=usages,
            )  # fmt: skip
        return found


class Services:
    """Descheduler and binder."""

    def __init__(self, fleet: Fleet) -> None:
        settings = DeschedulerSettings(strategies=(MakeRoom(),))
        rules = Rules(
            protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system", surge="always"
        )
        self._fleet = fleet
        self._settings = settings.evaluation(LoadSettings(), Thresholds(), rules)
        self._tracker = Tracker(settings.tracker)
        self._limits = Limits()
        self._ledger = Ledger(created_at=START, started_at=START - self._limits.startup_grace_period)
        self.without_gap = 0
        self.refused: dict[str, int] = defaultdict(int)

    def evaluate(self, now: float) -> None:
        fleet, tracker = self._fleet, self._tracker
        watched = fleet.watched()
        tracker.update(watched.pods_of(tracker.awaited_workloads()), {}, fleet.nodes.keys(), now)
        placements = {
            name: NodePlacement(node=name, uid=name, ready=True, ready_since=START - 604_800, epoch=1, sequence=1)
            for name in fleet.nodes
        }
        snapshot = Snapshot(
            now=now, watched=watched, nodes=fleet.utilizations(now), workloads={},
            cycles=[UtilizationCycle(shard="0", cycle=1, expected=NODES, fresh=NODES, queried_at=now)],
            placements=placements, pending=tracker.pending, cooldowns=tracker.cooldowns,
        )  # fmt: skip
        (result,) = evaluate(snapshot, self._settings).results
        intents = proposals(result, snapshot, self._settings, EPOCH)
        for move, (intent, tracked) in zip(result.plan.moves, intents, strict=True):
            tracker.proposed(tracked)
            tracker.on_outcome(self._settle(intent, now).message(intent, now), now)
            self.without_gap += move.pod.without_gap and intent.pod not in fleet.node_of

    def _settle(self, intent: EvictionIntent, now: float) -> Finish:
        limits = self._limits
        entries = self._ledger.entries
        replaced = {
            entry.intent_id: ReplacementStatus(state="ready") for entry in entries if entry.recovered_at is None
        }
        self._ledger = self._ledger.with_replacements(replaced, now).pruned(now)
        view = self._ledger.view(
            now, dry_run=False, migration_timeout=limits.migration_timeout, grace_period=limits.startup_grace_period
        )
        assert intent.workload is not None
        eviction = ProposedEviction(
            namespace="shop", node=intent.node, workload=intent.workload,
            replicas=self._fleet.replicas[intent.workload.name], unready=0, cluster_pods=len(self._fleet.node_of),
        )  # fmt: skip
        refused = limits.refusal(eviction, view)
        if refused is not None:
            self.refused[refused.limit] += 1
            return refused
        entry = new_entry(intent, now, workload=intent.workload, expires_at=intent.expires_at, dry_run=False)
        self._ledger = self._ledger.reserve(entry, epoch=EPOCH).settle(intent.id, Outcome.EVICTED, now)
        self._fleet.move(intent.pod, intent.target)
        return Finish(outcome=Outcome.EVICTED)


def run(*, moving: bool, requested: float) -> None:
    fleet = Fleet(requested)
    services = Services(fleet)
    names = random.Random(SEED).sample(sorted(fleet.node_of), RESIZES)
    started = fleet.requested
    requested_at: dict[str, float] = {}
    enacted_at: dict[str, float] = {}
    waited: set[str] = set()
    next_evaluation = START + 120.0
    for step in range(int(HOURS * 3_600 / STEP)):
        now = START + step * STEP
        while len(requested_at) < RESIZES and now - START >= len(requested_at) * RESIZING_PERIOD / RESIZES:
            name = names[len(requested_at)]
            requested_at[name] = now
            if name in fleet.node_of:
                fleet.size[name], fleet.generation[name] = round(fleet.size[name] * GROWTH), 2
        for name in requested_at:
            if name in fleet.node_of and name not in enacted_at:
                if fleet.try_resize(name, now):
                    enacted_at[name] = now
                else:
                    waited.add(name)
        if moving and now >= next_evaluation:
            services.evaluate(now)
            next_evaluation += 120.0
    label = "make_room, in memory" if moving else "stock, in memory"
    gone = [name for name in names if name not in fleet.node_of]
    waits = [enacted_at[name] - requested_at[name] for name in waited if name in enacted_at]
    report(
        "make_room/enacted", 100 * len(enacted_at) / RESIZES, "percent", run=label, requested=round(100 * started, 1),
        deferred=len(waited), moved=fleet.moved, without_gap=services.without_gap,
        lost=sum(name not in enacted_at for name in gone), moved_after_resize=len(gone),
        refused=str(dict(services.refused)),
    )  # fmt: skip
    if waits:
        report("make_room/median_wait", median(waits), "seconds", run=label)


def main() -> None:
    for moving in (False, True):
        run(moving=moving, requested=REQUESTED)


if __name__ == "__main__":
    main()
