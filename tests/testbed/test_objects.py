"""Annotations for usage curves."""

import pytest

from equipoise.testbed.objects import usage_annotations
from equipoise.testbed.processes.loopback import PortBlock


def test_a_curve_has_one_annotation_per_step_and_resource() -> None:
    """As plain decimals."""
    expected = {
        "usage.testbed/epoch": "1700000000",
        "usage.testbed/step-seconds": "5",
        "usage.testbed/period-seconds": "10",
        "usage.testbed/cpu-0": "100m",
        "usage.testbed/cpu-1": "12.346m",
        "usage.testbed/memory-0": "2000000Mi",
        "usage.testbed/memory-1": "0Mi",
    }

    assert usage_annotations([100, 12.3456], [2e6, 0], 5, 1700000000) == expected


@pytest.mark.parametrize(
    ("cpu", "memory", "step", "reason"),
    [([1], [1, 2], 5, "as many steps"), ([], [], 5, "at least one"), ([1], [1], 0, "at least 1 second")],
)
def test_invalid_curves_are_refused(cpu: list[float], memory: list[float], step: int, reason: str) -> None:
    """CPU and memory need the same number of steps, at least one, of at least one second."""
    with pytest.raises(ValueError, match=reason):
        usage_annotations(cpu, memory, step, 0)


def test_a_curve_above_the_size_limit_of_annotations_is_refused() -> None:
    """Before the API server refuses it."""
    with pytest.raises(ValueError, match="over 262144"):
        usage_annotations([1.5] * 6000, [1.5] * 6000, 1, 0)


def test_two_clusters_never_use_the_same_ports() -> None:
    first, second = PortBlock(), PortBlock()
    blocks = {block.take() // 32 for block in (first, second) for _ in range(2)}
    first.release()
    second.release()

    assert len(blocks) == 2
