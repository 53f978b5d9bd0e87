"""Large objects are excluded from garbage collection: a collection of them would stop everything else for a second."""

import gc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from builders import a_node_utilization, a_placed_pod, a_placement
from kube_objects import a_pod

from equipoise.contracts.kubernetes.objects.pod import Pod


def structs(value: Any) -> Iterator[msgspec.Struct]:
    """It and all that it holds."""
    if isinstance(value, msgspec.Struct):
        yield value
        value = msgspec.structs.astuple(value)
    for held in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from structs(held)


POD = b'{"metadata": {"name": "web"}, "spec": {"tolerations": [{}], "containers": [{}]}, "status": {"conditions": []}}'


@pytest.mark.parametrize(
    "value",
    [
        a_pod(),
        a_node_utilization(),
        a_placement(pods=[a_placed_pod()]),
        msgspec.json.decode(POD, type=Pod),
    ],
    ids=["pod", "utilization", "placement", "pod as received"],
)
def test_objects_are_not_tracked_by_the_garbage_collector(value: msgspec.Struct) -> None:
    """None of their parts is, other than lists and dictionaries."""
    assert [type(part) for part in structs(value) if gc.is_tracked(part)] == []
