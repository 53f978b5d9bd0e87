"""The supported versions of Kubernetes are the same wherever somebody reads them."""

from pathlib import Path

import pytest

from equipoise.contracts.kubernetes.supported_versions import NEWEST_KUBERNETES, OLDEST_KUBERNETES, minor_versions
from equipoise.testbed.binaries.build import CONTROL_PLANE, KUBERNETES, BuildError, control_plane

ROOT = Path(__file__).parents[2]
OLDEST, NEWEST = (".".join(map(str, version)) for version in (OLDEST_KUBERNETES, NEWEST_KUBERNETES))


def test_the_chart_refuses_older_versions() -> None:
    chart = (ROOT / "charts" / "equipoise" / "Chart.yaml").read_text()
    assert f'kubeVersion: ">={OLDEST}.0-0"' in chart


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_the_docs_name_the_oldest_and_the_newest(page: str) -> None:
    assert f"Kubernetes {OLDEST} to {NEWEST}" in (ROOT / page).read_text()


def test_the_testbed_builds_the_newest_by_default() -> None:
    assert KUBERNETES.startswith(f"v{NEWEST}.")
    assert control_plane(NEWEST) is CONTROL_PLANE


@pytest.mark.parametrize("minor", minor_versions())
def test_the_testbed_builds_every_version(minor: str) -> None:
    """The version that its API server will state is one of that minor version, and has a cache of its own."""
    module = control_plane(minor)
    assert f"gitVersion=v{minor}." in module.link
    assert minor == NEWEST or module.key() != CONTROL_PLANE.key()


@pytest.mark.parametrize("minor", ["1.29", "1.38", "2.30", "1.3", "", "../1.30"])
def test_another_version_is_refused_by_name(minor: str) -> None:
    with pytest.raises(BuildError, match=r"choose one of 1\.30, 1\.31"):
        control_plane(minor)
