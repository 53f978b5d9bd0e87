"""Reasons to move a pod: one file per strategy, one line in the table."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.strategies.bin_pack import BinPack
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad
from equipoise.descheduler.state.abnormal_counts import Reading
from equipoise.descheduler.state.cluster import Fleet, Plan


class Strategy(Protocol):
    """Judges nodes and plans moves. Pure: the same fleet gives the same answers. Its fields are its settings.

    Laws, held by tests for every entry of the table: no protected pod moves, no pod moves twice, no target comes above
    its mark, a node of unknown load is neither source nor target.
    """

    def windows_of(self, fleet: Fleet) -> Sequence[str]:
        """Names of the windows that decide; the first one predicts."""
        ...

    def verdicts(self, fleet: Fleet) -> list[NodeClassification]:
        """What each node is; `hot` or `sparse` at enough evaluations in a row makes a node abnormal."""
        ...

    def plan(self, fleet: Fleet, abnormal: Collection[str]) -> Plan:
        """Moves away from abnormal nodes. Every move has a target that it fits on."""
        ...


AnyStrategy = LowNodeLoad | LevelDay | BinPack
"""What `descheduler.strategies` may list, told apart by `name`."""

STRATEGIES: Mapping[str, type[Strategy]] = {"low_node_load": LowNodeLoad, "level_day": LevelDay, "bin_pack": BinPack}


def name_of(strategy: Strategy) -> str:
    """The name that configuration, subjects and intents call it by."""
    return next(name for name, kind in STRATEGIES.items() if isinstance(strategy, kind))


def readings(strategy: Strategy, fleet: Fleet, verdicts: Sequence[NodeClassification]) -> list[Reading]:
    """The verdicts as they count."""
    windows = strategy.windows_of(fleet)
    samples = {node.name: node.oldest_sample(windows) for node in fleet.nodes}
    return [
        Reading(
            node=verdict.node,
            abnormal=None if verdict.state == "unknown" else verdict.abnormal,
            sampled_at=samples[verdict.node],
        )
        for verdict in verdicts
    ]
