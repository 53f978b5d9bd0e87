"""The priority classes of Koordinator: which pods are production, and which use what production leaves idle.

Source: koordinator, apis/extension/priority.go and qos.go. A label with an unknown value counts as absent.
"""

from collections.abc import Mapping
from typing import Literal, cast, get_args

Qos = Literal["Guaranteed", "Burstable", "BestEffort"]

PriorityClass = Literal["prod", "mid", "batch", "free"]

PRIORITY_CLASS_LABEL = "koordinator.sh/priority-class"
QOS_LABEL = "koordinator.sh/qosClass"
QOS = "equipoise.dev/qos"
"""Label of a pod with its QoS class. It takes precedence over that of Koordinator."""

KOORDINATOR_QOS = ("BE", "LS", "LSR", "LSE", "SYSTEM")
"""Values of `QOS_LABEL`, the least important first."""

PRIORITY_CLASSES: Mapping[str, PriorityClass] = {
    "koord-prod": "prod",
    "koord-mid": "mid",
    "koord-batch": "batch",
    "koord-free": "free",
}
PRIORITY_BANDS: tuple[tuple[int, int, PriorityClass], ...] = (
    (9_000, 9_999, "prod"),
    (7_000, 7_999, "mid"),
    (5_000, 5_999, "batch"),
    (3_000, 3_999, "free"),
)
"""The lowest and the highest priority of each class."""


def is_batch_work(priority_class: PriorityClass, priority: int, *, reclaimed: bool) -> bool:
    """Whether a pod belongs to the band batch or free, uses what other pods leave idle, and gives way to them.

    `reclaimed`: whether the pod requests amounts of a band. A pod that is batch only because it is BestEffort is no
    batch work, because such pods exist in every cluster, even without co-location.
    """
    return priority_class in ("batch", "free") and (
        reclaimed or any(low <= priority <= high for low, high, _ in PRIORITY_BANDS)
    )


def qos_of(status: str) -> Qos:
    """The QoS class in the status of a pod; BestEffort if there is none."""
    return cast(Qos, status) if status in get_args(Qos) else "BestEffort"


def priority_class_of(labels: Mapping[str, str], priority: int, qos: Qos) -> PriorityClass:
    """The class in the label, else that of the band of the priority, else batch for best-effort pods and prod for
    others."""
    if (named := PRIORITY_CLASSES.get(labels.get(PRIORITY_CLASS_LABEL, ""))) is not None:
        return named
    for low, high, band in PRIORITY_BANDS:
        if low <= priority <= high:
            return band
    labeled = labeled_qos(labels)
    best_effort = labeled == "BE" if labeled else qos == "BestEffort"
    return "batch" if best_effort else "prod"


def labeled_qos(labels: Mapping[str, str]) -> str:
    """The QoS class (`KOORDINATOR_QOS`) in the label of Equipoise, else in that of Koordinator. Empty if neither is
    valid."""
    return next((value for label in (QOS, QOS_LABEL) if (value := labels.get(label)) in KOORDINATOR_QOS), "") or ""
