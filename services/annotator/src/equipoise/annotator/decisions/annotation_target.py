"""The object that a utilization message is written on, and the value to write."""

from typing import Any, TypeVar

import msgspec

from equipoise.annotator.decisions.write_decision import Scale, WriteThreshold
from equipoise.contracts.bus.subjects import node_annotation, workload_annotation
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.annotations import (
    LOAD,
    RECLAIMED,
    USAGE,
    AnnotationValue,
    node_load,
    node_reclaimed,
    workload_usage,
)
from equipoise.contracts.load.correction import usable_window
from equipoise.contracts.load.latest import supersedes, supersedes_measurement, supersedes_utilization
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization, WorkloadUtilization


class AnnotationTarget(msgspec.Struct, frozen=True, kw_only=True):
    """An object in the cluster, and the rules for writing on it."""

    key: str
    """Unique among all objects. Its hash decides which annotator writes the object, and when it is refreshed."""

    display_name: str

    group: str
    kind: str
    namespace: str
    name: str
    uid: str
    """Empty for workloads: their messages have none, and the name identifies them."""

    annotation: str
    """The key of our annotation. An object with several of them has a target for each."""

    subject: str
    threshold: WriteThreshold
    scale: Scale


Annotated = NodeUtilization | WorkloadUtilization | ReclaimedNode
"""A message whose content is written on an object."""


def target_of(message: Annotated, *, nodes: WriteThreshold, workloads: WriteThreshold) -> AnnotationTarget:
    """The object of this message. `nodes`, `workloads`: their write thresholds."""
    if not isinstance(message, WorkloadUtilization):
        reclaimed = isinstance(message, ReclaimedNode)
        return AnnotationTarget(
            key=f"{'reclaimed' if reclaimed else 'node'}/{message.node}",
            display_name=f"node/{message.node}",
            group="",
            kind="Node",
            namespace="",
            name=message.node,
            uid=message.uid,
            annotation=RECLAIMED if reclaimed else LOAD,
            subject=node_annotation(message.node),
            threshold=nodes,
            scale="points",
        )
    workload = message.workload
    return AnnotationTarget(
        key=f"{workload.key}/{workload.namespace}/{workload.name}",
        display_name=str(workload),
        group=workload.group,
        kind=workload.kind,
        namespace=workload.namespace,
        name=workload.name,
        uid="",
        annotation=USAGE,
        subject=workload_annotation(workload),
        threshold=workloads,
        scale="relative",
    )


def value_of(message: Annotated, load: LoadSettings, now: float, skew: float) -> AnnotationValue | None:
    """The value to write; None when nothing is known, or all of it is too old. `skew` as in `with_current_windows`."""
    match message:
        case ReclaimedNode():
            return node_reclaimed(message) if now - message.evaluated_at <= load.freshness.score else None
        case NodeUtilization():
            return node_load(with_current_windows(message, load, now, skew))
        case WorkloadUtilization():
            return workload_usage(with_current_windows(message, load, now, skew))


def is_newer(message: Annotated, known: Annotated, now: float) -> bool:
    """Whether the message is at least as new as the known one about an object of the same name."""
    match message, known:
        case NodeUtilization(), NodeUtilization():
            return supersedes_utilization(message, known, now)
        case WorkloadUtilization(), WorkloadUtilization():
            return supersedes_measurement(message, known)
        case ReclaimedNode(), ReclaimedNode():
            return message.uid != known.uid or supersedes(message, known)
    return False


def time_of(message: Annotated) -> float:
    """Unix seconds of the newest sample, or of the evaluation."""
    return message.evaluated_at if isinstance(message, ReclaimedNode) else message.sampled_at


U = TypeVar("U", NodeUtilization, WorkloadUtilization)


def with_current_windows(utilization: U, load: LoadSettings, now: float, skew: float) -> U:
    """The same message without windows that are too old, or without any when the clocks differ too much.

    `skew`: seconds by which the source's clock is ahead of the collectors'.
    """
    windows: dict[str, Any] = {
        window.name: usage
        for window in load.windows
        if (usage := usable_window(utilization, window, load, now, skew=skew)) is not None
    }
    return msgspec.structs.replace(utilization, windows=windows)
