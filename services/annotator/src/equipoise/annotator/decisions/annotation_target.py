"""What a message of the bus is to be written on: which object, under which rules, as what text."""

from typing import Any

import msgspec

from equipoise.annotator.decisions.write_decision import DeadBand, Scale
from equipoise.contracts.bus.subjects import node_annotation, workload_annotation
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.annotations import NodeLoad, WorkloadUsage, node_load, workload_usage
from equipoise.contracts.load.correction import usable_window
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An object in the cluster, and the rules for writing on it."""

    key: str
    """Unique among all objects; what owners and turns are hashed from."""

    text: str
    """As people call it."""

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    """Empty where the bus does not tell it (workloads): then the name alone decides."""

    subject: str
    band: DeadBand
    scale: Scale


def target_of(utilization: NodeUtilization | WorkloadUtilization, *, nodes: DeadBand, workloads: DeadBand) -> Target:
    """The object that this utilization is written on; the dead-bands of nodes and of workloads."""
    if isinstance(utilization, NodeUtilization):
        return Target(
            key=f"node/{utilization.node}",
            text=f"node/{utilization.node}",
            group="",
            kind="Node",
            namespace="",
            name=utilization.node,
            uid=utilization.uid,
            subject=node_annotation(utilization.node),
            band=nodes,
            scale="points",
        )
    workload = utilization.workload
    return Target(
        key=f"{workload.key}/{workload.namespace}/{workload.name}",
        text=str(workload),
        group=workload.group,
        kind=workload.kind,
        namespace=workload.namespace,
        name=workload.name,
        uid="",
        subject=workload_annotation(workload),
        band=workloads,
        scale="relative",
    )


def value_of(utilization: NodeUtilization | WorkloadUtilization) -> NodeLoad | WorkloadUsage | None:
    """What to write; None when nothing is known."""
    return node_load(utilization) if isinstance(utilization, NodeUtilization) else workload_usage(utilization)


def alive(
    utilization: NodeUtilization | WorkloadUtilization, load: LoadSettings, now: float, skew: float
) -> NodeUtilization | WorkloadUtilization:
    """The same with only those windows that are within their life; none where the clocks are too far apart for that.

    `skew`: seconds by which the source's clock is ahead of the collectors'.
    """
    windows: dict[str, Any] = {
        window.name: usage
        for window in load.windows
        if (usage := usable_window(utilization, window, load, now, skew=skew)) is not None
    }
    return msgspec.structs.replace(utilization, windows=windows)
