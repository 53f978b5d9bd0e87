"""The taint of nodes that are being emptied, with bus, API server and clock of memory."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from annotator.worlds import ROUND, World
from builders import nodes_being_emptied

from equipoise.annotator.shell.taint_writer import CHECK_PERIOD, LONGEST_BACKOFF, READ_PERIOD
from equipoise.contracts.bus.subjects import NODES_EMPTYING
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint, is_consolidation
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, Taint
from equipoise.runtime.kubernetes.client import NODES
from equipoise.testbed.memory.faults import Call

FOREIGN = Taint(key="dedicated", value="db", effect="NoSchedule")
VALIDITY = 600.0
SOON = CHECK_PERIOD + 1


class EmptyingWorld(World):
    """Nodes with a taint of somebody else."""

    def put(self, name: str = "node-a", *taints: Taint, uid: str = "") -> None:
        metadata = ObjectMeta(name=name, uid=uid or f"uid-{name}")
        self.kube.put(NODES, Node(metadata=metadata, spec=NodeSpec(taints=[FOREIGN, *taints])))

    async def publish(self, *names: str, uid: str = "") -> None:
        """What the descheduler publishes now."""
        now = self.clock.now()
        fields = {"uid": uid} if uid else {}
        await self.bus.publish(NODES_EMPTYING, nodes_being_emptied(*names, at=now, validity=VALIDITY, **fields))
        await self.clock.advance(SOON)

    def taints(self, name: str = "node-a") -> list[Taint]:
        return next(node.spec.taints for node in self.kube.stored(NODES) if node.metadata.name == name)

    def tainted(self) -> set[str]:
        nodes = self.kube.stored(NODES)
        return {node.metadata.name for node in nodes if any(map(is_consolidation, node.spec.taints))}

    @property
    def requests(self) -> int:
        return sum(call.resource == "nodes" for call in self.kube.calls)

    def problems(self, identity: str = "annotator-1") -> str:
        return "; ".join(self.health[identity].report().problems)


@pytest.fixture
async def world() -> AsyncIterator[EmptyingWorld]:
    world = EmptyingWorld()
    for name in ("node-a", "node-b"):
        world.put(name)
    yield world
    for identity in list(world.running):
        await world.end(identity)


async def test_nodes_that_are_being_emptied_have_the_taint_until_they_are_not(world: EmptyingWorld) -> None:
    """Other taints stay."""
    await world.begin()
    since = world.clock.now()
    await world.publish("node-a")
    assert world.taints("node-a") == [FOREIGN, consolidation_taint(since)]
    assert world.taints("node-b") == [FOREIGN]

    await world.publish("node-b")
    assert world.tainted() == {"node-b"}

    await world.publish()
    assert world.taints("node-a") == world.taints("node-b") == [FOREIGN]


async def test_the_taint_is_removed_when_nothing_is_published_any_more(world: EmptyingWorld) -> None:
    """The descheduler ended, or its mode is off."""
    await world.begin()
    await world.publish("node-a")
    await world.clock.advance(VALIDITY - 2 * SOON)
    assert world.tainted() == {"node-a"}

    await world.clock.advance(2 * SOON)
    assert world.tainted() == set()


async def test_a_new_node_of_the_name_gets_no_taint(world: EmptyingWorld) -> None:
    await world.begin()
    await world.publish("node-a", uid="the-node-before")

    assert world.tainted() == set()


async def test_without_a_node_to_empty_no_node_is_read(world: EmptyingWorld) -> None:
    await world.begin()
    await world.publish()
    await world.clock.advance(READ_PERIOD)

    assert world.requests == 0


async def test_a_node_that_is_deleted_meanwhile_is_no_problem(world: EmptyingWorld) -> None:
    """The autoscaler removes it: that is the aim."""
    await world.begin()
    await world.publish("node-a", "node-b")
    world.kube.remove(NODES, "node-a")
    await world.clock.advance(READ_PERIOD + SOON)

    assert world.problems() == ""
    assert world.tainted() == {"node-b"}


async def test_a_taint_that_somebody_removed_is_written_again(world: EmptyingWorld) -> None:
    await world.begin()
    await world.publish("node-a")
    world.put("node-a")
    await world.clock.advance(READ_PERIOD + SOON)

    assert world.tainted() == {"node-a"}


async def test_a_taint_that_was_left_over_is_removed_after_the_start(world: EmptyingWorld) -> None:
    """The annotator finds it when it reads the node for its annotation."""
    world.put("node-a", consolidation_taint(world.clock.now() - 86_400))
    await world.begin()
    await world.measured("node-a")
    await world.clock.advance(SOON + 1)

    assert world.taints("node-a") == [FOREIGN]


async def test_a_restart_keeps_the_taints_that_are_valid(world: EmptyingWorld) -> None:
    """Not even for a moment: a pod could be placed there."""
    await world.begin()
    since = world.clock.now()
    await world.publish("node-a")
    await world.end("annotator-1")
    writes = world.written_by("annotator-1")
    await world.begin("annotator-2")
    await world.measured("node-a")
    await world.clock.advance(READ_PERIOD)

    assert writes == 1
    assert world.taints("node-a") == [FOREIGN, consolidation_taint(since)]
    assert sum(call.verb == "taint" for call in world.kube.calls) == 1


async def test_a_node_that_changes_meanwhile_is_read_again(world: EmptyingWorld) -> None:
    """So the taint that another program adds between reading and writing is kept."""
    other = Taint(key="other", effect="NoExecute")
    await world.begin()
    writes = 0

    async def write_before(call: Call) -> None:
        nonlocal writes
        if call.verb == "taint":
            writes += 1
            if writes == 1:
                world.put("node-a", other)

    world.kube.on_call = write_before
    await world.publish("node-a")

    assert world.taints("node-a")[:2] == [FOREIGN, other]
    assert world.tainted() == {"node-a"}
    assert (writes, world.problems()) == (2, "")


async def test_what_the_api_server_refuses_is_a_problem_and_tried_again(world: EmptyingWorld) -> None:
    """The permission may be missing only until it is applied. Other nodes get their taints."""
    await world.begin()
    world.kube.fail_next("taint", status=422, message="denied by a policy", name="node-a", times=None)
    await world.publish("node-a", "node-b")
    assert world.tainted() == {"node-b"}
    assert "node node-a cannot be written" in world.problems()

    world.kube.clear_faults()
    await world.clock.advance(2 * CHECK_PERIOD + SOON)
    assert world.tainted() == {"node-a", "node-b"}
    assert world.problems() == ""


async def test_a_removal_that_fails_is_tried_again_until_it_succeeds(world: EmptyingWorld) -> None:
    await world.begin()
    await world.publish("node-a")
    world.kube.fail_next("taint", status=500, message="etcd", times=None)
    await world.publish()
    await world.clock.advance(LONGEST_BACKOFF)
    assert world.tainted() == {"node-a"}

    world.kube.clear_faults()
    await world.clock.advance(LONGEST_BACKOFF + SOON)
    assert world.tainted() == set()


async def test_a_node_that_cannot_be_read_is_a_problem_of_this_node_only(world: EmptyingWorld) -> None:
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", uid="uid-node-a", unreadable="spec.taints")))
    await world.begin()
    await world.publish("node-a", "node-b")

    assert world.tainted() == {"node-b"}
    assert "node-a" in world.problems()


async def test_each_node_is_written_by_one_replica_and_by_the_other_after_its_end(world: EmptyingWorld) -> None:
    names = [f"node-{number}" for number in range(20)]
    for name in names:
        world.put(name)
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(3 * ROUND)
    await world.publish(*names)
    await world.clock.advance(READ_PERIOD)
    written = [world.written_by(f"annotator-{number}") for number in (1, 2)]
    assert sum(written) == 20
    assert min(written) > 0

    await world.end("annotator-1")
    await world.publish()
    await world.clock.advance(4 * ROUND)
    assert world.tainted() == set()


async def test_a_taint_with_another_effect_is_not_touched(world: EmptyingWorld) -> None:
    """A person wrote it, to keep all pods away."""
    strict = msgspec.structs.replace(consolidation_taint(world.clock.now()), effect="NoSchedule")
    world.put("node-a", strict)
    await world.begin()
    await world.publish("node-a")
    await world.publish()

    assert world.taints("node-a") == [FOREIGN, strict]
