"""A usage curve becomes annotations that kwok can read."""

import pytest

from equipoise.testbed.processes.ports import PortBlock
from equipoise.testbed.usage import usage_annotations


def test_a_curve_as_annotations() -> None:
    """One annotation per step and resource, as plain decimals."""
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
def test_a_curve_that_kwok_could_not_read(cpu: list[float], memory: list[float], step: int, reason: str) -> None:
    """Steps must be equally many, some, and whole seconds long."""
    with pytest.raises(ValueError, match=reason):
        usage_annotations(cpu, memory, step, 0)


def test_a_curve_too_long_for_an_object() -> None:
    """A curve over Kubernetes' limit is refused here, with its size, not by the API server."""
    with pytest.raises(ValueError, match="over 262144"):
        usage_annotations([1.5] * 6000, [1.5] * 6000, 1, 0)


def test_port_blocks_never_overlap() -> None:
    """Two clusters at once draw from different ports."""
    first, second = PortBlock(), PortBlock()
    drawn = {block.take() // 32 for block in (first, second) for _ in range(2)}
    first.release()
    second.release()

    assert len(drawn) == 2
