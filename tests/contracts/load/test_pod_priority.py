"""The priority class of a pod, as Koordinator defines it."""

import pytest

from equipoise.contracts.load.pod_priority import (
    PRIORITY_CLASS_LABEL,
    QOS,
    QOS_LABEL,
    PriorityClass,
    Qos,
    labeled_qos,
    priority_class_of,
)


@pytest.mark.parametrize(
    ("labels", "priority", "qos", "expected"),
    [
        ({}, 0, "Burstable", "prod"),
        ({}, 0, "Guaranteed", "prod"),
        ({}, 0, "BestEffort", "batch"),
        ({}, 9_500, "BestEffort", "prod"),
        ({}, 7_999, "Guaranteed", "mid"),
        ({}, 5_000, "Burstable", "batch"),
        ({}, 3_999, "Burstable", "free"),
        ({}, 4_000, "Burstable", "prod"),
        ({PRIORITY_CLASS_LABEL: "koord-free"}, 9_500, "Guaranteed", "free"),
        ({PRIORITY_CLASS_LABEL: "koord-mid", QOS_LABEL: "BE"}, 0, "Guaranteed", "mid"),
        ({PRIORITY_CLASS_LABEL: "unknown"}, 5_000, "Burstable", "batch"),
        ({QOS_LABEL: "BE"}, 0, "Guaranteed", "batch"),
        ({QOS_LABEL: "LS"}, 0, "BestEffort", "prod"),
        ({QOS_LABEL: "unknown"}, 0, "BestEffort", "batch"),
        ({QOS: "unknown", QOS_LABEL: "LS"}, 0, "BestEffort", "prod"),
    ],
)
def test_the_priority_class_of_a_pod(labels: dict[str, str], priority: int, qos: Qos, expected: PriorityClass) -> None:
    """By label, else by the band of its priority, else by QoS: Koordinator's label, else Kubernetes' class."""
    assert priority_class_of(labels, priority, qos) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ""),
        ({QOS_LABEL: "LSE"}, "LSE"),
        ({QOS: "LS", QOS_LABEL: "LSE"}, "LS"),
        ({QOS: "none", QOS_LABEL: "LSE"}, "LSE"),
        ({QOS: "none"}, ""),
    ],
)
def test_a_known_value_of_our_label_counts_more_than_koordinators(labels: dict[str, str], expected: str) -> None:
    assert labeled_qos(labels) == expected
