"""The order in which pods may be evicted: Koordinator's priority class and QoS, and the costs their owners declare.

Source: koordinator, apis/extension/priority.go and qos.go. A label with an unknown value counts as absent.
"""

from collections.abc import Mapping
from typing import Literal

from equipoise.contracts.load.pod_priority import Qos

Tier = Literal["free", "batch", "mid", "prod"]

TIERS: Mapping[Tier, int] = {"free": 0, "batch": 1, "mid": 2, "prod": 3}
"""The least important first."""

TIER_LABEL = "koordinator.sh/priority-class"
QOS_LABEL = "koordinator.sh/qosClass"

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"

_NAMES: Mapping[str, Tier] = {"koord-free": "free", "koord-batch": "batch", "koord-mid": "mid", "koord-prod": "prod"}
_BANDS: tuple[tuple[int, int, Tier], ...] = (
    (9_000, 9_999, "prod"),
    (7_000, 7_999, "mid"),
    (5_000, 5_999, "batch"),
    (3_000, 3_999, "free"),
)
_QOS = {"BE": 0, "LS": 1, "LSR": 2, "LSE": 3, "SYSTEM": 3}
_NO_QOS = 4


def tier_of(labels: Mapping[str, str], priority: int, qos: Qos) -> Tier:
    """The class in the label, else that of the priority's band, else batch for best effort and prod for the rest."""
    named = _NAMES.get(labels.get(TIER_LABEL, "")) if labels else None
    if named is not None:
        return named
    for low, high, tier in _BANDS:
        if low <= priority <= high:
            return tier
    label = labels.get(QOS_LABEL) if labels else None
    best_effort = label == "BE" if label in _QOS else qos == "BestEffort"
    return "batch" if best_effort else "prod"


def cost_of(annotations: Mapping[str, str], name: str) -> int:
    """The cost in this annotation; 0 when it is absent or no number."""
    try:
        return int(annotations.get(name, "0"))
    except ValueError:
        return 0


def qos_rank(labels: Mapping[str, str]) -> int:
    """Koordinator's QoS as a number, the least important first: BE, LS, LSR, LSE and SYSTEM, none."""
    return _QOS.get(labels.get(QOS_LABEL, ""), _NO_QOS)
