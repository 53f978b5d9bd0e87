"""The order in which pods are evicted: Koordinator's priority class and QoS, and the costs that their owners declare.

Source: koordinator, apis/extension/qos.go. A label with an unknown value counts as absent.
"""

from collections.abc import Mapping

from equipoise.contracts.load.pod_priority import QOS_LABEL, PriorityClass

PRIORITY_CLASS_ORDER: Mapping[PriorityClass, int] = {"free": 0, "batch": 1, "mid": 2, "prod": 3}
"""The least important first."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"

_QOS = {"BE": 0, "LS": 1, "LSR": 2, "LSE": 3, "SYSTEM": 3}
_NO_QOS = 4


def cost_of(annotations: Mapping[str, str], name: str) -> int:
    """The cost in this annotation; 0 when it is absent or no number."""
    try:
        return int(annotations.get(name, "0"))
    except ValueError:
        return 0


def qos_rank(labels: Mapping[str, str]) -> int:
    """Koordinator's QoS as a number, the least important first: BE, LS, LSR, LSE and SYSTEM, none."""
    return _QOS.get(labels.get(QOS_LABEL, ""), _NO_QOS)
