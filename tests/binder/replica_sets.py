"""The controllers of Deployments and ReplicaSets in memory, as far as moves without a gap depend on them."""

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from builders import NOW, a_workload, an_intent
from kube_objects import a_deployment, a_pod, a_replica_set, owned_by

from equipoise.binder.decisions.surge.observation import ObservedMove
from equipoise.binder.state.surge_move import RESERVED, SurgeMove
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.metadata import Condition, LabelSelector, is_ready
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, PODS, REPLICA_SETS
from equipoise.runtime.process.clock import Clock
from equipoise.testbed.memory.kube import MemoryKube

REVISION = "deployment.kubernetes.io/revision"
_PHASES = ("Pending", "Unknown", "Running")


class Controllers:
    """One Deployment `web` in namespace shop. The test decides when its controllers, its scheduler and its kubelets
    act."""

    def __init__(
        self,
        kube: MemoryKube,
        clock: Clock,
        replicas: int,
        chance: random.Random,
        nodes: Sequence[str] = ("node-a",),
        **spec: Any,
    ) -> None:
        """`nodes`: those on which the pods run, in turn. `spec`: fields of all pods."""
        self.kube = kube
        self._spec = spec
        self._clock = clock
        self._chance = chance
        self._created = 0
        self.revision = 1
        self.put_deployment(a_deployment("web", replicas))
        self.put_replica_set(1, replicas)
        for number in range(1, replicas + 1):
            node = nodes[(number - 1) % len(nodes)]
            self.kube.put(PODS, a_pod(f"web-{number}", node=node, metadata={"labels": labels(1)}, spec=spec))
            self._own(f"web-{number}", "web-rs")

    # Objects

    @property
    def deployment(self) -> WorkloadObject | None:
        return next((each for each in self.kube.stored(DEPLOYMENTS) if each.metadata.name == "web"), None)

    @property
    def replica_sets(self) -> list[WorkloadObject]:
        return [each for each in self.kube.stored(REPLICA_SETS) if each.metadata.name.startswith("web-")]

    @property
    def pods(self) -> list[Pod]:
        return [pod for pod in self.kube.stored(PODS) if pod.metadata.labels.get("app") == "web"]

    @property
    def desired(self) -> int:
        deployment = self.deployment
        return 0 if deployment is None else deployment.spec.replicas or 0

    @property
    def serving(self) -> int:
        """The number of ready endpoints: a Service does not select by the template."""
        return sum(is_ready(pod.status.conditions) and pod.metadata.deletion_timestamp is None for pod in self.pods)

    def pod(self, name: str) -> Pod | None:
        return next((pod for pod in self.pods if pod.metadata.name == name), None)

    def put_deployment(self, deployment: WorkloadObject) -> None:
        metadata = msgspec.structs.replace(deployment.metadata, annotations={REVISION: str(self.revision)})
        self.kube.put(DEPLOYMENTS, msgspec.structs.replace(deployment, metadata=metadata))

    def put_replica_set(self, revision: int, replicas: int) -> None:
        replica_set = a_replica_set("web", replicas)
        name = "web-rs" if revision == 1 else f"web-rs-{revision}"
        metadata = msgspec.structs.replace(replica_set.metadata, name=name, uid=f"uid-{name}")
        metadata = msgspec.structs.replace(metadata, annotations={REVISION: str(revision)})
        selector = LabelSelector(match_labels=labels(revision))
        spec = msgspec.structs.replace(replica_set.spec, replicas=replicas, selector=selector)
        self.kube.put(REPLICA_SETS, msgspec.structs.replace(replica_set, metadata=metadata, spec=spec))

    # What controllers, scheduler and kubelets do

    def synchronize(self) -> None:
        """One turn of the controller of ReplicaSets: it releases, adopts, creates and deletes pods."""
        for replica_set in self.replica_sets:
            owned = self._claimed(replica_set)
            wanted = replica_set.spec.replicas or 0
            for _ in range(wanted - len(owned)):
                self._create(replica_set)
            self._chance.shuffle(owned)
            for pod in sorted(owned, key=_survives)[: max(0, len(owned) - wanted)]:
                self.kube.remove(PODS, pod.metadata.name, pod.metadata.namespace)

    def _claimed(self, replica_set: WorkloadObject) -> list[Pod]:
        owned = []
        for pod in self.pods:
            controller, name = pod.metadata.controller, replica_set.metadata.name
            selected = selects(replica_set.spec.selector, pod.metadata.labels)
            if pod.metadata.deletion_timestamp is not None:
                continue
            if controller is not None and controller.name == name and not selected:
                self.release(pod.metadata.name)
            elif selected and (controller is None or controller.name == name):
                self._own(pod.metadata.name, name)
                owned.append(pod)
        return owned

    def _create(self, replica_set: WorkloadObject) -> None:
        self._created += 1
        name = f"{replica_set.metadata.name}-new-{self._created}"
        assert replica_set.spec.selector is not None
        pod = a_pod(name, node="", metadata={"labels": replica_set.spec.selector.match_labels}, spec=self._spec)
        created = datetime.fromtimestamp(self._clock.now(), UTC)
        metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=created)
        status = msgspec.structs.replace(pod.status, phase="Pending", conditions=[])
        self.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata, status=status))
        self._own(name, replica_set.metadata.name)

    def release(self, name: str) -> None:
        """What the controller of ReplicaSets does before it creates another pod."""
        self._own(name, "")

    def _own(self, name: str, replica_set: str) -> None:
        pod = self.pod(name)
        assert pod is not None
        owners = owned_by("ReplicaSet", replica_set) if replica_set else []
        if pod.metadata.owner_references != owners:
            metadata = msgspec.structs.replace(pod.metadata, owner_references=owners)
            self.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))

    def bind(self, name: str, node: str = "node-b") -> None:
        pod = self.pod(name)
        if pod is not None and not pod.spec.node_name:
            spec = msgspec.structs.replace(pod.spec, node_name=node)
            self.kube.put(PODS, msgspec.structs.replace(pod, spec=spec))

    def set_ready(self, name: str, ready: bool = True) -> None:
        pod = self.pod(name)
        if pod is not None and pod.spec.node_name:
            since = datetime.fromtimestamp(self._clock.now(), UTC)
            condition = Condition(type="Ready", status=str(ready), last_transition_time=since)
            status = msgspec.structs.replace(pod.status, phase="Running", conditions=[condition])
            self.kube.put(PODS, msgspec.structs.replace(pod, status=status))

    def set_hash(self, name: str, value: str) -> None:
        """Writes the label of the pod; removes it if the value is empty."""
        self.edit(name, labels={TEMPLATE_HASH: value})

    def detach(self, name: str, value: str = "h1") -> None:
        """Removes the label, and records its value."""
        self.edit(name, labels={TEMPLATE_HASH: ""}, annotations={DETACHED_HASH: value})

    def edit(self, name: str, **changes: Mapping[str, str]) -> None:
        """Writes these labels and annotations of a pod. An empty value removes one."""
        pod = self.pod(name)
        if pod is not None:
            metadata = pod.metadata
            for field, values in changes.items():
                texts = getattr(metadata, field) | values
                kept = {key: text for key, text in texts.items() if text}
                metadata = msgspec.structs.replace(metadata, **{field: kept})
            self.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))

    def scale(self, replicas: int) -> None:
        deployment = self.deployment
        if deployment is not None:
            spec = msgspec.structs.replace(deployment.spec, replicas=replicas)
            self.put_deployment(msgspec.structs.replace(deployment, spec=spec))
            self.put_replica_set(self.revision, replicas)

    def roll_out(self) -> None:
        """Begins a rollout. The earlier pods remain until `finish_rollout` finds the new ones ready."""
        deployment = self.deployment
        if deployment is not None:
            self.revision += 1
            self.put_deployment(deployment)
            self.put_replica_set(self.revision, self.desired)

    def finish_rollout(self) -> None:
        """Scales down the earlier ReplicaSets if the newest one is ready."""
        newest = str(self.revision)
        ready = sum(
            is_ready(pod.status.conditions) and pod.metadata.labels.get(TEMPLATE_HASH) == f"h{newest}"
            for pod in self.pods
        )
        if ready >= self.desired:
            for revision in range(1, self.revision):
                self.put_replica_set(revision, 0)

    def delete_deployment(self) -> None:
        if self.deployment is not None:
            self.kube.remove(DEPLOYMENTS, "web", "shop")
            for replica_set in self.replica_sets:
                self.kube.remove(REPLICA_SETS, replica_set.metadata.name, "shop")
            for pod in self.pods:
                if pod.metadata.controller is not None:
                    self.kube.remove(PODS, pod.metadata.name, "shop")


