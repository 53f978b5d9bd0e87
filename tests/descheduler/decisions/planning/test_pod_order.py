"""The order in which the descheduler evicts pods."""

from equipoise.contracts.load.pod_priority import QOS, QOS_LABEL
from equipoise.descheduler.decisions.planning.pod_order import qos_rank


def test_the_order_of_qos() -> None:
    """Best effort first, system and exclusive pods late, pods without a label last."""
    ranks = [qos_rank({QOS_LABEL: name}) for name in ("BE", "LS", "LSR", "LSE", "")]

    assert ranks == sorted(set(ranks))
    assert qos_rank({QOS_LABEL: "SYSTEM"}) == qos_rank({QOS_LABEL: "LSE"})
    assert qos_rank({}) == ranks[-1]
    assert qos_rank({QOS: "BE"}) == ranks[0]
