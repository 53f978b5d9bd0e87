"""What a move gains, and what it costs: shown with each move, so that people can compare both."""

from collections.abc import Collection

from equipoise.contracts.kubernetes.objects.metadata import is_ready, ready_condition
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.load.correction import RESOURCES, known, load_of
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import MovablePod

LONGEST_START = 3_600.0
"""Seconds. A pod that became ready later after its creation has most likely been unready in between, so that the time
is not that of its start."""


def gain_of(usage: Resources, base: Resources, over: Collection[str]) -> float | None:
    """The share (0..1) of a node's base by which its load falls without a pod of this usage; None if it is unknown.

    `over`: the resources in which the node is above a threshold. Of several, and if there are none, the largest share.
    """
    load = load_of(usage, base)
    counted = [name for name in (*RESOURCES, *(load.further or {})) if name in over] or RESOURCES
    return max((share for name in counted if (share := known(load.amount(name))) is not None), default=None)


def cost_of_move(pod: MovablePod, now: float) -> MoveCost:
    """What the replacement has to do again. What is unknown is None, never 0."""
    return MoveCost(
        memory=known(pod.usage.memory),
        age=max(0.0, now - pod.created_at) if pod.created_at else None,
        start=pod.start,
    )


def start_of(pod: Pod) -> float | None:
    """Seconds that the pod took from its creation until it was ready; None if this is unknown."""
    created, ready = pod.metadata.creation_timestamp, ready_condition(pod.status.conditions)
    if created is None or ready is None or ready.last_transition_time is None or not is_ready([ready]):
        return None
    seconds = ready.last_transition_time.timestamp() - created.timestamp()
    return seconds if 0 <= seconds <= LONGEST_START else None
