"""Hundreds of objects are taken over by a replica that does not know their existing values."""

import asyncio
from collections.abc import Collection, Iterable

import msgspec
from annotator.worlds import ROUND, SETTINGS, World
from builders import a_node_utilization

from equipoise.annotator.service import READERS, WRITERS
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus.subjects import node_utilization
from equipoise.contracts.hashing import owner
from equipoise.contracts.kubernetes.annotations import as_annotations, node_load
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.kubernetes.client import NODES
from equipoise.runtime.kubernetes.paced_requests import REQUEST_TIMEOUT, RETRY_PERIOD
from equipoise.testbed.memory.faults import Call, Verb

AGO = 70.0
"""Age of the existing sample in seconds: longer than the minimum interval."""

SLOW = msgspec.structs.replace(SETTINGS, writes_per_second=0.1)
"""Every writer has an object and waits."""


class Requests:
    """The times of reads and writes of nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[tuple[float, Call]] = []
        world.kube.on_call = self._note

    async def _note(self, call: Call) -> None:
        if call.resource == "nodes":
            self._made.append((self._world.clock.monotonic(), call))

    def of(self, verb: Verb) -> list[tuple[float, str]]:
        """Time and node."""
        return [(time, call.name) for time, call in self._made if call.verb == verb]

    def most_in_a_second(self, verb: Verb) -> int:
        times = [time for time, _ in self.of(verb)]
        return max(sum(first <= time < first + 1 - 1e-6 for time in times) for first in times)


def names(count: int) -> list[str]:
    return [f"node-{number}" for number in range(count)]


def write_existing(world: World, nodes: Iterable[str], cpu: float, ago: float = AGO) -> None:
    """As another replica has written them."""
    for name in nodes:
        load = node_load(a_node_utilization(name, cpu=cpu, sampled_at=world.clock.now() - ago))
        assert load is not None
        world.kube.put(NODES, Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}", annotations=as_annotations(load))))


async def measured(world: World, nodes: Iterable[str], changed: Collection[str] = ()) -> None:
    """One round of the collector: 10 % everywhere, 90 % on those that changed."""
    world.sequence += 1
    now = world.clock.now()
    for name in nodes:
        cpu = 9.0 if name in changed else 1.0
        message = a_node_utilization(name, cpu=cpu, sampled_at=now, queried_at=now, sequence=world.sequence)
        await world.bus.publish(node_utilization(name), message)
    await world.clock.advance(0)


async def test_changes_among_thousands_of_objects_are_written_within_a_minute_after_a_kill(world: World) -> None:
    """2,500 nodes (half of 5,000), of which 50 have changed; neither rate is exceeded.

    22 s of the minute are left when a replica takes over.
    """
    nodes = names(2_500)
    changed = {*nodes[::100], *nodes[1_201:1_226]}
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=AnnotatorSettings())
    await measured(world, nodes, changed)
    await world.clock.advance(22)
    assert {world.load_on(name) for name in changed} == {0.9}
    assert (requests.most_in_a_second("get"), requests.most_in_a_second("annotate")) == (150, 10)


async def test_a_change_does_not_wait_for_reads(world: World) -> None:
    """What this replica wrote itself is written again while 500 others wait to be read."""
    world.add_node("mine")
    await world.begin()
    await world.measured("mine", cpu=1.0)
    await world.clock.advance(AGO)
    others = names(500)
    write_existing(world, others, cpu=1.0)
    await measured(world, others)
    await world.measured("mine", cpu=9.0)
    await world.clock.advance(2)
    assert world.load_on("mine") == 0.9


async def test_replicas_share_the_rate_of_reads(world: World) -> None:
    """150 in any second, however many replicas read; the objects of a lost one are read as fast by the others."""
    requests = Requests(world)
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(2 * ROUND)
    nodes = names(1_800)
    write_existing(world, nodes, cpu=1.0)
    await measured(world, nodes)
    await world.clock.advance(6)
    assert len(requests.of("get")) > 750
    await world.end("annotator-2")
    await world.clock.advance(ROUND + 8)
    assert {name for _, name in requests.of("get")} == set(nodes)
    assert requests.most_in_a_second("get") <= 150


async def test_reads_continue_while_all_writers_wait(world: World) -> None:
    """Many more objects have changed than can be written; all are read all the same."""
    nodes = names(200)
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=SLOW)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(5)
    assert {name for _, name in requests.of("get")} == set(nodes)
    assert len(requests.of("annotate")) == 1


async def test_a_newer_value_written_while_a_write_waits_is_kept(world: World) -> None:
    """A decision from before does not overwrite it."""
    nodes = names(WRITERS)
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=SLOW)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(5)
    ((_, first),) = requests.of("annotate")
    write_existing(world, nodes, cpu=5.0, ago=0)
    await world.clock.advance(300)
    assert {world.load_on(name) for name in nodes} == {0.5}
    assert world.health["annotator-1"].problems == []
    assert world.writes_on(first) == 1


async def test_the_current_value_is_written_when_the_rate_allows_it(world: World) -> None:
    """New values arrive while a write waits."""
    nodes = names(3)
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=SLOW)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(5)
    ((_, first),) = requests.of("annotate")
    second, third = (name for name in nodes if name != first)
    await world.measured(second, cpu=7.0)
    await world.measured(third, cpu=1.0)  # its existing value: nothing to write
    await world.clock.advance(60)
    assert [world.load_on(name) for name in (first, second, third)] == [0.9, 0.7, 0.1]
    assert world.writes == 2


async def test_an_object_that_changes_its_owner_while_its_write_waits_is_written_by_the_new_owner(world: World) -> None:
    """Even when it was read already. Each node is written once."""
    nodes = names(40)
    for name in nodes:
        world.add_node(name)
    requests = Requests(world)
    slow = msgspec.structs.replace(SETTINGS, writes_per_second=0.5)
    await world.begin("annotator-1", slow)
    await measured(world, nodes)
    await world.begin("annotator-2", slow)
    await world.clock.advance(2 * ROUND)
    done = {name for _, name in requests.of("annotate")}
    both = {"annotator-1", "annotator-2"}
    theirs = [name for name in nodes if name not in done and owner(f"node/{name}", both) == "annotator-2"]
    before = world.written_by("annotator-2")
    for _ in range(10):
        await measured(world, nodes)
        await world.clock.advance(15)
    assert world.written_by("annotator-2") == before + len(theirs)
    assert world.writes == len(nodes)


async def test_a_replica_whose_lease_expired_cancels_waiting_writes(world: World) -> None:
    """Even those that only wait for the rate."""
    nodes = names(WRITERS)
    write_existing(world, nodes, cpu=1.0)
    await world.begin(settings=msgspec.structs.replace(SETTINGS, writes_per_second=1 / 40))
    await measured(world, nodes, changed=nodes)
    assert world.writes == 1
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.membership.lease_duration)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(60)
    assert world.writes == 1


async def test_reads_and_writes_are_suspended_while_the_api_server_is_down(world: World) -> None:
    """Only requests that have begun are repeated, once in five seconds. When it is back, all continue at the configured
    rates.
    """
    nodes = names(900)  # two thirds of them are not read yet when it goes down
    changed = set(nodes[::18])
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin()
    await measured(world, nodes, changed)
    await world.clock.advance(2)
    world.kube.refuse(resource="nodes", status=0)
    before = len(requests.of("get")), len(requests.of("annotate"))
    await world.clock.advance(2 * RETRY_PERIOD)
    during = len(requests.of("get")), len(requests.of("annotate"))
    assert 0 < sum(during) - sum(before) <= 2 * 3
    assert "does not accept annotations" in world.health["annotator-1"].problems[0]
    world.kube.clear_faults()
    await world.clock.advance(RETRY_PERIOD + 12)
    assert {world.load_on(name) for name in changed} == {0.9}
    assert world.health["annotator-1"].problems == []
    assert requests.most_in_a_second("annotate") <= 10
    assert requests.most_in_a_second("get") <= 150


async def test_a_request_without_a_response_does_not_block_the_others(world: World) -> None:
    """A read and a write hang; the other nodes are written."""
    nodes = names(20)
    write_existing(world, nodes, cpu=1.0)

    async def hang(call: Call) -> None:
        if (call.verb, call.name) in (("get", "node-0"), ("annotate", "node-1")):
            await asyncio.Event().wait()

    world.kube.on_call = hang
    await world.begin()
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(3)
    assert [name for name in nodes if world.load_on(name) != 0.9] == ["node-0", "node-1"]


async def test_an_object_without_a_value_is_read_right_before_its_write(world: World) -> None:
    """Each node's status changes every ten seconds, and 300 first writes take half a minute: few of them conflict."""
    nodes = names(300)
    for name in nodes:
        world.add_node(name)
    await world.begin()
    await measured(world, nodes)
    for second in range(45):
        for node in world.kube.stored(NODES)[second % 10 :: 10]:
            beat = msgspec.structs.replace(node.metadata, labels={"beat": str(second)})
            world.kube.put(NODES, msgspec.structs.replace(node, metadata=beat))
        await world.clock.advance(1)
    assert {world.load_on(name) for name in nodes} == {0.1}
    assert world.writes <= 1.1 * len(nodes)


