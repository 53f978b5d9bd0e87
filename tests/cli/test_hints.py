"""What `equipoise hints` and `explain pod` print. tests/e2e/test_placement_hints.py has an API server."""

import io
from datetime import UTC, datetime

import pytest
from builders import NOW, preferring
from rich.console import Console

from equipoise.cli.explain.pod_hint import PodHint, pod_hint
from equipoise.cli.hints.run import NamespaceHints, namespace_hints, show
from equipoise.contracts.hints.hints_object import HintsObject, stored_hints
from equipoise.contracts.hints.policy import HINTED
from equipoise.contracts.kubernetes.objects import ObjectMeta, Pod, PodSpec
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint

FIVE = WeightedNodes(weight=50, hostnames=("a", "b", "c", "d", "e"))
HINTS = {
    "Deployment.web": WorkloadHint(prefer=(FIVE, WeightedNodes(weight=12, hostnames=("b", "f")))),
    "StatefulSet.web": WorkloadHint(avoid=FIVE),
    "Job.import": WorkloadHint(prefer=(FIVE,)),
}


def stored() -> HintsObject:
    contents = stored_hints(HINTS, 10_000)
    return HintsObject(
        metadata=ObjectMeta(resource_version="812"),
        until=datetime.fromtimestamp(NOW + 200, UTC),
        hostnames=contents.hostnames,
        hints=contents.hints,
    )


@pytest.mark.parametrize(
    ("workload", "keys"),
    [
        ("", [*HINTS]),
        ("web", ["Deployment.web", "StatefulSet.web"]),
        ("Job.import", ["Job.import"]),
        ("import", ["Job.import"]),
        ("we", []),
    ],
)
def test_a_workload_is_found_by_its_name(workload: str, keys: list[str]) -> None:
    """Or by kind and name; without any, all of the namespace are shown."""
    found = namespace_hints(stored(), "shop", workload, NOW)

    assert {key: HINTS[key] for key in keys} == found.hints
    assert "812" == found.version


def printed(found: NamespaceHints, now: float, *, wide: bool = False) -> str:
    output = io.StringIO()
    show(found, Console(file=output, width=200), wide=wide, now=now)
    return output.getvalue()


def test_the_nodes_with_the_highest_weights_are_shown() -> None:
    """The weight of a node is the sum of its terms. With -o wide all nodes are shown."""
    found = namespace_hints(stored(), "shop", "", NOW)
    text = printed(found, NOW)

    assert "shop, version 812, until 2027-01-15 08:03:20 UTC (valid for 3.3 min)" in text
    assert "Deployment.web   prefer      6  b 62, a 50, c 50, …" in text
    assert "StatefulSet.web  avoid       5  a 50, b 50, c 50, …" in text
    assert "b 62, a 50, c 50, d 50, e 50, f 12" in printed(found, NOW, wide=True)


def test_expired_hints_are_named_as_such() -> None:
    found = namespace_hints(stored(), "shop", "web", NOW + 260)

    assert found.expired
    assert "(expired 60 s ago: new pods get none)" in printed(found, NOW + 260)


@pytest.mark.parametrize(
    ("hostname", "weight", "text"),
    [
        ("a", 50, "its node is preferred with weight 50"),
        ("b", 70, "its node is preferred with weight 70"),
        ("d", -30, "its node is avoided with weight 30"),
        ("x", 0, "its node is neither"),
        (None, None, "2 nodes preferred, 1 avoided"),
    ],
)
def test_whether_a_pod_followed_its_hint_is_known_from_the_pod(
    hostname: str | None, weight: int | None, text: str
) -> None:
    """Also when its hints have changed since. Preferences of the user for other labels are none of the hint."""
    host = "kubernetes.io/hostname"
    affinity = preferring(
        (7, "disk", "In", ["a"]),
        (50, host, "In", ["a", "b"]),
        (20, host, "In", ["b"]),
        (30, host, "NotIn", ["d"]),
    )
    metadata = ObjectMeta(annotations={HINTED: "Deployment.web@812"})
    found = pod_hint(Pod(metadata=metadata, spec=PodSpec(affinity=affinity)), hostname)

    assert PodHint(workload="Deployment.web", version="812", preferred=2, avoided=1, node_weight=weight) == found
    assert str(found).startswith("created with the placement hint of Deployment.web: 2 nodes preferred, 1 avoided")
    assert str(found).endswith(text)
