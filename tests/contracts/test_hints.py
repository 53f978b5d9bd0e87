"""Placement hints as objects of the API server, and their generated manifests."""

from datetime import UTC, datetime

import msgspec
import pytest
import yaml
from deployment.base import ROOT
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.hints.hints_object import Hint, HintsObject, remaining_validity, stored_hints, workload_hints
from equipoise.contracts.hints.policy import binding, policy
from equipoise.contracts.kubernetes.mutating_policy import API_VERSIONS, supported_version
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint
from equipoise.runtime.kubernetes.policy_manifests import policy_manifests

NODES = [f"ip-10-0-{number}-17.eu-west-1.compute.internal" for number in range(100)]

weighted = st.builds(
    WeightedNodes,
    weight=st.integers(1, 100),
    hostnames=st.lists(st.sampled_from(NODES), min_size=1, max_size=50).map(tuple),
)
hints = st.dictionaries(
    st.text(st.characters(codec="ascii", categories=["L"]), min_size=1),
    st.builds(WorkloadHint, prefer=st.lists(weighted, max_size=4).map(tuple), avoid=st.none() | weighted),
    max_size=10,
)


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

    assert [*hints][: len(stored.hints)] == [*stored.hints]
    assert len(msgspec.json.encode(stored.hints)) + sum(len(name) + 3 for name in stored.hostnames) <= space + 2


def test_an_object_has_space_for_the_hints_of_hundreds_of_workloads() -> None:
    """On 100 nodes with long names, each with other nodes; with the names in every term it would be 20."""
    hints = {f"Deployment.workload-{number:03}": a_hint(NODES[number % 50 :]) for number in range(1_000)}

    assert 150 < len(stored_hints(hints, 60 * 1024).hints) < 1_000


def test_a_hint_for_an_unlisted_node_is_left_out() -> None:
    """As the policy, which finds no name and adds nothing."""
    hints = {"Job.x": {"prefer": [{"weight": 1, "nodes": [1]}]}, "Job.y": {"avoid": {"weight": 2, "nodes": [0]}}}
    stored = msgspec.convert({"hostnames": ["a"], "hints": hints}, HintsObject)

    assert {"Job.y": WorkloadHint(avoid=WeightedNodes(weight=2, hostnames=("a",)))} == workload_hints(stored)


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