async def test_a_replica_that_lost_its_lease_reads_its_objects_again(world: World) -> None:
    """Another replica wrote them in the meantime. A write takes a minute here."""
    nodes = names(WRITERS)
    write_existing(world, nodes, cpu=1.0)
    await world.begin(settings=msgspec.structs.replace(SETTINGS, writes_per_second=1 / 60))
    await measured(world, nodes, changed=nodes)
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.membership.lease_duration)
    write_existing(world, nodes, cpu=5.0, ago=0)
    world.kube.clear_faults()
    for _ in range(2 * WRITERS + 4):
        await measured(world, nodes)
        await world.clock.advance(30)
    assert {world.load_on(name) for name in nodes} == {0.1}


async def test_a_webhook_that_is_down_only_blocks_its_own_objects(world: World) -> None:
    """The API server responds 500 to every write of some objects; changes of others are written in time."""
    nodes = names(600)
    watched, changed = set(nodes[:10]), set(nodes[::30])
    write_existing(world, nodes, cpu=1.0)
    for name in watched:
        world.kube.refuse("annotate", status=500, name=name)
    await world.begin()
    await measured(world, nodes, changed | watched)
    await world.clock.advance(22)
    assert {world.load_on(name) for name in changed - watched} == {0.9}
    assert all(world.writes_on(name) == 1 for name in watched)
    world.kube.clear_faults()
    await world.clock.advance(SETTINGS.nodes.min_interval)
    await measured(world, nodes, changed | watched)
    await world.clock.advance(2)
    assert {world.load_on(name) for name in watched} == {0.9}


