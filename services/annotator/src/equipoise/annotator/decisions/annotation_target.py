"""The object that a utilization message is written on, and the value to write."""

from typing import Any

import msgspec

from equipoise.annotator.decisions.write_decision import DeadBand, Scale
from equipoise.contracts.bus.subjects import node_annotation, workload_annotation
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.annotations import NodeLoad, WorkloadUsage, node_load, workload_usage
from equipoise.contracts.load.correction import usable_window
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization


class AnnotationTarget(msgspec.Struct, frozen=True, kw_only=True):
    """An object in the cluster, and the rules for writing on it."""

    key: str
    """Unique among all objects; its owner and its refresh time are hashed from it."""

    display_name: str

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    """Empty for workloads: their messages have none, and the name identifies them."""

    subject: str
    band: DeadBand
    scale: Scale


def target_of(
    utilization: NodeUtilization | WorkloadUtilization, *, nodes: DeadBand, workloads: DeadBand
) -> AnnotationTarget:
    """The object of this message. `nodes`, `workloads`: their dead-bands."""
    if isinstance(utilization, NodeUtilization):
        return AnnotationTarget(
            key=f"node/{utilization.node}",
            display_name=f"node/{utilization.node}",
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
    return AnnotationTarget(
        key=f"{workload.key}/{workload.namespace}/{workload.name}",
        display_name=str(workload),
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
    """The value to write; None when nothing is known."""
    return node_load(utilization) if isinstance(utilization, NodeUtilization) else workload_usage(utilization)


def with_current_windows(
    utilization: NodeUtilization | WorkloadUtilization, load: LoadSettings, now: float, skew: float
) -> NodeUtilization | WorkloadUtilization:
    """The same message without windows that are too old, or without any when the clocks differ too much.

    `skew`: seconds by which the source's clock is ahead of the collectors'.
    """
    windows: dict[str, Any] = {
        window.name: usage
        for window in load.windows
        if (usage := usable_window(utilization, window, load, now, skew=skew)) is not None
    }
    return msgspec.structs.replace(utilization, windows=windows)
