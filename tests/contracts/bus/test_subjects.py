"""What the subject of a message tells about its object."""

import pytest

from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.workload import Workload

WEB = Workload(kind="Deployment", group="apps", namespace="shop", name="web.v2")


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (subjects.node_placement("ip-10-0-0-1.internal"), "node ip-10-0-0-1.internal"),
        (subjects.node_utilization("a"), "node a"),
        (subjects.reclaimed_node("a"), "node a"),
        (subjects.eviction_intent("shop", "web-1"), "pod shop/web-1"),
        (subjects.placement_advice("shop", "web-1", "uid"), "pod shop/web-1"),
        (subjects.workload_utilization(WEB), "deployment shop/web.v2"),
        (subjects.SCORE_EXPLAIN, ""),
        (subjects.health("scorer", "scorer-1"), ""),
    ],
)
def test_a_subject_names_the_object_of_its_messages(subject: str, expected: str) -> None:
    assert subjects.object_of(subject) == expected
