"""The live view of 5,000 nodes and 150,000 pods: the cost of a message, of a second's changes, and its memory."""

import json
import subprocess
import sys
import time

import msgspec

from bench.memory import resident_mb
from bench.output import progress, report
from equipoise.cli.views.state import LiveState
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import DescheduleDecision, NodeClassification
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage
from equipoise.contracts.messages.values.resources import Resources

NODES, PODS = 5_000, 30
NOW, GIB = 1_800_000_000.0, 2.0**30


def placement(node: int, sequence: int = 1) -> bytes:
    pods = [
        PlacedPod(
            uid=f"{node:08x}-6f1e-4b5e-9a53-{pod:012x}",
            namespace=f"team-{pod % 20}",
            name=f"service-{(node * PODS + pod) % 2_000}-7d4b9c8f6-{pod:05x}",
            workload=Workload(
                kind="Deployment", group="apps", namespace=f"team-{pod % 20}", name=f"service-{(node + pod) % 2_000}"
            ),
            placed_at=NOW - 7_200,
            running_since=NOW - 7_195,
            requests=Resources(cpu=0.5, memory=GIB),
        )
        for pod in range(PODS)
    ]
    size = Resources(cpu=32, memory=128 * GIB)
    message = NodePlacement(
        node=f"node-{node:04d}.example.com", uid=f"{node:08x}", ready=True, allocatable=size, capacity=size, pods=pods,
        epoch=1, sequence=sequence,
    )  # fmt: skip
    return msgspec.json.encode(message)


def utilization(node: int, sequence: int = 1, load: float = 0.5) -> bytes:
    usage = Resources(cpu=32 * load, memory=64 * GIB)
    message = NodeUtilization(
        node=f"node-{node:04d}.example.com",
        uid=f"{node:08x}",
        base=Resources(cpu=32, memory=128 * GIB),
        sampled_at=NOW,
        queried_at=NOW,
        windows={name: WindowUsage(sampled_at=NOW, mean=usage) for name in ("5m", "15m", "1h", "1d")},
        pods={f"{node:08x}-6f1e-4b5e-9a53-{pod:012x}": Resources(cpu=0.4, memory=GIB) for pod in range(PODS)},
        epoch=1,
        sequence=sequence,
    )
    return msgspec.json.encode(message)


def measure(nodes: int = NODES) -> dict[str, float]:
    """The figures. To be called in a process of its own, because of the memory."""
    before = resident_mb()
    state = LiveState(LoadSettings())
    placements, utilizations = msgspec.json.Decoder(NodePlacement), msgspec.json.Decoder(NodeUtilization)
    for node in range(nodes):
        state.apply(placements.decode(placement(node)), NOW)
        state.apply(utilizations.decode(utilization(node, load=node / nodes)), NOW)
    state.tick(NOW)
    state.take_changes()
    memory = resident_mb() - before

    messages = [utilizations.decode(utilization(node, sequence=2, load=0.3)) for node in range(1_000)]
    begin = time.process_time()
    for message in messages:
        state.apply(message, NOW + 1)
    apply = (time.process_time() - begin) / len(messages)
    begin = time.process_time()
    state.tick(NOW + 1)
    changes = msgspec.json.encode(state.take_changes())
    changed = time.process_time() - begin

    state.apply(utilizations.decode(utilization(1, sequence=3, load=0.9)), NOW + 2)
    begin = time.process_time()
    state.tick(NOW + 2)
    msgspec.json.encode(state.take_changes())
    one = time.process_time() - begin

    classified = [
        NodeClassification(node=f"node-{node:04d}.example.com", state="between", load=Resources(cpu=0.5, memory=0.5))
        for node in range(nodes)
    ]
    decision = DescheduleDecision(strategy="low_node_load", evaluated_at=NOW + 3, nodes=classified, intents=[])
    begin = time.process_time()
    state.apply(decision, NOW + 3)
    state.tick(NOW + 3)
    state.take_changes()
    evaluation = time.process_time() - begin

    begin = time.process_time()
    snapshot = msgspec.json.encode(state.everything())
    everything = time.process_time() - begin
    begin = time.process_time()
    pods = sum(1 for _ in state.pods_of("Deployment/team-1/service-1"))
    workload = time.process_time() - begin
    return {
        "memory": memory,
        "apply": apply * 1e6,
        "changed": changed * 1e3,
        "bytes": len(changes) / 1_000,
        "one": one * 1e3,
        "evaluation": evaluation * 1e3,
        "snapshot": everything * 1e3,
        "snapshot_bytes": len(snapshot) / 1_000,
        "workload": workload * 1e3,
        "pods": pods,
    }


def main() -> None:
    progress(f"{NODES} nodes, {NODES * PODS} pods")
    command = [sys.executable, "-m", "bench.page.live_5000", "measure"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603  itself
    report("live_apply", found["apply"], "µs", target=("<=", 200))
    report("live_second_one_node", found["one"], "ms", target=("<=", 20))
    report("live_second_1000_nodes", found["changed"], "ms", target=("<=", 50), kilobytes=found["bytes"])
    report("live_evaluation", found["evaluation"], "ms", target=("<=", 100))
    report("live_snapshot", found["snapshot"], "ms", target=("<=", 100), kilobytes=found["snapshot_bytes"])
    report("live_pods_of_a_workload", found["workload"], "ms", target=("<=", 1_000), pods=found["pods"])
    report("live_memory", found["memory"], "MiB", target=("<=", 150))


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measure()))
    else:
        main()
