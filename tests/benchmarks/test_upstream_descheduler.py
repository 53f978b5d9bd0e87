"""The build and the policy of the upstream descheduler."""

import re

from bench.descheduler.upstream_descheduler import prometheus_policy

from equipoise.testbed.binaries.build import DESCHEDULER, MODULES


def test_its_version_is_pinned() -> None:
    """In go.mod, with a checksum in go.sum; the binary reports the same version."""
    module = (DESCHEDULER.source / "go.mod").read_text()
    pinned = re.search(r"^\s*sigs\.k8s\.io/descheduler (v0\.36\.\d+)", module, re.MULTILINE)

    assert pinned is not None
    assert f"tool {DESCHEDULER.package}\n" in module
    sums = (DESCHEDULER.source / "go.sum").read_text().splitlines()
    assert any(line.startswith(f"sigs.k8s.io/descheduler {pinned[1]} h1:") for line in sums)
    assert f"version.version={pinned[1]} " in DESCHEDULER.link


def test_it_is_not_built_for_a_cluster() -> None:
    """The build takes minutes, and only a benchmark needs it."""
    assert DESCHEDULER not in MODULES


def test_its_ca_file_is_in_its_working_directory() -> None:
    """Not under /var/run of the machine."""
    path = re.search(r"client\.K8sPodCAFilePath=(\S+)", DESCHEDULER.link)

    assert path is not None
    assert not path[1].startswith("/")


def test_the_policy_has_thresholds_for_metric_resource_only() -> None:
    """The only resource that the descheduler accepts with Prometheus."""
    policy = prometheus_policy(
        prometheus_url="http://prometheus:9090",
        query="load",
        low=45,
        high=65,
        deviation=False,
        evictions_per_node=2,
        excluded_namespaces=["payments"],
    )

    configured = {entry["name"]: entry["args"] for entry in policy["profiles"][0]["pluginConfig"]}
    arguments = configured["LowNodeUtilization"]
    assert {"MetricResource": 45} == arguments["thresholds"]
    assert {"MetricResource": 65} == arguments["targetThresholds"]
    assert {"node": 2} == arguments["evictionLimits"]
    assert {"exclude": ["payments"]} == arguments["evictableNamespaces"]
    assert ["LowNodeUtilization"] == policy["profiles"][0]["plugins"]["balance"]["enabled"]
    assert configured["DefaultEvictor"] == {"nodeFit": True}
