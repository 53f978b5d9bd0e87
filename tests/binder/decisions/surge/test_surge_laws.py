"""Laws of moves without a gap, whatever happens in the cluster and whichever binders crash or are slow.

Two binders share a ledger. Each reads it and the cluster, decides, and sends its request at once, late, or never.
"""

import math
import random
from collections.abc import Callable, Sequence

from binder.replica_sets import Controllers, a_move, observed
from builders import NOW
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.binder.decisions.surge.next_step import next_step
from equipoise.binder.decisions.surge.step import End, Evict, Place, Record, Restore
from equipoise.binder.state.surge_move import READY, RESTORING, SurgeMove
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.contracts.kubernetes.objects.metadata import is_ready
from equipoise.runtime.kubernetes.client import PODS
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

LATEST_REQUEST = 3.0
"""Seconds after its reads at which a request arrives at the latest: `MAX_READ_AGE`, and a second on the way."""

EVENTS = (
    *["seconds pass"] * 5, *["both binders act"] * 3, *["the replacement becomes ready"] * 2, *["a pod fails"] * 2,
    *["a late binder acts"] * 3, *["a late request arrives"] * 2, "binders crash", "controllers act", "pods are bound",
    "a rollout begins", "the rollout ends", "scaled up", "scaled down", "the deployment is deleted", "cordoned",
    "uncordoned", "nodes get too hot", "nodes cool down", "the label is edited", "the label is restored",
    "the annotation is edited",
)  # fmt: skip