async def test_an_object_without_a_response_is_in_backoff(world: World) -> None:
    """A webhook that never responds: its objects are tried once, and no other object waits for them."""
    watched, others = names(40), ["mine", "yours"]
    write_existing(world, [*watched, *others], cpu=1.0)

    async def hang(call: Call) -> None:
        if call.verb == "annotate" and call.name in watched:
            await asyncio.Event().wait()

    world.kube.on_call = hang
    await world.begin()
    await measured(world, [*watched, *others], changed=watched)
    await world.clock.advance(len(watched) / WRITERS * (REQUEST_TIMEOUT + RETRY_PERIOD))
    assert all(world.writes_on(name) == 1 for name in watched)
    await measured(world, [*others, *watched], changed=[*watched, *others])
    await world.clock.advance(RETRY_PERIOD + 1)
    assert {world.load_on(name) for name in others} == {0.9}


async def test_requests_are_suspended_when_the_api_server_never_responds(world: World) -> None:
    """After as many requests as there are readers; the problem is reported."""
    nodes = names(100)
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin()
    await measured(world, nodes)
    note = world.kube.on_call
    assert note is not None

    async def hang(call: Call) -> None:
        await note(call)
        if call.resource == "nodes":
            await asyncio.Event().wait()

    world.kube.on_call = hang
    before = len(requests.of("get"))
    await world.clock.advance(REQUEST_TIMEOUT + RETRY_PERIOD - 1)
    assert len(requests.of("get")) - before == READERS
    assert "does not accept annotations: no response" in world.health["annotator-1"].problems[0]


