"""Koordinator's classes of pods."""

import pytest

from equipoise.contracts.load.pod_priority import Qos, is_production
from equipoise.descheduler.state.pod_priority import QOS_LABEL, TIER_LABEL, Tier, qos_rank, tier_of


@pytest.mark.parametrize(
    ("labels", "priority", "qos", "tier"),
    [
        ({}, 0, "Burstable", "prod"),
        ({}, 0, "Guaranteed", "prod"),
        ({}, 0, "BestEffort", "batch"),
        ({}, 9_500, "BestEffort", "prod"),
        ({}, 7_999, "Guaranteed", "mid"),
        ({}, 5_000, "Burstable", "batch"),
        ({}, 3_999, "Burstable", "free"),
        ({}, 4_000, "Burstable", "prod"),
        ({TIER_LABEL: "koord-free"}, 9_500, "Guaranteed", "free"),
        ({TIER_LABEL: "koord-mid", QOS_LABEL: "BE"}, 0, "Guaranteed", "mid"),
        ({TIER_LABEL: "unknown"}, 5_000, "Burstable", "batch"),
        ({QOS_LABEL: "BE"}, 0, "Guaranteed", "batch"),
        ({QOS_LABEL: "LS"}, 0, "BestEffort", "prod"),
        ({QOS_LABEL: "unknown"}, 0, "BestEffort", "batch"),
    ],
)
def test_the_class_of_a_pod(labels: dict[str, str], priority: int, qos: Qos, tier: Tier) -> None:
    """The label decides, else the band of the priority, else the QoS: Koordinator's label, else Kubernetes' own."""
    assert tier_of(labels, priority, qos) == tier


@pytest.mark.parametrize("priority", [0, 3_500, 5_500, 7_500, 9_500, 2_000_000_000])
@pytest.mark.parametrize("qos", ["Guaranteed", "Burstable", "BestEffort"])
def test_production_is_defined_as_in_the_scorer(priority: int, qos: Qos) -> None:
    """Without labels, which the scorer does not see."""
    assert (tier_of({}, priority, qos) == "prod") == is_production(priority, qos)


def test_the_order_of_qos() -> None:
    """Best effort first, system and exclusive pods late, pods without a label last."""
    ranks = [qos_rank({QOS_LABEL: name}) for name in ("BE", "LS", "LSR", "LSE", "")]

    assert ranks == sorted(set(ranks))
    assert qos_rank({QOS_LABEL: "SYSTEM"}) == qos_rank({QOS_LABEL: "LSE"})
    assert qos_rank({}) == ranks[-1]