def observed(controllers: Controllers, move: SurgeMove, **fields: str) -> ObservedMove:
    """What a binder reads now."""
    name = move.intent.pod
    return ObservedMove(
        pod=controllers.pod(name),
        deployment=controllers.deployment,
        replica_set=next((each for each in controllers.replica_sets if each.metadata.name == move.replica_set), None),
        siblings=tuple(
            pod for pod in controllers.pods if pod.metadata.name != name and pod.metadata.controller is not None
        ),
        **fields,
    )


def a_move(replicas: int = 1, stage: str = RESERVED, pod: str = "web-1", **fields: object) -> SurgeMove:
    """A move of a pod of `Controllers`."""
    defaults: dict[str, object] = {
        "intent": an_intent(pod),
        "workload": a_workload(),
        "replica_set": "web-rs",
        "template_hash": "h1",
        "replicas": replicas,
        "stage": stage,
        "stage_at": NOW,
        "ready_by": NOW + 300,
    }
    return SurgeMove(**(defaults | fields))  # type: ignore[arg-type]  # each test gives fields of the right types


def labels(revision: int) -> dict[str, str]:
    return {"app": "web", TEMPLATE_HASH: f"h{revision}"}


def _survives(pod: Pod) -> tuple[bool, int, bool]:
    """The order in which a ReplicaSet deletes pods, lowest first. Source: kubernetes v1.36, ActivePodsWithRanks."""
    return bool(pod.spec.node_name), _PHASES.index(pod.status.phase), is_ready(pod.status.conditions)
