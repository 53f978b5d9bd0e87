"""Objects by the hundred come to a replica that does not know yet what stands on them."""

import asyncio
from collections.abc import Collection, Iterable

import msgspec
from annotator.worlds import ROUND, SETTINGS, World
from builders import a_node_utilization

from equipoise.annotator.decisions.hashing import owner
from equipoise.annotator.service import READERS, RETRY_PERIOD, WRITE_LIMIT, WRITERS
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus.subjects import node_utilization
from equipoise.contracts.kubernetes.annotations import as_annotations, node_load
from equipoise.contracts.kubernetes.objects import Node, ObjectMeta
from equipoise.runtime.kubernetes.client import NODES
from equipoise.testbed.memory.faults import Call, Verb

AGO = 70.0
"""Seconds since what stands there was sampled: longer than the least interval."""

SLOW = msgspec.structs.replace(SETTINGS, writes_per_second=0.1)
"""Every writer has an object in hand and waits for its turn."""


class Requests:
    """When nodes were read and written."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[tuple[float, Call]] = []
        world.kube.on_call = self._note

    async def _note(self, call: Call) -> None:
        if call.resource == "nodes":
            self._made.append((self._world.clock.monotonic(), call))

    def of(self, verb: Verb) -> list[tuple[float, str]]:
        """Moment and node."""
        return [(moment, call.name) for moment, call in self._made if call.verb == verb]

    def most_in_a_second(self, verb: Verb) -> int:
        moments = [moment for moment, _ in self.of(verb)]
        return max(sum(first <= moment < first + 1 - 1e-6 for moment in moments) for first in moments)


def names(count: int) -> list[str]:
    return [f"node-{number}" for number in range(count)]


def stand(world: World, nodes: Iterable[str], cpu: float, ago: float = AGO) -> None:
    """Another replica wrote them."""
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


async def test_what_changed_among_thousands_is_written_within_the_minute_after_a_kill(world: World) -> None:
    """2,500 nodes, half of 5,000, of which 50 say something else than is so; and neither pace is exceeded.

    Of the minute 22 s are left when somebody takes over.
    """
    nodes = names(2_500)
    changed = {*nodes[::100], *nodes[1_201:1_226]}
    stand(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=AnnotatorSettings())
    await measured(world, nodes, changed)
    await world.clock.advance(22)
    assert {world.load_on(name) for name in changed} == {0.9}
    assert (requests.most_in_a_second("get"), requests.most_in_a_second("annotate")) == (150, 10)


async def test_a_change_waits_for_no_reads(world: World) -> None:
    """What this replica wrote itself is written again while 500 others wait for being looked at."""
    world.add_node("mine")
    await world.begin()
    await world.measured("mine", cpu=1.0)
    await world.clock.advance(AGO)
    others = names(500)
    stand(world, others, cpu=1.0)
    await measured(world, others)
    await world.measured("mine", cpu=9.0)
    await world.clock.advance(2)
    assert world.load_on("mine") == 0.9


async def test_those_who_share_the_objects_share_the_reads(world: World) -> None:
    """150 in any second, however many read; what one of them leaves is read as fast by the others."""
    requests = Requests(world)
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(2 * ROUND)
    nodes = names(1_800)
    stand(world, nodes, cpu=1.0)
    await measured(world, nodes)
    await world.clock.advance(6)
    assert len(requests.of("get")) > 750
    await world.end("annotator-2")
    await world.clock.advance(ROUND + 8)
    assert {name for _, name in requests.of("get")} == set(nodes)
    assert requests.most_in_a_second("get") <= 150


async def test_reads_go_on_while_all_writers_wait_for_their_turn(world: World) -> None:
    """Far more than can be written have changed; all are looked at all the same."""
    nodes = names(200)
    stand(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=SLOW)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(5)
    assert {name for _, name in requests.of("get")} == set(nodes)
    assert len(requests.of("annotate")) == 1


async def test_a_newer_value_that_was_written_while_a_write_waited_stays(world: World) -> None:
    """What was read and decided long before the turn is no ground for overwriting."""
    nodes = names(WRITERS)
    stand(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=SLOW)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(5)
    ((_, first),) = requests.of("annotate")
    stand(world, nodes, cpu=5.0, ago=0)
    await world.clock.advance(300)
    assert {world.load_on(name) for name in nodes} == {0.5}
    assert world.health["annotator-1"].problems == []
    assert world.writes_on(first) == 1


async def test_what_is_written_is_what_is_known_when_the_turn_comes(world: World) -> None:
    """Values go on while a write waits."""
    nodes = names(3)
    stand(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin(settings=SLOW)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(5)
    ((_, first),) = requests.of("annotate")
    second, third = (name for name in nodes if name != first)
    await world.measured(second, cpu=7.0)
    await world.measured(third, cpu=1.0)  # back where it was: nothing to write any more
    await world.clock.advance(60)
    assert [world.load_on(name) for name in (first, second, third)] == [0.9, 0.7, 0.1]
    assert world.writes == 2


async def test_what_becomes_another_replica_s_while_its_write_waits_is_left_to_that_one(world: World) -> None:
    """It was in hand, even read; each node is written once, by whose it is when its turn comes."""
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


async def test_who_lost_its_seat_does_not_write_what_it_has_in_hand(world: World) -> None:
    """Not even what waits for its turn only."""
    nodes = names(WRITERS)
    stand(world, nodes, cpu=1.0)
    await world.begin(settings=msgspec.structs.replace(SETTINGS, writes_per_second=1 / 40))
    await measured(world, nodes, changed=nodes)
    assert world.writes == 1
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.seat.lease_duration)
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(60)
    assert world.writes == 1


async def test_an_api_server_that_is_away_is_left_alone_by_reads_and_writes(world: World) -> None:
    """Who has something in hand asks once each five seconds at most; when it is back, all goes on at the old pace."""
    nodes = names(900)  # of which two thirds are not read yet when it goes away
    changed = set(nodes[::18])
    stand(world, nodes, cpu=1.0)
    requests = Requests(world)
    await world.begin()
    await measured(world, nodes, changed)
    await world.clock.advance(2)
    world.kube.refuse(resource="nodes", status=0)
    before = len(requests.of("get")), len(requests.of("annotate"))
    await world.clock.advance(2 * RETRY_PERIOD)
    during = len(requests.of("get")), len(requests.of("annotate"))
    assert 0 < sum(during) - sum(before) <= 2 * 3
    assert "does not take annotations" in world.health["annotator-1"].problems[0]
    world.kube.heal()
    await world.clock.advance(RETRY_PERIOD + 12)
    assert {world.load_on(name) for name in changed} == {0.9}
    assert world.health["annotator-1"].problems == []
    assert requests.most_in_a_second("annotate") <= 10
    assert requests.most_in_a_second("get") <= 150


async def test_one_request_without_answer_does_not_hold_up_the_others(world: World) -> None:
    """A read and a write hang; the other nodes are written."""
    nodes = names(20)
    stand(world, nodes, cpu=1.0)

    async def hang(call: Call) -> None:
        if (call.verb, call.name) in (("get", "node-0"), ("annotate", "node-1")):
            await asyncio.Event().wait()

    world.kube.on_call = hang
    await world.begin()
    await measured(world, nodes, changed=nodes)
    await world.clock.advance(3)
    assert [name for name in nodes if world.load_on(name) != 0.9] == ["node-0", "node-1"]


async def test_what_nobody_wrote_on_before_is_read_right_before_its_write(world: World) -> None:
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


async def test_who_had_lost_its_seat_meanwhile_looks_again_at_what_it_has_in_hand(world: World) -> None:
    """Another wrote on it in between: what was known before tells no more what stands there. A turn takes a minute."""
    nodes = names(WRITERS)
    stand(world, nodes, cpu=1.0)
    await world.begin(settings=msgspec.structs.replace(SETTINGS, writes_per_second=1 / 60))
    await measured(world, nodes, changed=nodes)
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.seat.lease_duration)
    stand(world, nodes, cpu=5.0, ago=0)
    world.kube.heal()
    for _ in range(2 * WRITERS + 4):
        await measured(world, nodes)
        await world.clock.advance(30)
    assert {world.load_on(name) for name in nodes} == {0.1}


async def test_a_webhook_that_is_down_holds_up_nothing_but_what_it_watches(world: World) -> None:
    """It makes the server answer 500 to every write on some objects; what changed elsewhere is written in time."""
    nodes = names(600)
    watched, changed = set(nodes[:10]), set(nodes[::30])
    stand(world, nodes, cpu=1.0)
    for name in watched:
        world.kube.refuse("annotate", status=500, name=name)
    await world.begin()
    await measured(world, nodes, changed | watched)
    await world.clock.advance(22)
    assert {world.load_on(name) for name in changed - watched} == {0.9}
    assert all(world.writes_on(name) == 1 for name in watched)
    world.kube.heal()
    await world.clock.advance(SETTINGS.nodes.least_interval)
    await measured(world, nodes, changed | watched)
    await world.clock.advance(2)
    assert {world.load_on(name) for name in watched} == {0.9}


async def test_what_gets_no_answer_goes_behind_what_changed_since(world: World) -> None:
    """A webhook that never answers: what it watches is tried once, then rests, and nothing else waits behind it."""
    watched, others = names(40), ["mine", "yours"]
    stand(world, [*watched, *others], cpu=1.0)

    async def hang(call: Call) -> None:
        if call.verb == "annotate" and call.name in watched:
            await asyncio.Event().wait()

    world.kube.on_call = hang
    await world.begin()
    await measured(world, [*watched, *others], changed=watched)
    await world.clock.advance(len(watched) / WRITERS * (WRITE_LIMIT + RETRY_PERIOD))
    assert all(world.writes_on(name) == 1 for name in watched)
    await measured(world, [*others, *watched], changed=[*watched, *others])
    await world.clock.advance(RETRY_PERIOD + 1)
    assert {world.load_on(name) for name in others} == {0.9}


async def test_a_server_that_never_answers_is_left_alone_too(world: World) -> None:
    """After as many requests as there may be at once, and it is told."""
    nodes = names(100)
    stand(world, nodes, cpu=1.0)
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
    await world.clock.advance(WRITE_LIMIT + RETRY_PERIOD - 1)
    assert len(requests.of("get")) - before == READERS
    assert "does not take annotations: no answer" in world.health["annotator-1"].problems[0]


async def test_a_server_that_does_not_know_us_is_left_alone(world: World) -> None:
    """A token that is refused is no fault of each object: when it is good again, none of them rests for a minute."""
    nodes = names(200)
    stand(world, nodes, cpu=1.0)
    await world.begin()
    world.kube.refuse(resource="nodes", status=401)
    await measured(world, nodes, changed=nodes[:20])
    await world.clock.advance(2 * RETRY_PERIOD)
    world.kube.heal()
    await world.clock.advance(RETRY_PERIOD + 5)
    assert {world.load_on(name) for name in nodes[:20]} == {0.9}


async def test_how_many_wait_is_told(world: World) -> None:
    """For being read and for their write, without those that are in hand; who lost its seat does nothing more."""
    nodes = names(WRITERS + READERS + 20)
    stand(world, nodes, cpu=1.0)
    slow = msgspec.structs.replace(SETTINGS, writes_per_second=0.01, reads_per_second=0.2)
    requests = Requests(world)
    await world.begin(settings=slow)
    await measured(world, nodes, changed=nodes)
    assert world.waiting() == (len(nodes) - READERS - 1, 0)  # one is read, and written
    await world.clock.advance(20 * 5)
    assert world.waiting() == (len(nodes) - READERS - 21, 20 - WRITERS - 1)
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.seat.lease_duration)
    assert world.waiting() == (0, 0)
    before = requests.of("get")
    await world.clock.advance(60)
    assert requests.of("get") == before


async def test_the_turn_of_a_node_that_was_replaced_is_the_next_one_s(world: World) -> None:
    """Another of its name was measured while its write waited: nothing is tried on the former any more."""
    nodes = names(3)
    stand(world, nodes, cpu=1.0)
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


async def test_an_object_is_in_one_hand_at_a_time(world: World) -> None:
    """What is measured while its write is under way waits until that has ended."""
    stand(world, ["node-a"], cpu=1.0)
    answered = asyncio.Event()

    async def hang(call: Call) -> None:
        if call.verb == "annotate":
            await answered.wait()

    world.kube.on_call = hang
    await world.begin()
    await world.measured(cpu=9.0)
    await world.clock.advance(1)
    await world.measured(cpu=5.0)
    await world.clock.advance(1)
    assert world.writes == 1
    answered.set()
    for _ in range(2):
        await world.clock.advance(SETTINGS.nodes.least_interval)
        await world.measured(cpu=5.0)
    assert (world.load_on(), world.writes) == (0.5, 2)


async def test_heartbeats_do_not_matter_where_ours_stands(world: World) -> None:
    """A write goes by our annotation there, however long it waits: each node is read once and written once."""
    nodes = names(100)
    stand(world, nodes, cpu=1.0)
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
