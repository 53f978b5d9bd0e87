"""The fields that all stages of a move have in common, from the plan to the eviction and the replacement."""

from equipoise.contracts.bounds import Bytes, Points, Seconds
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.message import Value
from equipoise.contracts.messages.values.resources import Resources


class Move(Value, frozen=True, kw_only=True):
    """A pod that is evicted so that its replacement runs on another node."""

    namespace: str
    pod: str
    """The pod to evict."""

    workload: Workload | None = None
    node: str
    """The node of the pod."""

    target: str
    """The node where its replacement is expected. A hint, not a reservation."""

    @property
    def pod_name(self) -> str:
        """`namespace/name` of the pod."""
        return f"{self.namespace}/{self.pod}"


class MoveCost(Value, frozen=True, kw_only=True):
    """What the replacement of a pod has to do again. Unknown amounts are None, never 0."""

    memory: Bytes | None = None
    """The memory that the pod uses."""

    age: Seconds | None = None
    """The time since its creation."""

    start: Seconds | None = None
    """The time from its creation until it was ready."""


class JustifiedMove(Move, frozen=True, kw_only=True):
    """A move with its reason, and the expected reduction of usage on its node."""

    reason: str
    """Why the pod is evicted, such as `node is hot: cpu 68.5% is above 50%`."""

    expected_reduction: Resources
    """The expected reduction of the node's usage, in cores and bytes."""

    gain: Points | None = None
    """The share (0..1) by which the load of the node falls, in the resource that is too high; None if unknown."""

    cost: MoveCost | None = None
    """None in messages of earlier versions."""


class EvictionMove(JustifiedMove, frozen=True, kw_only=True):
    """A move of the pod with this UID, not of another pod with the same name."""

    pod_uid: str
    without_gap: bool = False
    """Whether the pod is evicted only when its replacement is ready (`surge.mode`), which takes minutes. The outcome
    has what the binder has done."""

    trigger: str = ""
    """The pod that waits for the room that the move makes, as `<UID>.<generation>`; empty for a move with another
    purpose. Pods are moved at most once for the same trigger."""


def waiting_uid(trigger: str) -> str:
    """The UID of the waiting pod in `EvictionMove.trigger`."""
    return trigger.partition(".")[0]
