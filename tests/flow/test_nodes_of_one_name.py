"""Nodes that have the same name one after another: messages may be late, repeated and reordered."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from builders import NOW, a_node_utilization, a_placed_pod, a_placement
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.annotation_target import is_newer
from equipoise.annotator.state.crane_hot_values import HotValues, PlacedTimes, PodPlacedAt
from equipoise.binder.state.cluster_state import ClusterState
from equipoise.cli.views.nodes import KnownNode
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.demand import WATER_LEVEL
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.descheduler.state.latest_messages import LatestMessages, with_recent_pods
from equipoise.reclaimer.state.latest_nodes import LatestNodes
from equipoise.scorer.decisions.node_messages import latest_messages
from equipoise.scorer.state.node_table import NodeTable

NAME = "node-a"


def in_descheduler(placements: Iterable[NodePlacement], utilizations: Iterable[NodeUtilization]) -> str:
    messages = LatestMessages()
    for utilization in utilizations:
        messages.on_utilization(utilization, NOW)
    for placement in placements:
        messages.on_placement(with_recent_pods(placement, -math.inf), NOW)
    return kept(messages.placements.get(NAME), messages.utilizations.get(NAME))


def in_binder(placements: Iterable[NodePlacement], utilizations: Iterable[NodeUtilization]) -> str:
    cluster = ClusterState(LoadSettings())
    for utilization in utilizations:
        cluster.on_utilization(utilization, NOW)
    for placement in placements:
        cluster.on_placement(placement, NOW)
    assert {cluster.snapshot.name(row) for row in cluster.snapshot.rows} == set(cluster.placements)
    return next((kept(node.placement, node.utilization) for node in cluster.nodes.values()), "")


def in_scorer(placements: Iterable[NodePlacement], utilizations: Iterable[NodeUtilization]) -> str:
    table = NodeTable(LoadSettings(), WATER_LEVEL)
    for utilization in utilizations:
        table.on_utilization(utilization, NOW)
    for placement in placements:
        table.on_placement(placement, NOW)
    utilization, latest = latest_messages(table.messages, NAME)
    return kept(latest, utilization)


def in_reclaimer(placements: Iterable[NodePlacement], utilizations: Iterable[NodeUtilization]) -> str:
    nodes = LatestNodes(started_at=NOW)
    for utilization in utilizations:
        nodes.on_utilization(utilization, NOW)
    for placement in placements:
        nodes.on_placement(placement, NOW)
    if not nodes.names:
        return ""
    node = nodes.observed(NAME, "observe", NOW)
    return f"{node.placement.pods[0].name} {node.sampled_at}"


def in_live_view(placements: Iterable[NodePlacement], utilizations: Iterable[NodeUtilization]) -> str:
    node = KnownNode(NAME, NOW)
    for utilization in utilizations:
        node.measure(utilization, NOW)
    for placement in placements:
        node.place(placement, NOW)
    return f"{next(node.pods()).pod} {node.facts()['sampledAt']}"


def in_annotator(placements: Iterable[NodePlacement], utilizations: Iterable[NodeUtilization]) -> str:
    latest: NodeUtilization | None = None
    for utilization in utilizations:
        if latest is None or is_newer(utilization, latest, NOW):
            latest = utilization
    *_, newest = sorted(placements, key=lambda placement: (placement.created_at, placement.epoch, placement.sequence))
    return kept(newest, latest)


SUBSCRIBERS = (in_descheduler, in_binder, in_scorer, in_reclaimer, in_live_view, in_annotator)
THAT_KEEP_REMOVALS = (in_descheduler, in_binder, in_scorer, in_reclaimer)


def kept(placement: NodePlacement | None, utilization: NodeUtilization | None) -> str:
    """The pod of the placement, and the sample of the same node."""
    if placement is None:
        return ""
    same = utilization is not None and utilization.uid == placement.uid
    return f"{placement.pods[0].name} {utilization.sampled_at if utilization is not None and same else None}"


class Messages(NamedTuple):
    """In the order in which they were published, with what they end in."""

    placements: list[NodePlacement]
    utilizations: list[NodeUtilization]
    end: str


@st.composite
def messages(draw: st.DrawFn, *, removals: bool) -> Messages:
    """Of two to four nodes. The collector of each has its own epochs."""
    found = Messages([], [], "")
    nodes = draw(st.integers(2, 4))
    for number in range(nodes):
        uid, created_at = f"uid-{number}", NOW - 10_000 + 1_000 * number
        placed: NodePlacement | None = None
        orders = sorted(draw(st.sets(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=3)))
        for epoch, sequence in orders:
            at = created_at + 100 * epoch + sequence
            fields = {"uid": uid, "epoch": epoch, "sequence": sequence}
            pod = a_placed_pod(f"{uid}-{epoch}-{sequence}")
            placed = a_placement(NAME, [pod], created_at=created_at, **fields)
            found.placements.append(placed)
            found.utilizations.append(a_node_utilization(NAME, sampled_at=at, queried_at=at, **fields))
        removed = removals and draw(st.booleans())
        if removed:
            found.placements.append(
                a_placement(NAME, uid=uid, created_at=created_at, epoch=6, sequence=1, removed=True)
            )
    return found._replace(end="" if removed else kept(placed, found.utilizations[-1]))


@st.composite
def deliveries(draw: st.DrawFn, *, removals: bool) -> Messages:
    """Each message once or more, in any order."""
    placements, utilizations, end = draw(messages(removals=removals))
    placements += draw(st.lists(st.sampled_from(placements), max_size=3))
    utilizations += draw(st.lists(st.sampled_from(utilizations), max_size=3))
    return Messages(draw(st.permutations(placements)), draw(st.permutations(utilizations)), end)


def ends(
    of: Iterable[Callable[[Iterable[NodePlacement], Iterable[NodeUtilization]], str]], given: Messages
) -> set[str]:
    return {subscriber(given.placements, given.utilizations) for subscriber in of}


@given(deliveries(removals=False))
def test_every_subscriber_ends_with_the_newest_node(delivered: Messages) -> None:
    """And its last messages, whatever the epochs of the collectors of earlier nodes were."""
    assert ends(SUBSCRIBERS, delivered) == {delivered.end}


@given(deliveries(removals=True))
def test_a_late_message_brings_no_removed_node_back(delivered: Messages) -> None:
    """Nor does the late removal of an earlier node remove the newest one."""
    assert ends(THAT_KEEP_REMOVALS, delivered) == {delivered.end}


def test_a_creation_time_of_the_future_keeps_no_deleted_node() -> None:
    """It was written while a clock was ahead: the message that arrives last counts, unless it is a removal."""
    pods = [a_placed_pod("old")], [a_placed_pod("new")]
    wrong = a_placement(NAME, pods[0], uid="old", created_at=NOW + 31_536_000, epoch=9)
    right = a_placement(NAME, pods[1], uid="new", created_at=NOW - 60)
    removal = a_placement(NAME, uid="old", created_at=NOW + 31_536_000, epoch=9, sequence=2, removed=True)
    end = "new None"

    for subscriber in THAT_KEEP_REMOVALS:
        assert subscriber([wrong, right], []) == end
        assert subscriber([wrong, removal, right], []) == end
        assert subscriber([wrong, right, removal], []) == end


def test_a_removal_without_a_creation_time_removes_only_its_own_node() -> None:
    """Collectors of earlier versions publish none."""
    node = a_placement(NAME, [a_placed_pod("new")], uid="new", created_at=NOW - 60)

    def removal(uid: str) -> NodePlacement:
        return NodePlacement(node=NAME, uid=uid, removed=True, epoch=9, sequence=9)

    for subscriber in THAT_KEEP_REMOVALS:
        assert subscriber([node, removal("old")], []) == "new None"
        assert subscriber([node, removal("new")], []) == ""
        assert subscriber([removal("old"), node], []) == "new None"


def test_a_query_of_the_future_keeps_no_deleted_node() -> None:
    """It was made while a clock was ahead."""
    wrong = a_node_utilization(NAME, uid="old", sampled_at=NOW, queried_at=NOW + 31_536_000, epoch=9)
    right = a_node_utilization(NAME, uid="new", sampled_at=NOW - 5)
    node = a_placement(NAME, [a_placed_pod("web")], uid="new")

    assert ends(SUBSCRIBERS, Messages([node], [wrong, right], "")) == {f"web {NOW - 5}"}


def test_hot_values_are_those_of_the_newest_node() -> None:
    values = HotValues()
    pods = [a_placed_pod(f"web-{number}", placed_at=NOW - 10) for number in range(50)]
    for placement in (
        a_placement(NAME, pods, uid="old", epoch=9), a_placement(NAME, uid="new", created_at=NOW - 60),
        a_placement(NAME, pods, uid="old", epoch=10), a_placement(NAME, uid="old", epoch=11, removed=True),
    ):  # fmt: skip
        times = [PodPlacedAt(placed_at=pod.placed_at) for pod in placement.pods]
        values.on_placement(converted(placement, PlacedTimes, pods=times), NOW)
    assert values.of(NAME, NOW) == 0


def test_the_utilization_of_an_earlier_node_is_not_that_of_the_new_one() -> None:
    """The new node is not measured yet: an amount of the earlier one would have the age of its last sample."""
    old = a_placement(NAME, [a_placed_pod("old")], uid="old")
    new = a_placement(NAME, [a_placed_pod("new")], uid="new", created_at=NOW - 60)

    assert ends(THAT_KEEP_REMOVALS, Messages([old, new], [a_node_utilization(NAME, uid="old")], "")) == {"new None"}
