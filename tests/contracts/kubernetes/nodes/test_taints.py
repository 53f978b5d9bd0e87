"""Tolerations match taints as in Kubernetes 1.36."""

import pytest

from equipoise.contracts.kubernetes.nodes.taints import tolerates
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration

TAINT = Taint(key="sla", value="950", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="sla", value="950"), True),
        (Toleration(key="sla", value="950", operator=""), True),
        (Toleration(key="sla", value="951"), False),
        (Toleration(key="sla", value="950", effect="NoSchedule"), True),
        (Toleration(key="sla", value="950", effect="NoExecute"), False),
        (Toleration(key="other", value="950"), False),
        (Toleration(key="sla", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(value="950"), True),  # the API server refuses it; ToleratesTaint compares the value
        (Toleration(key="sla", operator="Near", value="950"), False),
    ],
)
def test_keys_values_and_effects_are_compared(toleration: Toleration, tolerated: bool) -> None:
    """An empty key, an empty effect and the operator Exists match everything."""
    assert tolerates([toleration], TAINT) == tolerated


@pytest.mark.parametrize(
    ("operator", "value", "taint", "tolerated"),
    [
        ("Gt", "900", "950", True),
        ("Gt", "950", "950", False),
        ("Gt", "1000", "950", False),
        ("Lt", "1000", "950", True),
        ("Lt", "950", "950", False),
        ("Lt", "900", "950", False),
        ("Lt", "0", "-5", True),
        ("Gt", "-5", "0", True),
        ("Gt", "0900", "950", False),
        ("Gt", "+900", "950", False),
        ("Gt", "900", "", False),
        ("Gt", "900", "high", False),
        ("Lt", "9_000", "950", False),
    ],
)
def test_gt_and_lt_compare_the_taint_with_the_toleration(
    operator: str, value: str, taint: str, tolerated: bool
) -> None:
    """As whole numbers: the taint's value must be above (below) the toleration's; other texts match nothing."""
    toleration = Toleration(key="sla", operator=operator, value=value)

    assert tolerates([toleration], Taint(key="sla", value=taint, effect="NoExecute")) == tolerated


def test_one_matching_toleration_is_enough() -> None:
    """The others may be about anything."""
    tolerations = [Toleration(key="gpu", operator="Exists"), Toleration(key="sla", operator="Gt", value="900")]

    assert tolerates(tolerations, TAINT)
    assert not tolerates(tolerations[:1], TAINT)
    assert not tolerates([], TAINT)


@pytest.mark.parametrize("value", ["9" * 5_000, "9223372036854775808", "-9223372036854775809"], ids=len)
def test_a_number_that_has_no_64_bits_tolerates_nothing(value: str) -> None:
    for operator in ("Gt", "Lt"):
        assert not tolerates([Toleration(key="k", operator=operator, value=value)], Taint(key="k", value="5"))
        assert not tolerates([Toleration(key="k", operator=operator, value="5")], Taint(key="k", value=value))
