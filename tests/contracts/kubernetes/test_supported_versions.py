"""The supported versions of Kubernetes are the same wherever somebody reads them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_fixtures import why_no_mutating_policies

from equipoise.contracts.kubernetes.mutating_policy import REQUIREMENT
from equipoise.contracts.kubernetes.supported_versions import (
    NEWEST_KUBERNETES,
    OLDEST_KUBERNETES,
    OLDEST_WITH_MUTATING_POLICIES,
    minor_versions,
)
from equipoise.testbed.binaries.build import (
    CONTROL_PLANE,
    KUBERNETES,
    NODE,
    OLDEST_KUBELET,
    BuildError,
    Module,
    control_plane,
    node_programs,
)

ROOT = Path(__file__).parents[3]
OLDEST, NEWEST = (".".join(map(str, version)) for version in (OLDEST_KUBERNETES, NEWEST_KUBERNETES))


def test_the_chart_refuses_older_versions() -> None:
    chart = (ROOT / "charts" / "equipoise" / "Chart.yaml").read_text()
    assert f'kubeVersion: ">={OLDEST}.0-0"' in chart


def test_the_chart_chooses_the_policy_from_the_same_version_on() -> None:
    oldest = minor_versions(OLDEST_WITH_MUTATING_POLICIES)[0]
    definitions = (ROOT / "charts" / "equipoise" / "templates" / "_definitions.tpl").read_text()

    assert f'semverCompare ">={oldest}.0-0"' in definitions
    assert REQUIREMENT in definitions


@pytest.mark.parametrize("kubernetes", [*minor_versions(), ""])
def test_tests_of_mutating_policies_are_skipped_on_older_versions(kubernetes: str) -> None:
    """With the reason; without a version the tests start the newest."""
    minor = int((kubernetes or NEWEST).partition(".")[2])
    reason = why_no_mutating_policies(kubernetes)

    assert (minor < 36) == bool(reason)
    assert kubernetes in reason or minor >= 36


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_the_docs_name_the_oldest_and_the_newest(page: str) -> None:
    assert f"Kubernetes {OLDEST} to {NEWEST}" in (ROOT / page).read_text()


def test_the_testbed_builds_the_newest_by_default() -> None:
    assert KUBERNETES.startswith(f"v{NEWEST}.")
    assert control_plane(NEWEST) is CONTROL_PLANE


@pytest.mark.parametrize(
    ("build", "newest", "minor"),
    [
        *((control_plane, CONTROL_PLANE, minor) for minor in minor_versions()),
        *((node_programs, NODE, minor) for minor in minor_versions(OLDEST_KUBELET)),
    ],
)
def test_the_testbed_builds_every_version(build: Callable[[str], Module], newest: Module, minor: str) -> None:
    """The version that the programs will print is one of that minor version, and they have a cache of their own."""
    module = build(minor)
    assert f"gitVersion=v{minor}." in module.link
    assert minor == NEWEST or module.key() != newest.key()
    assert module.name == newest.name if minor == NEWEST else module.name.endswith(f"-{minor}")


@pytest.mark.parametrize("minor", ["1.29", "1.38", "2.30", "1.3", "", "../1.30"])
def test_another_version_is_refused_by_name(minor: str) -> None:
    with pytest.raises(BuildError, match=r"choose one of 1\.30, 1\.31"):
        control_plane(minor)


def test_kubelets_of_an_older_version_are_refused_by_name() -> None:
    with pytest.raises(BuildError, match=r"node of Kubernetes 1\.33 cannot be built here; choose one of 1\.34, 1\.35"):
        node_programs("1.33")
