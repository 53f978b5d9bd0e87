"""What one strategy decided."""

from collections.abc import Sequence

import msgspec

from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan


class StrategyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one strategy decided."""

    strategy: str
    window: str
    """The first of the windows that it uses."""

    cluster: ClusterView
    """The cluster with which the strategy planned: the moves of earlier strategies are pending."""

    classifications: Sequence[NodeClassification]
    plan: MovePlan
