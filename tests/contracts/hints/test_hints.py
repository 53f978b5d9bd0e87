"""Placement hints as objects of the API server, and their generated manifests."""

from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest
import yaml
from deployment.base import ROOT
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.hints.hints_object import (
    MAX_BYTES,
    Hint,
    HintsObject,
    remaining_validity,
    stored_hints,
    workload_hints,
)
from equipoise.contracts.hints.policy import binding, policy
from equipoise.contracts.hints.shared_hints import divided_hints
from equipoise.contracts.kubernetes.mutating_policy import API_VERSIONS, supported_version
from equipoise.contracts.messages.placement import PlacementHints, WeightedNodes, WorkloadHint
from equipoise.runtime.kubernetes.policy_manifests import policy_manifests

NODES = [f"ip-10-0-{number}-17.eu-west-1.compute.internal" for number in range(100)]

weighted = st.builds(
    WeightedNodes,
    weight=st.integers(1, 100),
    hostnames=st.lists(st.sampled_from(NODES), min_size=1, max_size=50).map(tuple),
)
single_hints = st.builds(
    WorkloadHint, prefer=st.lists(weighted, max_size=4).map(tuple), avoid=st.none() | weighted
).filter(lambda hint: hint.prefer or hint.avoid)
hints = st.lists(single_hints, min_size=1, max_size=3).flatmap(
    lambda common: st.dictionaries(
        st.text(st.characters(codec="ascii", categories=["L"]), min_size=1),
        st.sampled_from(common) | single_hints,
        max_size=10,
    )
)
"""Hints of workloads, some of which several have."""


def a_hint(nodes: list[str]) -> WorkloadHint:
    """The default of four groups of five nodes, and 25 to avoid."""
    groups = [WeightedNodes(weight=50, hostnames=tuple(nodes[at : at + 5])) for at in range(0, 20, 5)]
    return WorkloadHint(prefer=tuple(groups), avoid=WeightedNodes(weight=50, hostnames=tuple(nodes[20:45])))


@pytest.mark.parametrize("name", policy_manifests())
def test_the_manifests_are_the_generated_ones(name: str) -> None:
    """`python -m equipoise.runtime.kubernetes.policy_manifests k8s` writes them."""
    assert policy_manifests()[name] == (ROOT / "k8s" / name).read_text()


def test_the_policies_of_all_versions_differ_in_their_version_only() -> None:
    for manifest in (policy, binding):
        bodies = [{**manifest(version), "apiVersion": ""} for version in API_VERSIONS]

        assert [bodies[0]] * len(bodies) == bodies


def test_every_resource_of_the_kustomization_exists() -> None:
    """It names the policy of the newest version."""
    folder = ROOT / "k8s" / "hints"
    resources = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]

    assert [name for name in resources if not (folder / name).exists()] == []
    assert "policy.yaml" in resources
    assert "/v1\n" in (folder / "policy.yaml").read_text().split("kind:")[0]


@pytest.mark.parametrize(
    ("served", "expected"),
    [(["v1", "v1beta1"], "v1"), (["v1beta1", "v1alpha1"], "v1beta1"), (["v1alpha1"], None), ([], None)],
)
def test_the_newest_supported_version_is_used(served: list[str], expected: str | None) -> None:
    assert expected == supported_version(served)


@given(hints)
def test_what_is_stored_is_read_as_it_was(hints: dict[str, WorkloadHint]) -> None:
    assert hints == workload_hints(stored_hints(hints, 2**20))


@given(hints, st.integers(0, 3_000))
def test_the_first_hints_are_stored_as_far_as_there_is_space(hints: dict[str, WorkloadHint], space: int) -> None:
    """The order is that of the message: most likely to get pods first."""
    stored = stored_hints(hints, space)
    read = workload_hints(stored)

    assert {key: hints[key] for key in [*hints][: len(read)]} == read
    assert len(msgspec.json.encode(stored)) <= space + 60  # the names of the fields


