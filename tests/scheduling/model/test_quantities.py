"""Quantities are read as kube-scheduler reads them, whatever their size."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.unreadable.lenient_decoding import convert_object
from equipoise.scheduling.model.amounts import allocatable, requested, requested_by_containers, requested_or_assumed
from equipoise.scheduling.model.quantities import MILLI, ZERO, read_quantity

DATA = Path(__file__).parents[2] / "data" / "kubernetes"


def table(name: str, key: str) -> list[Any]:
    rows: list[Any] = json.loads((DATA / f"{name}.json").read_text())[key]
    return rows


def test_sums_are_those_of_apimachinery() -> None:
    """Binary and decimal suffixes, exponents, tiny and huge numbers, negative ones, and sums that overflow."""
    for texts, expected in table("quantities", "sums"):
        try:
            total = sum((read_quantity(text) for text in texts), ZERO)
            found = [total.value(), total.value(MILLI)]
        except ValueError:
            found = None
        assert (texts, found) == (texts, expected)


def test_requests_of_pods_are_those_of_component_helpers() -> None:
    """Containers, sidecars, init containers, overhead and pod-level requests."""
    for spec, requests, assumed in table("pod_requests", "pods"):
        pod = convert_object({"metadata": {"name": "p"}, "spec": spec}, Pod)
        assert (spec, requested(pod)) == (spec, requests)
        without = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resources=None))
        assert (spec, requested_by_containers(without)) == (spec, assumed)


@pytest.mark.parametrize(
    ("cpu", "millicores"),
    [
        ("1e308", 0),
        ("100e306", 0),
        ("10E", 0),
        ("9223372036854775807", -1_000),
        ("9223372036854775808", 0),
        ("8Ei", -1_000),
        ("1n", 1),
        ("0.1n", 1),
        ("1100m", 1_100),
        ("1.1", 1_100),
    ],
)
def test_an_amount_that_no_machine_has_is_read_as_kube_scheduler_reads_it(cpu: str, millicores: int) -> None:
    spec = {"containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    pod = convert_object({"metadata": {"name": "p"}, "spec": spec}, Pod)
    assert requested(pod) == {"cpu": millicores}
    assert requested_or_assumed(pod) == (millicores, 200 * 2**20)
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(allocatable={"cpu": cpu}))
    assert allocatable(node) == {"cpu": millicores}


@given(st.lists(st.text("0123456789.eE+-numkMGTPi", max_size=30), max_size=5))
def test_any_texts_are_64_bits_or_an_error(texts: list[str]) -> None:
    try:
        total = sum(map(read_quantity, texts), ZERO)
    except ValueError:
        return
    for scale in (0, MILLI):
        assert -(2**63) <= total.value(scale) < 2**63


@pytest.mark.parametrize(
    ("text", "value", "thousandths"),
    [
        ("9" * 5_000, -1, -1_000),
        ("18446744073709551616" + "0" * 5_000, 0, 0),
        ("9" * 5_000 + "Ki", 2**63 - 1, -1_000),
        ("0." + "1" * 5_000, 1, 112),
    ],
)
def test_thousands_of_digits_are_read_as_kube_scheduler_reads_them(text: str, value: int, thousandths: int) -> None:
    """The values of apimachinery 0.36.3."""
    assert (read_quantity(text).value(), read_quantity(text).value(MILLI)) == (value, thousandths)


def test_an_exponent_of_thousands_of_digits_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not "):
        read_quantity("1e" + "9" * 5_000)
