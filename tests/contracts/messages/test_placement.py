"""Placements that are too large, and hints: what the API server would refuse in a pod is refused as a message."""

from typing import Any

import msgspec
import pytest
from builders import NOW, a_placed_pod, a_placement

from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import PLACEMENT_HINTS, GonePod, PlacementHints, hint_key


@pytest.mark.parametrize("weight", [0, 101, 5.5])
def test_a_weight_that_a_pod_must_not_have_is_refused(weight: float) -> None:
    """With it, every new pod of the workload would be refused."""
    with pytest.raises(msgspec.ValidationError, match="weight"):
        read(weight=weight)


@pytest.mark.parametrize("hostnames", [[], [f"node-{number}" for number in range(51)]])
def test_a_term_has_1_to_50_hostnames(hostnames: list[str]) -> None:
    """A term without values is invalid in a pod, and the size of the objects stays limited."""
    with pytest.raises(msgspec.ValidationError, match="hostnames"):
        read(hostnames=hostnames)


def read(**fields: Any) -> PlacementHints:
    """The example, with these fields in its first preferred term."""
    document = msgspec.to_builtins(PLACEMENT_HINTS)
    [hint] = document["hints"].values()
    hint["prefer"][0].update(fields)
    return msgspec.json.decode(msgspec.json.encode(document), type=PlacementHints)


def test_the_key_is_kind_and_name() -> None:
    """As the admission policy derives it from the owner of a pod: it does not know the group of a Deployment."""
    assert hint_key(Workload(kind="Deployment", group="apps", namespace="shop", name="web")) == "Deployment.web"


@pytest.mark.parametrize("gone", [0, 1, 2, 3, 500])
def test_smaller_placements_have_all_pods_and_those_that_left_last(gone: int) -> None:
    """None is larger than the one before."""
    left = [
        GonePod(uid=f"{number}", namespace="shop", name="web", running_since=NOW, gone_at=NOW + number)
        for number in range(gone)
    ]
    pods = [a_placed_pod(tolerations=(Toleration(key="dedicated", operator="Exists"),))]
    whole = a_placement(pods=pods, gone=left)

    smaller = [message for message, _ in whole.smaller()]
    sizes = [len(msgspec.json.encode(message)) for message in (whole, *smaller)]

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[1] < sizes[0]
    assert all(message.gone == left[gone - len(message.gone) :] for message in smaller)
    assert all([pod.name for pod in message.pods] == ["web-1"] for message in smaller)
    assert (smaller[-1].pods[0].tolerations, smaller[-1].gone) == ((), [])
