"""QoS classes, priority classes, and which of them go together: the table of Koordinator's webhook.

Source: koordinator, pkg/webhook/pod/validating.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from equipoise.contracts.load.pod_priority import PRIORITY_BANDS, PriorityClass

QosClass = Literal["LSE", "LSR", "LS", "BE", "SYSTEM"]
QOS_CLASSES: tuple[QosClass, ...] = get_args(QosClass)

PRIORITY_CLASS_BANDS: tuple[PriorityClass, ...] = get_args(PriorityClass)

ALLOWED_BANDS: Mapping[QosClass, tuple[PriorityClass, ...]] = {"BE": ("mid", "batch", "free"), "LSR": ("prod",)}
"""The bands that a class needs. Other classes go with every band, and with none."""

WHOLE_CORES: tuple[QosClass, ...] = ("LSR", "LSE")
"""Their pods request whole cores."""

PREFIXES = ("equipoise", "koord")
"""Of the names of PriorityClasses: those of this release, and Koordinator's."""

_TEXTS: Mapping[PriorityClass, str] = {
    "prod": "Latency-sensitive pods that others must not displace.",
    "mid": "Pods that run on what is expected to be idle for a day.",
    "batch": "Pods that run on what is expected to be idle for some hours.",
    "free": "Pods that run on what is idle now.",
}


def allowed(qos: QosClass, band: PriorityClass) -> bool:
    """Whether pods of this QoS class may have this band."""
    return band in ALLOWED_BANDS.get(qos, PRIORITY_CLASS_BANDS)


def priority_class_names(band: PriorityClass) -> tuple[str, ...]:
    """The PriorityClasses of a band that a profile can give, ours first."""
    return tuple(f"{prefix}-{band}" for prefix in PREFIXES)


def priority_classes() -> list[dict[str, Any]]:
    """The manifests. The values are the middle of each band; those of Koordinator's own classes are its lowest."""
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": priority_class_names(band)[0]},
            "value": (low + high + 1) // 2,
            # Pods without a class have priority 0. Work on idle resources must not preempt them.
            "preemptionPolicy": "PreemptLowerPriority" if band == "prod" else "Never",
            "description": _TEXTS[band],
        }
        for low, high, band in PRIORITY_BANDS
    ]
