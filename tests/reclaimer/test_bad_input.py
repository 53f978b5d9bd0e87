"""Inputs that are wrong: nothing counts as 0, no service ends, and bound pods keep what they request."""

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import GIB, a_node_utilization, a_placement
from msgspec.structs import replace
from reclaimer.worlds import NODE, World, a_batch_pod

from equipoise.contracts.bus.subjects import node_placement, node_utilization
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.values.resources import Resources
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.runtime.configuration import ConfigurationError, load_configuration
from equipoise.runtime.kubernetes.client import NODES

BATCH_CPU = "kubernetes.io/batch-cpu"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.bus:
        yield world
        await world.end()


async def test_half_of_the_nodes_without_samples(world: World) -> None:
    """The other one offers as before."""
    other = "node-b"
    status = world.kube.stored(NODES)[0].status
    world.kube.put(NODES, Node(metadata=ObjectMeta(name=other, uid=f"uid-{other}"), status=status))
    await world.begin()
    for number in range(30):
        await world.placed()
        await world.bus.publish(node_placement(other), a_placement(other, sequence=number))
        await world.measured()
        if number < 8:
            now = world.clock.now()
            same = Resources(cpu=2.0, memory=8 * GIB)
            times = {"sampled_at": now, "queried_at": now, "sequence": number}
            message = a_node_utilization(other, cpu=2.0, memory=8 * GIB, system=same, **times)
            await world.bus.publish(node_utilization(other), message)
        await world.clock.advance(60)
    latest: dict[str, ReclaimedNode] = {message.node: message for message in world.received}
    assert latest[NODE].bands["batch"].offered.cpu == pytest.approx(4.0)
    assert not latest[NODE].degraded
    assert latest[other].bands["batch"].offered.cpu == 0
    assert "s old" in latest[other].degraded


@pytest.mark.parametrize("cpu", [math.nan, math.inf, -5.0, 1e9, 1e39, 1e300])
async def test_absurd_usage_keeps_amounts_within_the_node(cpu: float, world: World) -> None:
    """Also after it, and the service goes on."""
    pod = a_batch_pod(cpu=1.0)
    await world.begin(mode="enforce")
    await world.rounds(10, pod)
    for _ in range(5):
        await world.rounds(1, pod, cpu=cpu)
        assert 1_000 <= world.status[BATCH_CPU] <= 4_000, "what was offered before"
    await world.rounds(10, pod)
    assert 1_000 <= world.status[BATCH_CPU] <= 10_000
    assert not world.health.problems


async def test_a_node_that_becomes_smaller(world: World) -> None:
    """From 10 cores to 2: the amount follows at once, and a larger reservation counts as used."""
    await world.begin(mode="enforce")
    await world.rounds(10)
    assert world.status[BATCH_CPU] == 4_000
    node = world.kube.stored(NODES)[0]
    smaller = {name: "2" if name == "cpu" else text for name, text in node.status.capacity.items()}
    world.kube.put(NODES, replace(node, status=replace(node.status, capacity=smaller, allocatable=smaller)))
    capacity = Resources(cpu=2.0, memory=64 * GIB)
    for _ in range(3):
        await world.placed(capacity=capacity, allocatable=capacity)
        await world.measured(cpu=0.5)
        await world.clock.advance(60)
    assert 0 <= world.status[BATCH_CPU] <= 2_000


@pytest.mark.parametrize("key", ["cpuThreshold", "memoryThreshold", "batchCpuCap"])
@pytest.mark.parametrize("value", [101, -1, "all"])
@pytest.mark.parametrize("section", ["strategy", "nodes.alpha"])
def test_a_threshold_above_100_is_refused(key: str, value: object, section: str, tmp_path: Path) -> None:
    """And one below 0. The error names the key."""
    own: dict[str, Any] = {key: value}
    for name in reversed(section.split(".")):
        own = {name: own}
    file = tmp_path / "configuration.yaml"
    header = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration"}
    file.write_text(yaml.safe_dump(header | {"reclaimer": own}))
    with pytest.raises(ConfigurationError, match=key):
        load_configuration(file, "reclaimer", ReclaimerSettings, {})
