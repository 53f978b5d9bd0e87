"""The build of Karpenter, and what its kwok provider gets."""

import re

from equipoise.testbed.binaries.build import KARPENTER, MODULES
from equipoise.testbed.karpenter import InstanceType, node_pool


def test_its_version_is_pinned() -> None:
    """In go.mod, with a checksum in go.sum; the binary reports the same version."""
    module = (KARPENTER.source / "go.mod").read_text()
    pinned = re.search(r"^\s*sigs\.k8s\.io/karpenter v(1\.15\.\d+)", module, re.MULTILINE)

    assert pinned is not None
    assert f"tool {KARPENTER.package}\n" in module
    sums = (KARPENTER.source / "go.sum").read_text().splitlines()
    assert any(line.startswith(f"sigs.k8s.io/karpenter v{pinned[1]} h1:") for line in sums)
    assert KARPENTER.link.endswith(f"operator.Version={pinned[1]}")


def test_it_is_built_for_no_cluster_and_with_its_own_name() -> None:
    """The build takes minutes, and only a benchmark needs it. Its package is named like another program."""
    assert KARPENTER not in MODULES
    assert KARPENTER.name == "karpenter"


def test_a_node_has_what_its_instance_type_says_after_what_the_provider_reserves() -> None:
    document = InstanceType(name="small", cpu_milli=4_000, memory_mib=1_024, price=0.2).document()

    assert {"cpu": "4100m", "memory": "1034Mi"}.items() <= document["resources"].items()
    assert [offering["Price"] for offering in document["offerings"]] == [0.2]


def test_a_node_pool_without_a_policy_removes_no_node() -> None:
    """Not even an empty one: nodes are made before the pods of a run."""
    assert node_pool(None)["spec"]["disruption"]["consolidateAfter"] == "Never"
    assert node_pool("Balanced")["spec"]["disruption"] == {
        "consolidationPolicy": "Balanced",
        "consolidateAfter": "0s",
    }
    assert node_pool(None)["spec"]["template"] == node_pool("Balanced")["spec"]["template"]
