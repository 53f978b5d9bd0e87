"""The pods of other shards, from the messages of their collectors."""

import msgspec
import pytest
from builders import NOW

from equipoise.collector.state.other_shards import OtherShards, PublishedPods
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.utilization import NODE_UTILIZATION, NodeUtilization
from equipoise.contracts.messages.values.resources import Resources

USED = Resources(cpu=0.5)


def a_message(**fields: object) -> PublishedPods:
    defaults = {"node": "a", "uid": "u", "sampled_at": NOW - 5, "queried_at": NOW, "pods": {"p": USED}, "epoch": 1}
    return PublishedPods(sequence=1, **(defaults | fields))  # type: ignore[arg-type]


def pods(others: OtherShards, now: float = NOW, uid: str = "u") -> object:
    message = others.pods("a", uid, now)
    return None if message is None else message.pods


def test_the_usage_of_a_node_is_that_of_its_latest_message() -> None:
    """A late one is dropped."""
    others = OtherShards(180.0)
    assert others.on_utilization(a_message(epoch=2), NOW)
    assert not others.on_utilization(a_message(pods={}), NOW)
    assert {"p": USED} == pods(others)


@pytest.mark.parametrize(("now", "uid"), [(NOW + 176, "u"), (NOW, "another")])
def test_old_usage_and_that_of_another_node_of_the_same_name_is_unknown(now: float, uid: str) -> None:
    """Not 0: the pods are left out."""
    others = OtherShards(180.0)
    others.on_utilization(a_message(), NOW)
    assert {"p": USED} == pods(others, NOW + 175)
    assert pods(others, now, uid) is None


def test_nodes_that_were_deleted_are_dropped() -> None:
    others = OtherShards(180.0)
    others.on_utilization(a_message(), NOW)
    others.retain({"b": 1})
    assert pods(others) is None


def test_a_message_with_a_sample_of_the_future_is_implausible() -> None:
    """Its pods would count for too long."""
    assert "a sample is 400 s too new" == a_message(sampled_at=NOW + 400).implausible
    assert "" == a_message().implausible


def test_the_part_of_a_message_has_the_fields_of_the_whole() -> None:
    encoded = msgspec.json.encode(NODE_UTILIZATION)
    assert isinstance(msgspec.json.decode(encoded, type=NodeUtilization), NodeUtilization)
    assert converted(NODE_UTILIZATION, PublishedPods) == msgspec.json.decode(encoded, type=PublishedPods)
