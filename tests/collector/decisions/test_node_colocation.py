"""Reclaimed resources in a node's status and in Koordinator's annotations."""

import json

import pytest

from equipoise.collector.decisions.node_colocation import RESERVATION, THIRD_PARTY, node_colocation
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.messages.placement import NodeColocation
from equipoise.contracts.messages.values.resources import Resources

GIB = 2**30


def node(allocatable: dict[str, str] | None = None, **annotations: str) -> Node:
    keys = {"reservation": RESERVATION, "third_party": THIRD_PARTY}
    amounts = {"cpu": "8", "memory": "32Gi", **(allocatable or {})}
    return Node(
        metadata=ObjectMeta(name="a", annotations={keys[name]: text for name, text in annotations.items()}),
        status=NodeStatus(allocatable=amounts, capacity=amounts),
    )


def test_a_node_without_reclaimed_resources_has_none() -> None:
    assert node_colocation(node()) == NodeColocation()


def test_amounts_of_a_status_are_cores_and_bytes() -> None:
    found = node_colocation(node({"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}))
    assert found.amounts == found.capacity_amounts == {"batch": Resources(cpu=1.5, memory=2 * GIB)}


def test_an_amount_that_cannot_be_parsed_is_unknown() -> None:
    found = node_colocation(node({"kubernetes.io/mid-cpu": "many", "kubernetes.io/mid-memory": "1k"}))
    assert found.amounts == {"mid": Resources(memory=1_000)}


@pytest.mark.parametrize(
    ("reservation", "expected"),
    [
        ({"resources": {"cpu": "1500m", "memory": "1Gi"}}, Resources(cpu=1.5, memory=GIB)),
        ({"resources": {"cpu": "1500m"}, "reservedCPUs": "0-2,8"}, Resources(cpu=4.0)),
    ],
)
def test_a_list_of_reserved_cpus_counts_in_place_of_an_amount(reservation: object, expected: Resources) -> None:
    assert node_colocation(node(reservation=json.dumps(reservation))).reserved == expected


def test_allocations_of_other_programs_are_added_up_by_band() -> None:
    amounts = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/mid-cpu": "7"}
    allocations = [{"priority": "koord-batch", "resources": amounts}] * 2
    allocations.append({"priority": "koord-prod", "resources": amounts})
    found = node_colocation(node(third_party=json.dumps({"allocations": allocations})))
    assert found.third_party == {"batch": Resources(cpu=2.0)}


@pytest.mark.parametrize(
    "reservation",
    [
        "{",
        {"reservedCPUs": "none"},
        {"reservedCPUs": "8-3"},
        {"reservedCPUs": "1,,2"},
        {"resources": {"cpu": "-"}},
        {"resources": {"cpu": "-2"}},
        {"resources": {"memory": "many"}},
        {"resources": []},
    ],
)
def test_a_reservation_that_cannot_be_read_is_named_and_not_taken_for_none(reservation: object) -> None:
    text = reservation if isinstance(reservation, str) else json.dumps(reservation)
    assert RESERVATION in node_colocation(node(reservation=text)).invalid


@pytest.mark.parametrize(
    "amounts", [None, {"kubernetes.io/batch-cpu": "-1000"}, {"kubernetes.io/batch-memory": "much"}]
)
def test_allocations_that_cannot_be_read_are_named_and_not_taken_for_none(amounts: object) -> None:
    text = json.dumps({"allocations": [{"priority": "koord-batch", "resources": amounts}]}) if amounts else "{"
    found = node_colocation(node(third_party=text))
    assert THIRD_PARTY in found.invalid
    assert found.third_party == {}


DEEP = "[" * 50_000 + "]" * 50_000


@pytest.mark.parametrize(
    "annotations",
    [
        {"reservation": '{"other": ' + DEEP + "}"},
        {"third_party": '{"other": ' + DEEP + "}"},
        {"reservation": '{"resources": {"cpu": "1e308"}}'},
        {"reservation": '{"reservedCPUs": "0-' + "9" * 5_000 + '"}'},
        {"reservation": '{"reservedCPUs": "0-9999999"}'},
        {
            "third_party": '{"allocations": [{"priority": "koord-batch", "resources": '
            '{"kubernetes.io/batch-cpu": "1e308"}}]}'
        },
    ],
    ids=lambda annotations: str(annotations)[:60],
)
def test_an_annotation_without_bounds_is_invalid_and_ends_nothing(annotations: dict[str, str]) -> None:
    """Whoever may write annotations of nodes writes any text."""
    found = node_colocation(node(**annotations))
    assert found.invalid
    assert found.reserved == Resources()
    assert len(found.invalid) < 400


def test_an_amount_of_a_status_that_no_machine_has_is_unknown() -> None:
    assert node_colocation(node({"kubernetes.io/batch-cpu": "1e308"})).amounts == {}
