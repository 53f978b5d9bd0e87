"""Reasons to move a pod. A strategy is one file in this folder and one entry of `AnyStrategy`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, get_args

from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.cluster import ClusterView, MovePlan
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.decisions.strategies.make_room import MakeRoom
from equipoise.descheduler.decisions.strategies.rules import MoveByRules

AnyStrategy = LowNodeLoad | LevelDay | BinPack | MakeRoom | MoveByRules
"""The table: what `descheduler.strategies` may list, distinguished by the tag `name`."""


class Strategy(Protocol):
    """Classifies nodes and plans moves. Pure: the same cluster gives the same result. The fields of a strategy are its
    settings.

    Laws, tested for every entry of the table: no protected pod moves, no pod moves twice, no target exceeds its
    threshold, a node of unknown load is neither source nor target.
    """

    @property
    def levels(self) -> bool:
        """Whether it also moves pods where no node has to be relieved and no pod waits.

        It then moves none while consolidation empties a node: both use the same limits, and move pods by other rules
        (docs/decisions/0094).
        """
        ...

    def windows_of(self, cluster: ClusterView) -> Sequence[str]:
        """Names of the windows that the strategy uses. It predicts the load over the first one."""
        ...

    def classify(self, cluster: ClusterView) -> list[NodeClassification]:
        """The state of every node; a node that is `hot` or `sparse` at enough evaluations in a row is abnormal."""
        ...

    def plan(self, cluster: ClusterView, abnormal: Collection[str]) -> MovePlan:
        """Moves away from abnormal nodes, each to a target on which the pod fits."""
        ...


STRATEGIES: Mapping[str, type[Strategy]] = {kind.__struct_config__.tag: kind for kind in get_args(AnyStrategy)}
"""The strategies by the name used in the configuration, subjects and intents."""


def name_of(strategy: Strategy) -> str:
    """The name of a strategy in the configuration."""
    return next(name for name, kind in STRATEGIES.items() if isinstance(strategy, kind))
