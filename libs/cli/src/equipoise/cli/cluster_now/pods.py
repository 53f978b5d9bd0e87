"""The pods of a node by usage, beside what they request. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from equipoise.cli.cluster_now.waiting import pod_waiting_text
from equipoise.cli.terminal import RESOURCES, amount, percentages, table
from equipoise.contracts.load.correction import known, load_of
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

NOT_MEASURED = "not measured yet"
"""The last words of the state of a pod whose usage is not known."""


class PodNow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on a node."""

    pod: str
    """NAMESPACE/NAME."""

    node: str
    workload: str
    usage: Resources
    """Mean of the shortest window, cores and bytes; None: not measured."""

    requests: Resources
    """Cores and bytes; None: it requests nothing of this resource."""

    load: Resources
    """Usage as a share (0..1) of what is allocatable on its node."""

    pressure: MeasuredPodPressure | None = None
    """The share of time in which it waits, without values near 0; None if there is none, or if it is unknown."""

    state: str = ""
    """`terminating`, `detached` (by a move without a gap), `not measured yet`, the last two together, or empty."""


def pods_by_usage(placement: NodePlacement | None, utilization: NodeUtilization | None) -> list[PodNow]:
    """The pods of one node, in the order of `sort_key`."""
    usage: Mapping[str, Resources] = {} if utilization is None else utilization.pods
    measured = None if utilization is None else utilization.pressure
    pressure = {} if measured is None else measured.pods
    base = Resources() if utilization is None else utilization.base
    placed = () if placement is None else placement.pods
    pods = [
        PodNow(
            pod=f"{pod.namespace}/{pod.name}",
            node=placement.node if placement is not None else "",
            workload="" if pod.workload is None else str(pod.workload),
            usage=usage.get(pod.uid, Resources()),
            requests=pod.requests,
            load=load_of(usage.get(pod.uid, Resources()), base),
            pressure=pressure.get(pod.uid),
            state=_state(pod, usage),
        )
        for pod in placed
    ]
    return sorted(pods, key=sort_key)


def sort_key(pod: PodNow) -> tuple[float, str]:
    """The pod with the largest share of the cpu or memory of its node first; pods of unknown usage last."""
    return -max(known(pod.load.cpu) or 0.0, known(pod.load.memory) or 0.0), pod.pod


def _state(pod: PlacedPod, usage: Mapping[str, Resources]) -> str:
    if pod.terminating:
        return "terminating"
    states = ["detached" * pod.detached, "" if pod.uid in usage else NOT_MEASURED]
    return ", ".join(filter(None, states))


def pods_table(pods: Iterable[PodNow], *, of_one_node: bool, wide: bool) -> object:
    """A row per pod. `wide`: whether the workloads of the pods are a column."""
    names = ["pod", *([] if of_one_node else ["node"]), *(["workload"] if wide else [])]
    shown = list(pods)
    waits = any(pod_waiting_text(pod.pressure) for pod in shown)
    more = ["waits for"] if waits else []
    rows = table(*names, "cores>", "requested>", "GiB>", "requested>", "of node", *more, "state")
    for pod in shown:
        cells = [pod.pod, *([] if of_one_node else [pod.node]), *([pod.workload] if wide else [])]
        waiting = [pod_waiting_text(pod.pressure)] if waits else []
        amounts = (amount(values, name) for name in RESOURCES for values in (pod.usage, _requested(pod, name)))
        rows.add_row(*cells, *amounts, percentages(pod.load), *waiting, pod.state)
    return rows


def _requested(pod: PodNow, resource: str) -> Resources:
    """The request of this resource. A pod without one requests 0."""
    return cpu_and_memory({resource: getattr(pod.requests, resource) or 0.0})