def test_an_object_has_space_for_the_hints_of_hundreds_of_workloads() -> None:
    """On 100 nodes with long names, each with other nodes; with the names in every term it would be 20."""
    several = [nodes[at:] + nodes[:at] for nodes in (NODES, NODES[::-1]) for at in range(len(NODES))]
    hints = {f"Deployment.workload-{number:03}": a_hint(nodes) for number, nodes in enumerate(several)}

    assert 150 < len(stored_hints(hints, MAX_BYTES).distinct_hints)


def test_an_object_holds_a_hint_once_that_several_workloads_have() -> None:
    """So it has space for a thousand of them. Others have their own."""
    hints = {f"Deployment.workload-{number:04}": a_hint(NODES) for number in range(1_000)}
    hints["Deployment.other"] = a_hint(NODES[1:])
    stored = stored_hints(hints, MAX_BYTES)

    assert (2, {"Deployment.other"}) == (
        len(stored.distinct_hints),
        {key for key, index in stored.workloads.items() if index == 1},
    )
    assert hints == workload_hints(stored)


@given(hints)
def test_a_message_has_the_hints_of_all_workloads(hints: dict[str, WorkloadHint]) -> None:
    """Each hint once, in its own field if one workload alone has it."""
    divided = divided_hints(hints)
    message = PlacementHints(
        namespace="shop", computed_at=0.0, hints=divided.hints, shared=divided.shared, workloads=divided.workloads
    )

    assert hints == message.by_workload
    assert len({*hints.values()}) == len(message.hints) + len(message.shared)
    assert set(Counter(message.workloads.values()).values()) <= set(range(2, 11))


def test_the_own_hint_of_a_workload_counts_before_a_shared_one() -> None:
    """In a message; in an object, that of an earlier version, which the admission policy uses as well."""
    shared, own = (WorkloadHint(avoid=WeightedNodes(weight=weight, hostnames=("a",))) for weight in (1, 2))
    message = PlacementHints(
        namespace="shop", computed_at=0.0, hints={"Job.x": own}, shared=(shared,), workloads={"Job.x": 0, "Job.z": 1}
    )
    document = {
        "hostnames": ["a"],
        "hints": {"Job.x": {"avoid": {"weight": 2, "nodes": [0]}}},
        "nodes": "a",
        "distinctHints": ["-1:0"],
        "workloads": {"Job.x": 0, "Job.z": 1},
    }
    stored = msgspec.convert(document, HintsObject)

    assert {"Job.x": own} == message.by_workload == workload_hints(stored)
    assert own == stored.hint("Job.x")
    assert stored.hint("Job.z") is None


def test_a_hint_for_an_unlisted_node_is_left_out() -> None:
    """As the policy, which finds no name and adds nothing."""
    hints = {"Job.x": {"prefer": [{"weight": 1, "nodes": [1]}]}, "Job.y": {"avoid": {"weight": 2, "nodes": [0]}}}
    earlier = msgspec.convert({"hostnames": ["a"], "hints": hints}, HintsObject)
    stored = HintsObject(nodes="a", distinct_hints=("1:1", "-2:0", "1:-1", "x"), workloads={
        "Job.x": 0, "Job.y": 1, "Job.z": 2, "Job.unreadable": 3, "Job.unlisted": 4,
    })  # fmt: skip
    expected = {"Job.y": WorkloadHint(avoid=WeightedNodes(weight=2, hostnames=("a",)))}

    for each in (earlier, stored):
        assert expected == workload_hints(each) == {key: each.hint(key) for key in each.keys if each.hint(key)}


@pytest.mark.parametrize(
    ("until", "hints", "expected"), [(130, 1, 30.0), (90, 1, -10.0), (130, 0, None), (None, 1, None)]
)
def test_hints_are_valid_until_their_time_and_an_object_without_hints_never(
    until: float | None, hints: int, expected: float | None
) -> None:
    stored = HintsObject(
        until=None if until is None else datetime.fromtimestamp(until, UTC),
        hints={f"Job.{number}": Hint() for number in range(hints)},
    )

    assert expected == remaining_validity(stored, 100.0)
