"""What `equipoise doctor` finds about nodes with the taint of consolidation."""

from builders import NOW, nodes_being_emptied

from equipoise.cli.doctor.checks.evictions.emptied_nodes import emptied_nodes, taint_findings
from equipoise.cli.doctor.environment import Environment
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.kubernetes.nodes.consolidation_taint import CONSOLIDATION, consolidation_taint
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, Taint
from equipoise.runtime.kubernetes.client import NODES
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

OURS = consolidation_taint(NOW - 3_600)
FOREIGN = Taint(key="dedicated", value="db", effect="NoSchedule")
STRICT = Taint(key=CONSOLIDATION, effect="NoSchedule")


def a_node(name: str, *taints: Taint) -> Node:
    return Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=NodeSpec(taints=[FOREIGN, *taints]))


def an_environment(*nodes: Node, nats_problem: str = "no server") -> Environment:
    kube = MemoryKube(ManualClock())
    for node in nodes:
        kube.put(NODES, node)
    return Environment(settings=AllSettings(), clock=ManualClock(NOW), kube=kube, nats_problem=nats_problem)


def test_a_left_over_taint_is_named_with_the_command_that_removes_it() -> None:
    emptied = {node.uid: node for node in nodes_being_emptied("a").nodes}
    ok, left = taint_findings([a_node("a", OURS), a_node("b", OURS)], emptied)

    assert (ok.state, ok.message) == ("ok", "1 node being emptied")
    assert (left.state, left.subject) == ("warning", "node b")
    assert "being emptied by consolidation since 2027-01-15 07:00 UTC" in left.message
    assert left.fix == "if the taint remains: kubectl taint nodes b equipoise.dev/consolidation:PreferNoSchedule-"


def test_a_taint_with_the_key_and_another_effect_is_named_also_while_the_node_is_emptied() -> None:
    """Nobody but the one who wrote it removes it."""
    emptied = {node.uid: node for node in nodes_being_emptied("a").nodes}
    _, finding = taint_findings([a_node("a", OURS, STRICT)], emptied)

    assert (finding.state, finding.subject) == ("warning", "node a")
    assert finding.fix == "kubectl taint nodes a equipoise.dev/consolidation:NoSchedule-"


async def test_without_such_a_taint_the_bus_is_not_needed() -> None:
    (finding,) = await emptied_nodes(an_environment(a_node("a")))

    assert finding.state == "ok"


async def test_without_the_bus_it_is_unknown_whether_a_taint_is_left_over() -> None:
    (finding,) = await emptied_nodes(an_environment(a_node("a", OURS)))

    assert finding.state == "unknown"
    assert finding.message.startswith("a with the taint")
    assert finding.message.endswith("no server")