class Course:
    """A cluster with one move, from the removal of the label on."""

    def __init__(self, replicas: int, seed: int) -> None:
        self.now = NOW
        self.chance = random.Random(seed)
        clock = ManualClock(now=NOW)
        self.cluster = Controllers(MemoryKube(clock), clock, replicas, self.chance)
        self.move: SurgeMove | None = a_move(replicas)
        self.replicas = replicas
        self.leaving = self.misplaced = ""
        self.late: list[tuple[float, Evict | Restore]] = []
        self.disturbed_at = -1_000.0
        """The last time at which something else than the move took a ready pod away."""

        self.cluster.detach("web-1")

    @property
    def edited(self) -> bool:
        """Whether only a person can give the pod back. Its move ends when the replacement is ready. Its ReplicaSet may
        not have released it yet."""
        pod = self.cluster.pod("web-1")
        if pod is None:
            return False
        return pod.metadata.labels.get(TEMPLATE_HASH) != "h1" and pod.metadata.annotations.get(DETACHED_HASH) != "h1"

    @property
    def needed(self) -> int:
        return min(self.cluster.desired, self.replicas)

    def changes_serving(self, change: Callable[[], object]) -> None:
        """Makes a change that the move has caused: the workload has its ready pods afterwards, or lost none."""
        before = self.cluster.serving
        change()
        after = self.cluster.serving
        disturbed = self.now - self.disturbed_at <= LATEST_REQUEST
        assert after >= min(before, self.needed) or disturbed

    def act(self, *, late: bool = False) -> None:
        """One turn of a binder: a stage is written at once, or a request is sent."""
        if self.move is None:
            return
        found = observed(self.cluster, self.move, leaving=self.leaving, misplaced=self.misplaced)
        step = next_step(self.move, found, self.now)
        if isinstance(step, Record | Place):
            changed = step.applied(self.move, self.now)
            assert changed.stage != self.move.stage or isinstance(step, Place)
            self.move = changed
        elif isinstance(step, End):
            self.move = None
        elif isinstance(step, Evict | Restore):
            assert self.move.stage == (READY if isinstance(step, Evict) else RESTORING)
            if late:
                self.late.append((self.now + LATEST_REQUEST, step))
            else:
                self.arrive(step)

    def arrive(self, request: Evict | Restore) -> None:
        pod = self.cluster.pod("web-1")
        if pod is None:
            return
        if isinstance(request, Restore):
            if pod.metadata.annotations.get(DETACHED_HASH) == "h1":  # else the policy refuses it
                self.cluster.edit("web-1", labels={TEMPLATE_HASH: "h1"}, annotations={DETACHED_HASH: ""})
        else:
            self.changes_serving(lambda: self.cluster.kube.remove(PODS, "web-1", "shop"))

    def happen(self, event: str) -> None:
        cluster = self.cluster
        new = [pod.metadata.name for pod in cluster.pods if "new" in pod.metadata.name]
        match event:
            case "seconds pass":
                until = self.now + self.chance.choice((1.0, 3.0, 5.0, 150.0))
                for due, request in [late for late in self.late if late[0] <= until]:
                    self.late.remove((due, request))
                    self.now = due
                    self.arrive(request)
                self.now = until
            case "both binders act":
                self.act()
                self.act()
            case "a late binder acts":
                self.act(late=True)
            case "a late request arrives" if self.late:
                self.arrive(self.late.pop(0)[1])
            case "binders crash":
                self.late.clear()
            case "controllers act":
                self.changes_serving(cluster.synchronize)
            case "pods are bound":
                for name in new:
                    cluster.bind(name)
            case "the replacement becomes ready":
                self.changes_serving(cluster.synchronize)
                for pod in cluster.pods:
                    cluster.bind(pod.metadata.name)
                    cluster.set_ready(pod.metadata.name)
            case "a pod fails" if new:
                pod = cluster.pod(self.chance.choice(new))
                if pod is not None and is_ready(pod.status.conditions):
                    self.disturbed_at = self.now
                    cluster.set_ready(pod.metadata.name, ready=False)
            case "a rollout begins":
                cluster.roll_out()
            case "the rollout ends":
                cluster.finish_rollout()
                cluster.synchronize()  # its own removals are not those of the move
            case "scaled up" if cluster.revision == 1:
                cluster.scale(cluster.desired + 1)
            case "scaled down" if cluster.revision == 1:
                self.disturbed_at = self.now
                cluster.scale(max(0, cluster.desired - 1))
            case "the deployment is deleted" if self.chance.random() < 0.2:
                self.disturbed_at = self.now
                cluster.delete_deployment()
            case "cordoned" | "uncordoned":
                self.leaving = "node is cordoned" if event == "cordoned" else ""
            case "nodes get too hot" | "nodes cool down":
                self.misplaced = "too hot" if event == "nodes get too hot" else ""
            case "the label is edited" if self.move is not None:
                cluster.set_hash("web-1", "edited")
            case "the annotation is edited" if self.move is not None:
                cluster.edit("web-1", annotations={DETACHED_HASH: self.chance.choice(("", "edited"))})
            case "the label is restored" if self.move is not None:
                self.disturbed_at = math.inf  # the ReplicaSet may delete any ready pod then
                cluster.set_hash("web-1", "h1")

    def settle(self, *, ready: bool) -> None:
        """No further events: pods are bound, and become ready unless `ready` is false."""
        self.late.clear()
        for _ in range(40):
            self.now += 10.0
            self.cluster.synchronize()
            self.happen("pods are bound")
            if ready:
                for pod in self.cluster.pods:
                    self.cluster.set_ready(pod.metadata.name)
            self.cluster.finish_rollout()
            self.act()
            self.act()


def check_laws(replicas: int, seed: int, events: Sequence[str], *, ready: bool) -> None:
    """Checks the laws. `ready`: whether the pods of the end become ready."""
    course = Course(replicas, seed)
    for event in events:
        course.happen(event)
    rolling_out = course.cluster.revision > 1  # a rollout that never ends is waited for
    course.settle(ready=ready or rolling_out or course.edited)
    assert course.move is None
    pod = course.cluster.pod("web-1")
    assert pod is None or pod.metadata.controller is not None


@settings(max_examples=100)
@given(
    replicas=st.integers(1, 3),
    seed=st.integers(0, 2**31),
    events=st.lists(st.sampled_from(EVENTS), min_size=10, max_size=60),
    ready=st.booleans(),
)
def test_no_endpoint_is_missing_because_of_a_move_and_every_move_ends(
    replicas: int, seed: int, events: list[str], ready: bool
) -> None:
    """Takes seconds: a hundred stories of up to a hundred events."""
    check_laws(replicas, seed, events, ready=ready)
