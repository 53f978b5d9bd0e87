"""How long one round of the collector takes for 5,000 nodes and 150,000 pods, from Prometheus' bodies to messages."""

import argparse
import asyncio
import gc
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from equipoise.collector.measuring import Measuring
from equipoise.collector.placement import Fleet
from equipoise.collector.questions import Ask, Sample
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources.samples import Labels, read_document, result, vector
from equipoise.contracts.duration import Duration
from equipoise.contracts.objects import (
    Condition,
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from equipoise.contracts.settings import LoadSettings
from equipoise.runtime.memory.clock import ManualClock
from equipoise.runtime.program import collect_rarely

NOW = 1_800_000_000.0
SINCE = datetime.fromtimestamp(NOW - 90_000, UTC)
SIZES = {"cpu": "64", "memory": "256Gi", "pods": "110"}


class Bodies:
    """A metric source that reads the same bodies again and again, as they would come from Prometheus."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._labels = {
            "node": [f'"node":"n-{number}"' for number in range(nodes)],
            "pod": [
                f'"node":"n-{number % nodes}","namespace":"shop","pod":"web-{number}"' for number in range(nodes * pods)
            ],
        }
        self._bodies: dict[tuple[str, str], bytes] = {}
        self._labels = Labels(("node",))

    async def time(self) -> float:
        return NOW

    async def run(self) -> None:
        pass

    def cannot(self, question: Ask) -> str:
        return ""

    async def ask(self, question: Ask) -> list[Sample]:
        value = {"mean": "0.5", "count": "20"}.get(question.what, str(NOW))
        body = self._bodies.get((question.subject, value))
        if body is None:
            raise KeyError(f"no body was prepared for {question.subject} {question.what}")
        return vector(result(read_document(body), "vector"), question.subject, self._labels)

    def prepare(self) -> int:
        """Write the bodies; returns the bytes that one round reads."""
        for subject, value in (("node", "0.5"), ("node", "20"), ("node", str(NOW)), ("pod", "0.5"), ("pod", "20")):
            elements = ",".join(
                f'{{"metric":{{"job":"kubelet",{labels}}},"value":[{NOW},"{value}"]}}'
                for labels in self._labels[subject]
            )
            document = f'{{"status":"success","data":{{"resultType":"vector","result":[{elements}]}}}}'
            self._bodies[subject, value] = document.encode()
        return 2 * sum(map(len, self._bodies.values()))

    def close(self) -> None:
        self._bodies.clear()


def a_node(number: int, since: datetime = SINCE) -> Node:
    ready = Condition(type="Ready", status="True", last_transition_time=since)
    return Node(
        metadata=ObjectMeta(name=f"n-{number}", uid=f"node-{number}", creation_timestamp=since),
        status=NodeStatus(allocatable=SIZES, capacity=SIZES, conditions=[ready]),
    )


def a_pod(number: int, nodes: int, since: datetime = SINCE) -> Pod:
    owner = OwnerReference(
        api_version="apps/v1",
        kind="StatefulSet",
        name=f"web-{number % 5_000}",
        uid=f"{number % 5_000}",
        controller=True,
    )
    asked = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"})
    states = [Condition(type=kind, status="True", last_transition_time=since) for kind in ("PodScheduled", "Ready")]
    return Pod(
        metadata=ObjectMeta(name=f"web-{number}", namespace="shop", uid=f"pod-{number}", owner_references=[owner]),
        spec=PodSpec(node_name=f"n-{number % nodes}", containers=[Container(resources=asked)]),
        status=PodStatus(phase="Running", conditions=states, start_time=since),
    )


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Print the processor's seconds that a step takes and the memory of the process after it."""
    begun = time.process_time()
    yield
    seconds = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {what:40} {seconds:7.2f} s   {memory:6.0f} MiB at most")


async def measure(nodes: int, pods: int) -> None:
    """Print one line per step."""
    load, settings = LoadSettings(), CollectorSettings(scrape_interval=Duration(15))
    source, clock = Bodies(nodes, pods), ManualClock(NOW)
    size = source.prepare()
    fleet = Fleet(windows=[300.0], start_limit=600.0, memory=90_000.0, owner_of=lambda _: None, selector={})
    print(f"collector: {nodes} nodes with {pods} pods each; a round reads {size / 2**20:.0f} MiB")
    with measured("watched objects, first list"):
        for number in range(nodes):
            fleet.on_node(None, a_node(number))
        for number in range(nodes * pods):
            fleet.on_pod(None, a_pod(number, nodes), NOW)
    measuring = Measuring(settings=settings, load=load, source=source, fleet=fleet, clock=clock)
    with measured("one round of the shortest window"):
        assert await measuring.round(load.shortest), measuring.problem
    with measured("utilization of nodes, encoded"):
        told = [msgspec.json.encode(message) for message in measuring.node_messages(fleet.nodes, epoch=1, sequence=1)]
    assert len(told) == nodes, f"{len(told)} of {nodes} nodes are known"
    with measured("utilization of workloads, encoded"):
        told += [
            msgspec.json.encode(message)
            for message in measuring.workload_messages(measuring.workloads, epoch=1, sequence=1)
        ]
    with measured("placement of all nodes, encoded"):
        told += [msgspec.json.encode(fleet.placement(name)) for name in fleet.nodes]
    gc.collect()
    print(f"  all messages: {sum(map(len, told)) / 2**20:.0f} MiB")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nodes", type=int, default=5_000)
    arguments.add_argument("--pods", type=int, default=30, help="per node")
    asked = arguments.parse_args()
    collect_rarely()  # as every service does
    asyncio.run(measure(asked.nodes, asked.pods))


if __name__ == "__main__":
    main()