async def test_requests_are_suspended_while_our_token_is_refused(world: World) -> None:
    """No single object is in backoff for it: all continue when the token is valid again."""
    nodes = names(200)
    write_existing(world, nodes, cpu=1.0)
    await world.begin()
    world.kube.refuse(resource="nodes", status=401)
    await measured(world, nodes, changed=nodes[:20])
    await world.clock.advance(2 * RETRY_PERIOD)
    world.kube.clear_faults()
    await world.clock.advance(RETRY_PERIOD + 5)
    assert {world.load_on(name) for name in nodes[:20]} == {0.9}


async def test_the_lengths_of_the_queues_are_metrics(world: World) -> None:
    """Without the objects that are being read or written; empty when the Lease expired."""
    nodes = names(WRITERS + READERS + 20)
    write_existing(world, nodes, cpu=1.0)
    slow = msgspec.structs.replace(SETTINGS, writes_per_second=0.01, reads_per_second=0.2)
    requests = Requests(world)
    await world.begin(settings=slow)
    await measured(world, nodes, changed=nodes)
    assert world.waiting() == (len(nodes) - READERS - 1, 0)  # one is read, and written
    await world.clock.advance(20 * 5)
    assert world.waiting() == (len(nodes) - READERS - 21, 20 - WRITERS - 1)
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.membership.lease_duration)
    assert world.waiting() == (0, 0)
    before = requests.of("get")
    await world.clock.advance(60)
    assert requests.of("get") == before


async def test_a_replaced_node_does_not_use_up_a_write(world: World) -> None:
    """A node of the same name was measured while the write waited: nothing is sent for the former one."""
    nodes = names(3)
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=SLOW)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(5)
    ((_, first),) = requests.of("annotate")
    second, third = (name for name in nodes if name != first)
    world.add_node(second, uid="new")
    await world.measured(second, cpu=5.0, uid="new")
    await world.clock.advance(30)
    assert [name for _, name in requests.of("annotate")] == [first, third, second]
    assert world.load_on(second) == 0.5


async def test_an_object_is_written_by_one_task_at_a_time(world: World) -> None:
    """A value that arrives during its write waits until that has ended."""
    write_existing(world, ["node-a"], cpu=1.0)
    responded = asyncio.Event()

    async def hang(call: Call) -> None:
        if call.verb == "annotate":
            await responded.wait()

    world.kube.on_call = hang
    await world.begin()
    await world.measured(cpu=9.0)
    await world.clock.advance(1)
    await world.measured(cpu=5.0)
    await world.clock.advance(1)
    assert world.writes == 1
    responded.set()
    for _ in range(2):
        await world.clock.advance(SETTINGS.nodes.min_interval)
        await world.measured(cpu=5.0)
    assert (world.load_on(), world.writes) == (0.5, 2)


async def test_heartbeats_cause_no_conflict_when_the_object_has_our_value(world: World) -> None:
    """The precondition of the write is our annotation: each node is read once and written once."""
    nodes = names(100)
    write_existing(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin()
    await measured(world, nodes, changed=nodes)
    for second in range(12):
        for node in world.kube.stored(NODES):
            beat = msgspec.structs.replace(node.metadata, labels={"beat": str(second)})
            world.kube.put(NODES, msgspec.structs.replace(node, metadata=beat))
        await world.clock.advance(1)
    assert {world.load_on(name) for name in nodes} == {0.9}
    assert (len(requests.of("get")), len(requests.of("annotate"))) == (100, 100)
