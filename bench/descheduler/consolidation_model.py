"""Fewer nodes in memory: how many nodes consolidation empties, and with how many moves, by the days of the pods.

The pods and nodes are those of `bench.descheduler.consolidation`. Every move is carried out at once and succeeds;
nothing else changes. So the result has no noise, and shows what the plans can do: with present and with proposed
requests, with the day leveled before and after each node, or only what is above a threshold, and with errors of
profiles that are known (none here) or not recorded yet (a quarter of the mean counts).
"""

import argparse
import sys

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from equipoise.cli.demo.consolidation.fleet import INSTANCE_TYPE, even_placement, fewest_nodes, fleet
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.strategies.level_day import LevelDay
from equipoise.descheduler.state.consolidation.planner import consolidation_plan
from equipoise.lab.model.resource_requests import RequestsVariant, with_requests
from equipoise.lab.model.trace import Trace
from equipoise.lab.resource_requests.proposals import proposals

sys.path.insert(0, "tests")
from builders import GIB
from descheduler.cluster_states import pod_info
from descheduler.consolidated import World

CORES, MEMORY = 10.0, 64.0
"""The nodes of `World`, cores and GiB, to which all amounts are scaled."""

THRESHOLDS = Thresholds(
    high=ResourceThresholds(cpu=80, memory=90), low=ResourceThresholds(cpu=45, memory=60)
)  # fmt: skip
MOST_PLANS = 200


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    nodes: int
    relieving: int
    """Moves that relieved nodes or leveled the day."""

    emptying: int
    hottest: float
    """The highest load of a node in any hour, 0..1."""


class Model:
    """Where the pods of a trace are."""

    def __init__(self, trace: Trace, seed: int, *, recorded: bool) -> None:
        """`recorded`: whether the profiles have recorded errors, which are 0."""
        self.nodes = [node.name for node in trace.nodes]
        self._recorded = recorded
        self._pods: dict[str, tuple[str, dict[str, float], np.ndarray, float]] = {}
        start = even_placement(trace, seed)
        for index, workload in enumerate(trace.workloads):
            cores = CORES / INSTANCE_TYPE.cpu_milli
            memory = MEMORY / INSTANCE_TYPE.memory_mib
            day = cores * trace.cpu_milli[index].reshape(24, -1).mean(axis=1)
            requests = {
                "cpu": cores * workload.request_cpu_milli, "memory": memory * workload.request_memory_mib * GIB
            }  # fmt: skip
            used = memory * float(trace.memory_mib[index].max())
            for number, node in enumerate(start.get(f"{workload.namespace}/{workload.name}", ())):
                self._pods[f"{workload.name}-{number}"] = node, requests, day, used

    def cluster(self) -> ClusterView:
        world = World()
        for node in self.nodes:
            world.node(node)
        for name, (node, requests, day, memory) in self._pods.items():
            world.pod(name, node, day, memory, info=pod_info(name, requests))
            if not self._recorded:
                world.error(name, None)
        return msgspec.structs.replace(world.cluster(), thresholds=THRESHOLDS)

    def move(self, pod: MovablePod, target: str) -> None:
        self._pods[pod.name] = (target, *self._pods[pod.name][1:])

    def hottest(self) -> float:
        loads = {node: np.zeros(24) for node in self.nodes}
        for node, _, day, _ in self._pods.values():
            loads[node] += day / CORES
        return float(max(load.max() for load in loads.values()))

    def consolidate(self, *, level: bool) -> Outcome:
        """Empties nodes until none can be. `level`: whether the day is leveled before each of them; otherwise only what
        is above a threshold is relieved."""
        relieving = emptying = 0
        for _ in range(MOST_PLANS):
            cluster = self.cluster()
            plan = consolidation_plan(cluster, Consolidation())
            sources = set(self.nodes) if level else set(plan.above)
            moves = LevelDay().plan(cluster, sources).moves if sources else ()
            if moves:
                chosen = moves if level else moves[:1]
                for move in chosen:
                    self.move(move.pod, move.target)
                relieving += len(chosen)
                continue
            if plan.above or not plan.nodes:
                break
            emptied = plan.nodes[0]
            for pod, target in emptied.moves:
                self.move(pod, target.name)
            emptying += len(emptied.moves)
            self.nodes.remove(emptied.node.name)
        return Outcome(nodes=len(self.nodes), relieving=relieving, emptying=emptying, hottest=self.hottest())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table = Table(title=f"{options.nodes} nodes, seed {options.seed}", box=None)
    for column in ("requests", "need", "errors of profiles", "before", "nodes", "moves", "hottest"):
        table.add_column(column, no_wrap=True)
    trace = fleet(options.seed, options.nodes)
    proved = RequestsVariant(name="proposed", requests=tuple(each.proposed for each in proposals(trace)))
    for variant in (RequestsVariant(), proved):
        own = with_requests(trace, variant)
        for recorded in (False, True):
            for level in (False, True):
                result = Model(own, options.seed, recorded=recorded).consolidate(level=level)
                table.add_row(
                    variant.name,
                    f"{fewest_nodes(own)[0]}",
                    "known" if recorded else "not recorded",
                    "leveled" if level else "relieved",
                    f"{options.nodes} → {result.nodes}",
                    f"{result.relieving} + {result.emptying}",
                    f"{result.hottest:.0%}",
                )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
