"""The pods that the descheduler would move away from the node, by each rule: with the code of the product."""

import sys

import msgspec

from bench.pressure.machine import Measured
from bench.pressure.neighbours import SHARES, Kind
from equipoise.contracts.configuration.settings import PressureThresholds, ResourceThresholds, Thresholds
from equipoise.contracts.load.pod_priority import Qos
from equipoise.contracts.load.pressure import contention, uncontended
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster import IntentLimits
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad

sys.path.insert(0, "tests")
from builders import GIB, NOW
from descheduler.cluster_states import a_cluster, a_loaded_node, a_node, a_pod

SERVER = "server"
LOAD = ResourceThresholds(cpu=65, memory=80)
LOW = ResourceThresholds(cpu=45, memory=60)
PRESSURE = PressureThresholds(cpu=20, io=20)
LIMITS = IntentLimits(per_evaluation=4, per_node=2, per_workload=1)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pressure: PressureThresholds = PressureThresholds()
    require_pressure: bool = False


RULES = (
    Rule(name="load"),
    Rule(name="load or pressure", pressure=PRESSURE),
    Rule(name="load with requirePressure, or pressure", pressure=PRESSURE, require_pressure=True),
)


def moved_pods(rule: Rule, seen: Measured, kinds: dict[str, Kind], cores: int) -> list[str]:
    """The pods that leave after enough such evaluations, at most two. The server is Guaranteed, so it comes last."""
    pods = [
        a_pod(name, cpu=used, memory=GIB / 16, qos="Guaranteed" if name == SERVER else _qos(kinds[name]))
        for name, used in seen.cpu.items()
    ]
    thresholds = Thresholds(high=LOAD, low=LOW, pressure=rule.pressure)
    pressure = NodePressure(
        sampled_at=NOW,
        waiting=Pressure(**seen.waiting),
        pods={
            f"uid-{name}": MeasuredPodPressure(
                **seen.pods_waiting[name], throttled=seen.throttled[name], disk=seen.disk[name]
            )
            for name in seen.cpu
        },
    )
    usage = Resources(cpu=seen.utilization * cores, memory=GIB)
    node = a_node(
        "node", pods, base=Resources(cpu=float(cores), memory=64 * GIB), usage={"5m": usage}, pressure=pressure,
        contention=contention(pressure, rule.pressure), uncontended=uncontended(pressure, rule.pressure),
    )  # fmt: skip
    cluster = a_cluster(
        node, a_loaded_node("empty", 0.02), thresholds=thresholds, windows=("5m",), limits=LIMITS,
        require_pressure=rule.require_pressure,
    )  # fmt: skip
    return [move.pod.name for move in LowNodeLoad().plan(cluster, {"node"}).moves]


def _qos(kind: Kind) -> Qos:
    return "BestEffort" if SHARES[kind] == SHARES["polite"] else "Burstable"
