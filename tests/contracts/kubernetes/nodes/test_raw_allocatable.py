"""The base of load when allocatable was amplified."""

import pytest

from equipoise.contracts.kubernetes.nodes.raw_allocatable import RAW_ALLOCATABLE, base_of
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus


def a_node(annotation: str | None) -> Node:
    """A node of 16 cores and 64 GiB whose allocatable is amplified to 32 cores."""
    return Node(
        metadata=ObjectMeta(name="a", annotations={} if annotation is None else {RAW_ALLOCATABLE: annotation}),
        status=NodeStatus(
            allocatable={"cpu": "32", "memory": "60Gi", "pods": "110"}, capacity={"cpu": "16", "memory": "64Gi"}
        ),
    )


def test_a_resource_that_was_not_amplified_is_unchanged() -> None:
    """The annotation contains only amplified resources."""
    assert base_of(a_node('{"cpu": "16"}'), "allocatable") == {"cpu": "16", "memory": "60Gi", "pods": "110"}


@pytest.mark.parametrize(
    "annotation",
    [
        None, "", "null", "[]", '{"cpu": 16}', '{"cpu": "many"}', '{"cpu": "0"}', '{"cpu": "-1"}', "{" * 9,
        '{"cpu": "1e308"}', '{"cpu": "10E"}', '{"cpu": ' + "[" * 50_000 + "]" * 50_000 + "}", "\ud800",
    ],
    ids=lambda annotation: repr(annotation)[:20],
)  # fmt: skip
def test_an_invalid_amount_is_ignored(annotation: str | None) -> None:
    """A node of 0 cores would always be overloaded."""
    assert base_of(a_node(annotation), "allocatable")["cpu"] == "32"


def test_capacity_is_never_amplified() -> None:
    """Load as a share of the capacity needs no correction."""
    assert base_of(a_node('{"cpu": "8"}'), "capacity") == {"cpu": "16", "memory": "64Gi"}
